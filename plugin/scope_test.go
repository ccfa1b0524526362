package plugin

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/user"
)

func TestScopes(t *testing.T) {
	for sc, c := range map[string]struct {
		change func(a, b *user.SessionState)
		shared bool
	}{
		"key":          {func(a, b *user.SessionState) {}, false},
		"org":          {func(a, b *user.SessionState) {}, true},
		"org, another": {func(a, b *user.SessionState) { b.OrgID = "2" }, false},
		"org, none":    {func(a, b *user.SessionState) { a.OrgID, b.OrgID = "", "" }, false},
		"policy":       {func(a, b *user.SessionState) { a.ApplyPolicies, b.ApplyPolicies = []string{"p"}, []string{"p"} }, true},
		"policy, the order": {func(a, b *user.SessionState) {
			a.ApplyPolicies, b.ApplyPolicies = []string{"p", "q"}, []string{"q", "p"}
		}, true},
		"policy, another":      {func(a, b *user.SessionState) { a.ApplyPolicies, b.ApplyPolicies = []string{"p"}, []string{"p", "q"} }, false},
		"policy, none":         {func(a, b *user.SessionState) {}, false},
		"oauth_client":         {func(a, b *user.SessionState) { a.OauthClientID, b.OauthClientID = "c", "c" }, true},
		"oauth_client, none":   {func(a, b *user.SessionState) {}, false},
		"metadata:team":        {func(a, b *user.SessionState) { a.MetaData["team"], b.MetaData["team"] = "x", "x" }, true},
		"metadata:team, other": {func(a, b *user.SessionState) { a.MetaData["team"], b.MetaData["team"] = "x", "y" }, false},
		"metadata:team, no":    {func(a, b *user.SessionState) { a.MetaData["team"], b.MetaData["team"] = true, true }, false},
		"metadata:team, none":  {func(a, b *user.SessionState) {}, false},
	} {
		sc, _, _ := strings.Cut(sc, ",")
		for place, make := range map[string]func() (meta, meta){
			"setting": func() (meta, meta) { return meta{"ratelimit": "1/h burst 4"}, meta{"scope": sc} },
			"limit":   func() (meta, meta) { return meta{"ratelimit": meta{"rate": "1/h", "burst": 4.0, "scope": sc}}, nil },
		} {
			h := newHost(t)
			var section meta
			for _, key := range []string{"a", "b"} {
				var m meta
				m, section = make()
				h.key(key, m)
			}
			c.change(h.keys["a"], h.keys["b"])
			api := keyed("a", limits(section))
			first := h.codes(6, func() outcome { return h.send(api, get("a")) })
			second := h.codes(6, func() outcome { return h.send(api, get("b")) })
			want := "map[200:4 429:2] map[200:4 429:2]"
			if c.shared {
				want = "map[200:4 429:2] map[429:6]"
			}
			if got := first + " " + second; got != want {
				t.Errorf("%s in the %s: %s, want %s", sc, place, got, want)
			}
			if h.log.Len() > 0 {
				t.Error(h.log.String())
			}
		}
	}
}

func TestScopeOfEachWindow(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	both := meta{"ratelimit": []any{"1/h burst 3", meta{"rate": "1/h", "burst": 5.0, "scope": "org", "name": "org"}}}
	h.key("a", both)
	h.key("b", both)
	h.expect(h.codes(5, func() outcome { return h.send(api, get("a")) }), "map[200:3 429:2]")
	h.expect(h.codes(5, func() outcome { return h.send(api, get("b")) }), "map[200:2 429:3]")
	if got := h.send(api, get("b")); !strings.HasPrefix(got.header.Get("RateLimit-Policy"), `"org"`) {
		t.Errorf("%+v", got)
	}
}

func TestKeyAndAPIScopeCountsEachAPIApart(t *testing.T) {
	h := newHost(t)
	h.key("k", meta{"ratelimit": "1/h burst 3"})
	for _, api := range []string{"a", "b"} {
		h.expect(h.codes(5, func() outcome { return h.send(keyed(api, limits(meta{"scope": "key+api"})), get("k")) }), "map[200:3 429:2]")
	}
}

// A field of the metadata that a scope reads is looked at for each request.
func TestChangeOfTheScopesFieldIsLearned(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"scope": "metadata:team"}))
	h.key("k", meta{"ratelimit": "1/h burst 3", "team": "x"})
	send := func() outcome { return h.send(api, get("k")) }
	h.expect(h.codes(2, send), "map[200:2]")
	h.keys["k"].MetaData["team"] = "y"
	h.expect(h.codes(5, send), "map[200:3 429:2]")
}

func TestTotals(t *testing.T) {
	h := newHost(t)
	total := meta{"api_total": "1/h burst 5", "org_total": "1/h burst 8", "default": "1/h burst 4"}
	a, b, open := keyed("a", limits(total)), keyed("b", limits(total)), keyed("c", limits(meta{"org_total": "1/h burst 8"}))
	a.OrgID, b.OrgID, open.OrgID = "o", "o", "o"
	open.UseKeylessAccess = true
	h.key("k", nil)
	h.key("l", nil)
	h.expect(h.codes(6, func() outcome { return h.send(a, get("k")) }), "map[200:4 429:2]")
	h.expect(h.codes(6, func() outcome { return h.send(a, get("l")) }), "map[200:1 429:5]")
	if got := h.send(a, get("l")); got.header.Get("RateLimit-Policy") != `"api-total";q=1;w=3600` || got.authenticated {
		t.Errorf("%+v", got)
	}
	h.expect(h.codes(6, func() outcome { return h.send(b, get("l")) }), "map[200:3 429:3]")
	h.expect(h.codes(2, func() outcome { return h.send(open, get("")) }), "map[429:2]")
	h.now += time.Hour
	h.expect(h.codes(2, func() outcome { return h.send(open, get("")) }), "map[200:1 429:1]")
}

func TestTotalsCoverKeysWithoutALimitAndIgnoredPaths(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"api_total": "1/h burst 5"}))
	h.key("k", meta{"ratelimit": "unlimited"})
	h.expect(h.codes(3, func() outcome { return h.send(api, get("k")) }), "map[200:3]")
	ignored := func() outcome {
		r := get("")
		*r = *withDefinition(r, api)
		w := httptest.NewRecorder()
		if h.e.pre(w, r); w.Code == 200 {
			h.e.postKeyAuth(w, r)
		}
		return outcome{code: w.Code}
	}
	h.expect(h.codes(3, ignored), "map[200:2 429:1]")
	h.expect(h.codes(3, func() outcome { return h.send(api, get("k")) }), "map[429:3]")
}

func TestUnknownCredentialsAreLimitedByAddress(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"unknown": "1/h burst 3", "default": "1/h burst 100"}))
	from := func(key, address string) outcome {
		r := get(key)
		r.Header.Set("X-Real-IP", address)
		return h.send(api, r)
	}
	n := 0
	invented := func(address string) func() outcome {
		return func() outcome {
			n++
			return from(fmt.Sprint("invented-", n), address)
		}
	}
	for i := range 20 { // accepted credentials get their token back
		h.key(fmt.Sprint("k", i), nil)
		if got := from(fmt.Sprint("k", i), "192.0.2.1"); got.code != 200 {
			t.Fatalf("key %d: %+v", i, got)
		}
	}
	h.expect(h.codes(6, invented("192.0.2.1")), "map[403:3 429:3]")
	if got := invented("192.0.2.1")(); got.authenticated || got.header.Get("RateLimit-Policy") != `"unknown";q=1;w=3600` {
		t.Errorf("%+v", got)
	}
	h.expect(h.codes(6, invented("192.0.2.2")), "map[403:3 429:3]")
	h.expect(h.codes(5, func() outcome { return from("k0", "192.0.2.1") }), "map[200:5]") // known: unharmed
	h.key("fresh", nil)
	h.expect(h.codes(1, func() outcome { return from("fresh", "192.0.2.1") }), "map[429:1]")
}

// Credentials that are never known again would be refused for what others do.
func TestUnknownMeansNothingWhereNothingIsLearned(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"unknown": "1/h burst 3"}))
	api.UseStandardAuth, api.EnableSignatureChecking = false, true
	h.key("signed", nil)
	h.expect(h.codes(6, func() outcome { return h.send(api, get("invented")) }), "map[403:6]")
	h.expect(h.codes(6, func() outcome { return h.send(api, get("signed")) }), "map[200:6]")
	if !strings.Contains(h.log.String(), "ratelimit.unknown: the credentials of this API cannot be known again") {
		t.Error(h.log.String())
	}
}

func TestTheSameSharedLimitTwiceIsOne(t *testing.T) {
	h := newHost(t)
	two := meta{"rate": "1/h", "burst": 4.0, "scope": "org"}
	h.key("a", meta{"ratelimit": []any{"1000/s", two, two}})
	h.key("b", meta{"ratelimit": two})
	h.expect(h.codes(3, func() outcome { return h.send(keyed("a", nil), get("a")) }), "map[200:3]")
	h.expect(h.codes(3, func() outcome { return h.send(keyed("a", nil), get("b")) }), "map[200:1 429:2]")
	_, who := 0, h.e.identity(get("a"), h.keys["a"])
	a := &author{s: h.e.apis.none, session: h.keys["a"], who: who.bucket("org"), unusable: func(string, error) {}}
	if p := a.plan(); len(p.plain.enforced) != 2 || len(a.watched) != 0 {
		t.Errorf("%v, %v", p.plain, a.watched)
	}
}

func TestKeysWithoutALimitAreKnownToo(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"unknown": "1/h burst 1"}))
	h.key("k", nil)
	h.expect(h.codes(1, func() outcome { return h.send(api, get("k")) }), "map[200:1]")
	h.expect(h.codes(2, func() outcome { return h.send(api, get("invented")) }), "map[403:1 429:1]")
	h.expect(h.codes(3, func() outcome { return h.send(api, get("k")) }), "map[200:3]")
	h.expect(h.codes(1, func() outcome {
		return h.send(keyed("a", limits(meta{"unknown": "1/h burst 1", "refresh": 5.0})), get("k"))
	}), "map[200:1]")
}
