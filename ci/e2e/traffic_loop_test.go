package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

// rewrites makes a path of an API lead to a target; ignored ones need no key.
func rewrites(targets map[string]string, ignored ...string) rig.Object {
	var rules, open []rig.Object
	for path, target := range targets {
		rules = append(rules, rig.Object{"path": path, "match_pattern": ".*" + path + ".*", "method": "GET", "rewrite_to": target})
	}
	for _, path := range ignored {
		open = append(open, rig.Object{"path": path})
	}
	return rig.Object{"version_data": rig.Object{"not_versioned": true, "versions": rig.Object{"Default": rig.Object{
		"name": "Default", "use_extended_paths": true,
		"extended_paths": rig.Object{"url_rewrites": rules, "ignored": open},
	}}}}
}

// internal is an API that only loops reach.
func internal(id string, ratelimit rig.Object) string {
	return shared.api(rig.API{ID: id, Fields: rig.Object{"internal": true}, RateLimit: ratelimit})
}

// via sends to another API, which loops to this one.
func (c *client) via(api string, q rig.Request) rig.Reply {
	q.Path = "/" + api + "/" + q.Path
	r := c.g.Send(context.Background(), q)
	if r.OK() {
		c.served++
	}
	return r
}

// admitsVia is admits through another API.
func (c *client) admitsVia(api string, want, n int, q rig.Request) {
	c.t.Helper()
	for i := range n {
		if r := c.via(api, q); r.OK() != (i < want) || r.Refused() == (i < want) {
			c.t.Fatalf("%s: request %d of %d, of which %d are admitted: %v", api, i+1, n, want, r)
		}
	}
}

const checked = "tyk://self/landed?check_limits=true"

var (
	h10      = shared.api(rig.API{ID: "h10", Fields: rewrites(map[string]string{"/loop": "tyk://self/landed"})})
	h10check = shared.api(rig.API{ID: "h10-check", Fields: rewrites(map[string]string{"/loop": checked})})
	h10strip = shared.api(rig.API{ID: "h10-strip", Fields: with(rewrites(map[string]string{"/loop": checked}), "strip_auth_data", true)})
	h10twice = shared.api(rig.API{ID: "h10-twice", Fields: rewrites(map[string]string{"/loop": "tyk://self/again", "/again": checked})})
)

func with(fields rig.Object, name string, value any) rig.Object {
	fields[name] = value
	return fields
}

func TestH10SelfLoopPaysOnceAndTwiceWithCheckLimits(t *testing.T) {
	realOnly(t, "loops")
	t.Parallel()
	for api, want := range map[string]int{h10: 4, h10check: 2, h10strip: 2, h10twice: 2} {
		c := of(t, api)
		for range 2 { // the second key finds everything loaded
			c.admits(want, 6, rig.Request{Key: c.key(limits("1/h burst 4")), Path: "loop"})
		}
	}
}

var h10flood = shared.api(rig.API{ID: "h10-flood", Fields: rewrites(map[string]string{"/loop": checked})})

// What the first round has paid must come back if the second is refused, or a
// client that hammers spends every token on first rounds.
func TestH10RefusedLoopCostsNothing(t *testing.T) {
	realOnly(t, "loops")
	t.Parallel()
	c := of(t, h10flood)
	key := c.key(limits("10/s burst 5"))
	var rs replies
	for begin := time.Now(); time.Since(begin) < 3*time.Second; {
		rs = append(rs, c.send(rig.Request{Key: key, Path: "loop"}))
	}
	rs.checkFrom(t, 5, 3, 1) // in requests, of two tokens each
}

var (
	inner = internal("inner", nil)
	outer = shared.api(rig.API{ID: "outer", Fields: rewrites(map[string]string{"/loop": "tyk://inner/landed"})})
	front = shared.api(rig.API{ID: "front", Fields: rig.Object{"proxy": rig.Object{
		"listen_path": "/front/", "strip_listen_path": true, "target_url": "tyk://inner",
	}}})
)

func TestLoopToAnInternalAPIPaysOnce(t *testing.T) {
	realOnly(t, "loops")
	t.Parallel()
	c := of(t, inner) // whose upstream gets the requests
	if r := c.send(rig.Request{}); r.Status != http.StatusNotFound {
		t.Errorf("from outside: %v, want 404", r)
	}
	for _, api := range []string{outer, front} {
		key := c.newKey(rig.Key{APIs: []string{inner, outer, front}, Metadata: limits("1/h burst 4")})
		c.admitsVia(api, 4, 6, rig.Request{Path: "loop", Key: key})
	}
}

var (
	scarce = internal("scarce", rig.Object{"default": "1/h burst 2"})
	ample  = shared.api(rig.API{ID: "ample", RateLimit: rig.Object{"default": "1/h burst 5"}, Fields: rewrites(map[string]string{
		"/loop": "tyk://scarce/landed", "/twice": "tyk://self/loop",
	})})
)

// Two buckets are two limits: both are paid, and neither if one refuses.
func TestLoopToAnAPIWithABucketOfItsOwnPaysBoth(t *testing.T) {
	realOnly(t, "loops")
	t.Parallel()
	landed, plain := of(t, scarce), of(t, ample)
	for _, path := range []string{"loop", "twice"} {
		key := landed.newKey(rig.Key{APIs: []string{scarce, ample}})
		landed.admitsVia(ample, 2, 6, rig.Request{Path: path, Key: key})
		plain.admits(3, 5, rig.Request{Key: key})
	}
}

var halfClosed = shared.api(rig.API{
	ID: "half-closed", RateLimit: rig.Object{"anonymous": "1/h burst 3"},
	Fields: rewrites(map[string]string{"/way-in": "tyk://self/inside"}, "/way-in"),
})

// What was let through without a key stays so in the loop.
func TestIgnoredPathThatLoopsPaysOnceForItsAddress(t *testing.T) {
	realOnly(t, "loops")
	t.Parallel()
	c := of(t, halfClosed)
	c.admits(3, 5, rig.Request{Path: "way-in"})
	if r := c.send(rig.Request{Path: "inside"}); r.Status != http.StatusUnauthorized {
		t.Errorf("without a key: %v, want 401", r)
	}
}
