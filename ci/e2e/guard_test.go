package e2e

import (
	"fmt"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

var (
	scopeOrg    = shared.api(rig.API{ID: "scope-org", RateLimit: rig.Object{"scope": "org"}})
	scopePolicy = shared.api(rig.API{ID: "scope-policy", RateLimit: rig.Object{"scope": "policy"}})
	scopeTeam   = shared.api(rig.API{ID: "scope-team", RateLimit: rig.Object{"scope": "metadata:team"}})
)

func init() {
	policies["scoped"] = rig.Object{
		"org_id": rig.Org, "active": true, "quota_max": -1,
		"access_rights": rig.Object{scopePolicy: rig.Object{"api_id": scopePolicy, "api_name": scopePolicy, "versions": []string{"Default"}}},
		"meta_data":     limits("1/h burst 3"),
	}
}

func TestScopesShareABucket(t *testing.T) {
	t.Parallel()
	for api, keys := range map[string][2]rig.Key{
		scopeOrg:    {{Metadata: limits("1/h burst 3")}, {Metadata: limits("1/h burst 3")}},
		scopePolicy: {{Policies: []string{"scoped"}}, {Policies: []string{"scoped"}}},
		scopeTeam:   {{Metadata: rig.Object{"ratelimit": "1/h burst 3", "team": "x"}}, {Metadata: rig.Object{"ratelimit": "1/h burst 3", "team": "x"}}},
	} {
		c := of(t, api)
		a, b := c.newKey(keys[0]), c.newKey(keys[1])
		c.admits(2, 2, rig.Request{Key: a})
		c.admits(1, 3, rig.Request{Key: b})
		c.admits(0, 1, rig.Request{Key: a})
		if api == scopeTeam {
			c.admits(3, 4, rig.Request{Key: c.key(rig.Object{"ratelimit": "1/h burst 3", "team": "y"})})
		}
	}
}

var totalAPIs = []string{
	shared.api(rig.API{ID: "org-total-a", RateLimit: rig.Object{"org_total": "1/h burst 5"}}),
	shared.api(rig.API{ID: "org-total-b", OAS: true, RateLimit: rig.Object{"org_total": "1/h burst 5"}}),
	shared.api(rig.API{ID: "org-total-c", Keyless: true, RateLimit: rig.Object{"org_total": "1/h burst 5"}}),
}

func TestOrgTotalIsOneForItsAPIs(t *testing.T) {
	t.Parallel()
	a, b, keyless := of(t, totalAPIs[0]), of(t, totalAPIs[1]), of(t, totalAPIs[2])
	a.admits(2, 2, rig.Request{Key: a.key(nil)})
	b.admits(2, 2, rig.Request{Key: b.key(limits("unlimited"))})
	keyless.admits(1, 2, rig.Request{})
	if got := a.wantRefused(a.key(nil)).Header.Get("RateLimit-Policy"); got != `"org-total";q=1;w=3600` {
		t.Errorf("refused by %s", got)
	}
}

var unknown = shared.api(rig.API{ID: "unknown", RateLimit: rig.Object{"unknown": "1/1000s burst 5"}})

// A flood of invented keys ends before authentication; a key that is accepted
// has its token back, and one that is known does not notice.
func TestUnknownCredentialsAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	c := of(t, unknown)
	from := func(key, address string) rig.Reply {
		return c.send(rig.Request{Key: key, Header: rig.Header{"X-Real-IP": address}})
	}
	known := c.key(nil)
	for range 12 {
		for _, key := range []string{known, c.key(limits("10/s"))} {
			if r := from(key, "192.0.2.1"); !r.OK() {
				t.Fatal(r)
			}
		}
	}
	for i := range 10 {
		r := from(fmt.Sprint(randomKeyPrefix, "unknown-", i), "192.0.2.1")
		if want := i >= 5; r.Refused() != want || !want && r.Status != 403 {
			t.Errorf("invented key %d: %v", i, r)
		}
	}
	if r := from("", "192.0.2.1"); r.Header.Get("RateLimit-Policy") != `"unknown";q=1;w=1000` {
		t.Errorf("without a key: %v", r)
	}
	if r := from(known, "192.0.2.1"); !r.OK() {
		t.Errorf("a known key: %v", r)
	}
	if r := from(fmt.Sprint(randomKeyPrefix, "unknown-x"), "192.0.2.2"); r.Status != 403 {
		t.Errorf("from another address: %v", r)
	}
}
