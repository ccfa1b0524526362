package plugin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/ctx"
)

// A loop is a request that the gateway sends on to the same API or to another,
// one chain of hooks after the other.
type loop struct {
	chain []*apidef.APIDefinition
	check bool                // limits again
	alter func(*http.Request) // between two rounds
}

func (h *host) loop(l loop, credential string) outcome {
	r := get(credential)
	var out outcome
	for i, api := range l.chain {
		if i > 0 {
			set := func(key, value any) { *r = *r.WithContext(context.WithValue(r.Context(), key, value)) }
			set(ctx.LoopLevel, i)
			set(ctx.CheckLoopLimits, l.check)
			if api == l.chain[i-1] {
				set(ctx.SelfLooping, true)
			}
			if l.alter != nil {
				l.alter(r)
			}
		}
		if out = h.send(api, r); out.code != 200 {
			return out
		}
	}
	return out
}

func TestSelfLoop(t *testing.T) {
	for _, c := range []struct {
		check bool
		want  string
	}{{false, "map[200:4 429:2]"}, {true, "map[200:2 429:4]"}} {
		h := newHost(t)
		api := keyed("a", nil)
		h.key("k", meta{"ratelimit": "1/h burst 4"})
		round := loop{chain: []*apidef.APIDefinition{api, api}, check: c.check}
		h.expect(h.codes(6, func() outcome { return h.loop(round, "k") }), c.want)
	}
}

func TestRefusedLoopGetsItsFirstTokenBack(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": "1/s burst 2"})
	round := loop{chain: []*apidef.APIDefinition{api, api}, check: true}
	send := func() outcome { return h.loop(round, "k") }
	h.expect(h.codes(2, send), "map[200:1 429:1]")
	h.now += 1500 * time.Millisecond
	refused := send()
	if refused.code != 429 || refused.header.Get("Retry-After") != "1" {
		t.Errorf("%+v", refused)
	}
	h.now += time.Second // and Retry-After is true
	h.expect(h.codes(2, send), "map[200:1 429:1]")
}

// What was free, or somebody else's, has not paid for the next API.
func TestLoopsDodgeNoLimit(t *testing.T) {
	h := newHost(t)
	h.key("k", meta{"ratelimit": "1/h burst 4"})
	free := keyed("free", limits(meta{"costs": meta{"path": "*", "cost": 0.0}}))
	dear := keyed("dear", limits(meta{"costs": meta{"path": "*", "cost": 2.0}}))
	h.expect(h.codes(4, func() outcome { return h.loop(loop{chain: []*apidef.APIDefinition{free, dear}}, "k") }), "map[200:2 429:2]")

	open := keyed("open", limits(meta{"anonymous": "1/h burst 100"}))
	open.UseKeylessAccess = true
	guarded := keyed("guarded", limits(meta{"unknown": "1/h burst 2"}))
	h.expect(h.codes(5, func() outcome { return h.loop(loop{chain: []*apidef.APIDefinition{open, guarded}}, "invented") }), "map[403:2 429:3]")

	capped := keyed("capped", limits(meta{"anonymous": "1/h burst 3", "api_total": "1/h burst 2"}))
	capped.UseKeylessAccess = true
	h.expect(h.codes(5, func() outcome { return h.loop(loop{chain: []*apidef.APIDefinition{open, capped}}, "") }), "map[200:2 429:3]")
}

func TestEachAPIOfALoopSettlesItsOwn(t *testing.T) {
	h := newHost(t)
	outer := keyed("outer", limits(meta{"refund": "5xx", "default": "1/h burst 50"}))
	inner := keyed("inner", limits(meta{"costs": meta{"path": "*", "cost": 10.0, "response_header": "X-Cost", "max": 50.0}, "default": "1/h burst 60"}))
	h.key("k", nil)
	r := get("k")
	for i, api := range []*apidef.APIDefinition{outer, inner} {
		*r = *r.WithContext(context.WithValue(r.Context(), ctx.LoopLevel, i))
		if got := h.send(api, r); got.code != 200 {
			t.Fatal(got)
		}
	}
	w := httptest.NewRecorder()
	h.e.response(w, &http.Response{StatusCode: 500, Header: http.Header{"X-Cost": {"40"}}}, r)
	if got := w.Header().Get("RateLimit"); got != `"default";r=20;t=144000` {
		t.Errorf("inner: %s", got)
	}
	if got := h.send(outer, get("k")).header.Get("RateLimit"); got != `"default";r=49;t=3600` {
		t.Errorf("outer: %s", got)
	}
}

func TestLoopToAnotherAPIPaysOnce(t *testing.T) {
	h := newHost(t)
	h.key("k", meta{"ratelimit": "1/h burst 4"})
	round := loop{chain: []*apidef.APIDefinition{keyed("outer", nil), keyed("inner", nil)}}
	h.expect(h.codes(6, func() outcome { return h.loop(round, "k") }), "map[200:4 429:2]")
}

// Two buckets are two limits: both are paid, and neither if one refuses.
func TestLoopToAnAPIWithABucketOfItsOwnPaysBoth(t *testing.T) {
	for name, change := range map[string]func(inner *apidef.APIDefinition){
		"auth token": func(*apidef.APIDefinition) {},
		"unlearned":  func(inner *apidef.APIDefinition) { inner.UseStandardAuth, inner.EnableSignatureChecking = false, true },
	} {
		h := newHost(t)
		h.key("k", nil)
		outer := keyed("outer", limits(meta{"default": "1/h burst 5"}))
		inner := keyed("inner", limits(meta{"default": "1/h burst 2"}))
		change(inner)
		for _, chain := range [][]*apidef.APIDefinition{{outer, inner}, {outer, outer, inner, outer}} {
			h.key(name, nil)
			h.expect(h.codes(6, func() outcome { return h.loop(loop{chain: chain}, name) }), "map[200:2 429:4]")
			h.expect(h.codes(6, func() outcome { return h.send(outer, get(name)) }), "map[200:3 429:3]")
			h = newHost(t)
		}
	}
}

// After a self-loop the session stays what it was, whatever the gateway has
// put into the credential's header for the upstream.
func TestSelfLoopWithAnotherCredentialChargesTheFirst(t *testing.T) {
	for _, changed := range []string{"", "upstream-secret"} {
		for want, check := range map[string]bool{"map[200:4 429:2]": false, "map[200:2 429:4]": true} {
			h := newHost(t)
			api := keyed("a", nil)
			round := loop{chain: []*apidef.APIDefinition{api, api}, check: check}
			for _, key := range []string{"a", "b"} {
				s := h.key(key, meta{"ratelimit": "1/h burst 4"})
				round.alter = func(r *http.Request) {
					r.Header.Set("Authorization", changed)
					h.keys[changed] = s
				}
				h.expect(h.codes(6, func() outcome { return h.loop(round, key) }), want)
			}
		}
	}
}

func TestKeylessSelfLoopPaysOnceAndTwiceWithCheckLimits(t *testing.T) {
	for want, check := range map[string]bool{"map[200:4 429:2]": false, "map[200:2 429:4]": true} {
		h := newHost(t)
		api := keyed("a", limits(meta{"anonymous": "1/h burst 4"}))
		api.UseKeylessAccess, api.UseStandardAuth = true, false
		round := loop{chain: []*apidef.APIDefinition{api, api}, check: check}
		h.expect(h.codes(6, func() outcome { return h.loop(round, "") }), want)
	}
}
