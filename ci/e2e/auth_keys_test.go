package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

var twoPolicies = shared.api(rig.API{ID: "two-policies"})

func init() {
	policies["slow"] = policyOver(limits("1/h burst 2"), twoPolicies)
	policies["fast"] = policyOver(limits("1/h burst 4"), twoPolicies)
	policies["excepting"] = policyOver(rig.Object{"ratelimit_override": "1/h burst 1"}, twoPolicies)
	policies["silent"] = policyOver(nil, twoPolicies)
}

func TestLastOfTwoPoliciesWins(t *testing.T) {
	t.Parallel()
	c := of(t, twoPolicies)
	own := limits("1/h burst 6")
	excepted := rig.Object{"ratelimit": "1/h burst 6", "ratelimit_override": "1/h burst 3"}
	for _, k := range []struct {
		policies []string
		metadata rig.Object
		want     int
	}{
		{[]string{"slow", "fast"}, own, 4},
		{[]string{"fast", "slow"}, own, 2},
		{[]string{"fast", "silent"}, own, 4}, // has no limit to win with
		{[]string{"silent"}, own, 6},
		{[]string{"slow", "fast"}, nil, 4},
		{[]string{"slow", "fast"}, excepted, 3},
		{[]string{"excepting", "fast"}, excepted, 1}, // a policy's override is the policy's again
	} {
		id := c.newKey(rig.Key{APIs: []string{c.api}, Metadata: k.metadata, Policies: k.policies})
		c.admits(k.want, k.want+2, rig.Request{Key: id})
	}
}

var changed = shared.api(rig.API{ID: "changed-custom-ids"})

// The gateway itself keeps a session of a custom id for up to ten seconds.
func TestH05CustomIDIsRaisedLoweredAndDeleted(t *testing.T) {
	t.Parallel()
	c := of(t, changed)
	for _, id := range []string{"raised-id-0123", "lowered-id-0123", "deleted-id-0123"} {
		c.keyAs(id, rig.Key{Metadata: limits("1/h burst 50")})
		c.wantAdmitted(1, id)
	}
	c.update("raised-id-0123", limits("2/h burst 90"))
	c.update("lowered-id-0123", limits("1/h burst 5"))
	if err := c.g.DeleteKey(context.Background(), "deleted-id-0123"); err != nil {
		t.Fatal(err)
	}
	c.wantAdmitted(49, "raised-id-0123") // nor does a raise refill
	c.wantPolicy("raised-id-0123", `"default";q=2;w=3600`)
	c.wantRefused("raised-id-0123")
	c.wantPolicy("lowered-id-0123", `"default";q=1;w=3600`)
	until(t, learnLimit, func() error {
		if left := remaining(t, c.get("lowered-id-0123")); left > 4 {
			return fmt.Errorf("%d tokens left, though the burst was lowered to 5", left)
		}
		return nil
	})
	until(t, learnLimit, func() error {
		if r := c.get("deleted-id-0123"); !rejected(r) {
			return fmt.Errorf("a deleted key: %v", r)
		}
		return nil
	})
}

// wantPolicy waits until a key's limit is told to be another one.
func (c *client) wantPolicy(key, policy string) {
	c.t.Helper()
	until(c.t, learnLimit, func() error {
		if got := c.get(key).Header.Get("RateLimit-Policy"); got != policy {
			return fmt.Errorf("RateLimit-Policy %s, want %s", got, policy)
		}
		return nil
	})
}

// However a key is spelled that the gateway takes for the same, its bucket is
// one. Where keys are stored by their murmur32 hash, which passes over up to
// three characters at the end, there are millions of spellings.
func TestKeyHasOneBucketInEverySpelling(t *testing.T) {
	realOnly(t, "spellings of a key that hash alike")
	for name, conf := range map[string]rig.Object{
		"unhashed":         {"hash_keys": false, "hash_key_function": "murmur64"},
		"unhashed, legacy": {"hash_keys": false},
		"hashed, legacy":   {"hash_keys": true, "hash_key_function": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := own(t, rig.Options{APIs: []rig.API{{ID: "spelled"}, basicAPI("basic"), hmacAPI("hmac")}, Conf: conf})
			function, _ := conf["hash_key_function"].(string)
			clientOf(t, g, "spelled").spelled(function, func(c *client, name string) {
				c.keyAs(name, rig.Key{Metadata: limits("1/h burst 3")})
			}, func(name string, _ int) rig.Request { return rig.Request{Key: name} })
			clientOf(t, g, "basic").spelled(function, func(c *client, name string) {
				c.user(name, "password-of-many", limits("1/h burst 3"))
			}, func(name string, _ int) rig.Request { return basic(name, "password-of-many") })
			clientOf(t, g, "hmac").spelled(function, func(c *client, name string) {
				c.signer(name, "secret-of-many", limits("1/h burst 3"))
			}, func(name string, n int) rig.Request { return signed(name, "secret-of-many", n) })
		})
	}
}

// spelled makes a key and sends it in every spelling that there is: three are
// admitted in all, and at least two spellings are accepted.
func (c *client) spelled(function string, make func(c *client, name string), request func(name string, n int) rig.Request) {
	c.t.Helper()
	// With the organisation before it a multiple of four characters long.
	name := "key-of-" + fmt.Sprintf("%-10.10s", c.api+"----------")
	make(c, name)
	spellings := []string{name, rig.Org + name, name + "a", name + "b", name + "cd", name + "efg"}
	if function != "" {
		spellings = append(spellings, base64.StdEncoding.EncodeToString(
			[]byte(fmt.Sprintf(`{"org":"%s","id":"%s","h":"%s"}`, rig.Org, name, function))))
	}
	admitted, accepted := 0, 0
	for n, spelling := range spellings {
		for i := range 2 {
			switch r := c.send(request(spelling, 2*n+i)); {
			case r.OK():
				admitted++
				accepted++
			case r.Refused():
				accepted++
			}
		}
	}
	c.t.Logf("%s: %d of %d requests in %d spellings accepted", c.api, accepted, 2*len(spellings), len(spellings))
	if admitted != 3 || accepted < 4 {
		c.t.Errorf("%s: %d admitted of %d accepted, want 3 of at least 4", c.api, admitted, accepted)
	}
}
