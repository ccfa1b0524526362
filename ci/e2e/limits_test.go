package e2e

import (
	"fmt"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

// policies are the shared gateway's.
var policies = map[string]rig.Object{
	"fifty": {
		"org_id": rig.Org, "active": true, "rate": 0, "per": 0, "quota_max": -1,
		"access_rights": rig.Object{h15: rig.Object{"api_id": h15, "api_name": h15, "versions": []string{"Default"}}},
		"meta_data":     limits("50/s"),
	},
}

var h13 = shared.api(rig.API{ID: "h13"})

func TestH13OneRateInFiveForms(t *testing.T) {
	t.Parallel()
	c := of(t, h13)
	for _, form := range []any{10, "10", " 10 ", "10/s", rig.Object{"rate": 10}} {
		key := c.key(limits(form))
		rs := c.atOnce(11, key)
		rs.check(t, 10, 10)
		for _, r := range rs {
			if got := r.Header.Get("RateLimit-Policy"); got != `"default";q=10;w=1` {
				t.Errorf("%v: RateLimit-Policy %s", form, got)
			}
		}
	}
}

var h14 = shared.api(rig.API{ID: "h14", RateLimit: rig.Object{"default": "1/100s burst 3"}})

func TestH14UnusableRateIsNotUnlimited(t *testing.T) {
	t.Parallel()
	c := of(t, h14)
	for i, garbage := range []any{"abc", "NaN", -5, "1e400", []int{}, true, "", "0,5/s", rig.Object{"per": 1}, nil} {
		alias := fmt.Sprintf("h14-alias-%d", i)
		k := rig.Key{Fields: rig.Object{"alias": alias}, Metadata: limits(garbage)}
		warnings := 1
		if garbage == nil {
			k.Metadata, warnings = rig.Object{}, 0
		}
		key := c.newKey(k)
		c.wantAdmitted(3, key)
		for range 3 {
			c.wantRefused(key)
		}
		if lines := c.g.Log.Lines("warning", alias, "ratelimit"); len(lines) != warnings {
			t.Errorf("%v: %d warnings, want %d: %q", garbage, len(lines), warnings, lines)
		}
	}
}

var h15 = shared.api(rig.API{ID: "h15"})

func TestH15PolicyWinsOverKeyAndOverrideOverBoth(t *testing.T) {
	t.Parallel()
	c := of(t, h15)
	for _, k := range []struct {
		name     string
		metadata rig.Object
		policy   bool
		want     string
	}{
		{"key alone", rig.Object{"ratelimit": "10/s"}, false, `"default";q=10;w=1`},
		{"policy", rig.Object{"ratelimit": "10/s"}, true, `"default";q=50;w=1`},
		{"override", rig.Object{"ratelimit": "10/s", "ratelimit_override": "7/s"}, true, `"default";q=7;w=1`},
	} {
		key := rig.Key{APIs: []string{h15}, Metadata: k.metadata}
		if k.policy {
			key.Policies = []string{"fifty"}
		}
		id := c.newKey(key)
		for range 2 { // learned, then enforced
			r := c.get(id)
			if got := r.Header.Get("RateLimit-Policy"); !r.OK() || got != k.want {
				t.Errorf("%s: RateLimit-Policy %s, want %s: %v", k.name, got, k.want, r)
			}
		}
	}
}
