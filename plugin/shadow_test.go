package plugin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/ctx"
)

func withDefinition(r *http.Request, api any) *http.Request {
	switch d := api.(type) {
	case *apidef.APIDefinition:
		ctx.SetDefinition(r, d)
	}
	return r
}

func TestShadowNeverRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		section, key meta
	}{
		"API":     {meta{"mode": "shadow", "shadow_header": true, "default": "1/h burst 2", "api_total": "1/h burst 3"}, nil},
		"limit":   {meta{"shadow_header": "true"}, meta{"ratelimit": meta{"rate": "1/h", "burst": 2.0, "shadow": true}}},
		"default": {meta{"shadow_header": true, "default": `{"rate": "1/h", "burst": 2, "shadow": true}`}, nil},
	} {
		h := newHost(t)
		api := keyed("a", limits(c.section))
		h.key("a-long-secret-key", c.key).Alias = "ACME"
		marked := 0
		h.expect(h.codes(6, func() outcome {
			got := h.send(api, get("a-long-secret-key"))
			if got.header.Get("RateLimit-Shadow") == "would-refuse" {
				marked++
			}
			if got.header.Get("RateLimit") != "" {
				t.Errorf("%s: a shadow limit is told: %v", name, got.header)
			}
			return got
		}), "map[200:6]")
		if marked != 4 || h.e.warn.shadow.Load() != 4 {
			t.Errorf("%s: %d marked, %d counted", name, marked, h.e.warn.shadow.Load())
		}
		if log := h.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `(ACME) would have been refused by \"default\"`) || strings.Contains(log, "secret") {
			t.Errorf("%s: %s", name, log)
		}
		h.now += time.Minute
		h.send(api, get("a-long-secret-key"))
		if n := strings.Count(h.log.String(), "\n"); n != 2 {
			t.Errorf("%s: %d lines after a minute", name, n)
		}
	}
}

// What is enforced beside a shadow limit is enforced as without it.
func TestShadowDoesNotChangeTheVerdictBesideIt(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": []any{"1/h burst 4", meta{"rate": "1/h", "burst": 2.0, "shadow": true}}})
	send := func() outcome { return h.send(api, get("k")) }
	for i := range 4 {
		if got := send(); got.code != 200 || !strings.HasPrefix(got.header.Get("RateLimit-Policy"), `"per-hour"`) || got.header.Get("RateLimit-Shadow") != "" {
			t.Errorf("request %d: %+v", i, got)
		}
	}
	h.expect(h.codes(3, send), "map[429:3]")
	if n := h.e.warn.shadow.Load(); n != 2 {
		t.Errorf("%d would have been refused, of those that were admitted", n)
	}
}

func TestUnknownInShadow(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"unknown": "1/h burst 2", "mode": "shadow"}))
	h.expect(h.codes(5, func() outcome { return h.send(api, get("invented")) }), "map[403:5]")
	if n := h.e.warn.shadow.Load(); n != 3 {
		t.Errorf("%d counted", n)
	}
}

// Fields are told only of what was charged.
func TestAnswerTellsNothingOfWhatIsNotLimited(t *testing.T) {
	for name, section := range map[string]meta{
		"a deposit": {"unknown": "1/h burst 9", "refund": "5xx"},
		"unlimited": {"refund": "5xx", "default": "1/h burst 9", "endpoints": meta{"path": "*", "limit": "unlimited", "replace": true}},
	} {
		h := newHost(t)
		h.key("k", nil)
		for range 2 {
			r := get("k")
			h.send(keyed("a", limits(section)), r)
			w, res := httptest.NewRecorder(), &http.Response{StatusCode: 500, Header: http.Header{"Ratelimit": {"up"}}}
			if h.e.response(w, res, r); len(w.Header()) != 0 || res.Header.Get("RateLimit") != "up" {
				t.Errorf("%s: %v, the upstream's %v", name, w.Header(), res.Header)
			}
		}
	}
}

func TestHeadersSetting(t *testing.T) {
	for kind, want := range map[string][4]bool{ // RateLimit and X-RateLimit, allowed and refused
		"ietf": {true, false, true, false}, "legacy": {false, false, false, true}, "both": {true, false, true, true}, "none": {},
	} {
		h := newHost(t)
		api := keyed("a", limits(meta{"headers": kind, "default": "1/h"}))
		h.key("k", nil)
		ok, refused := h.send(api, get("k")), h.send(api, get("k"))
		got := [4]bool{ok.header.Get("RateLimit") != "", ok.header.Get("X-RateLimit-Limit") != "", refused.header.Get("RateLimit") != "", refused.header.Get("X-RateLimit-Limit") != ""}
		if got != want || refused.code != 429 || refused.header.Get("Retry-After") != "3600" {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
		r := get("k")
		h.now += time.Hour
		h.send(api, r)
		res := &http.Response{StatusCode: 200, Header: http.Header{"Ratelimit": {"up"}}}
		if h.e.response(nil, res, r); (res.Header.Get("RateLimit") == "") != want[0] {
			t.Errorf("%s: the upstream's fields: %v", kind, res.Header)
		}
	}
}

func TestStatus(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"status_path": "/rate-limit", "api_total": "100/s", "endpoints": meta{"method": "POST", "path": "/orders", "limit": "1/h burst 2"}})
	h.key("k", meta{"ratelimit": []any{"1/h burst 5", meta{"rate": 1.0, "shadow": true}}})
	status := func(method, key string) outcome { return h.send(api, ask(method, "/demo/rate-limit/", key)) }
	h.expect(h.sent(2, api, "GET", "/x", "k"), "map[200:2]")
	for range 15 { // costs nothing
		status("GET", "k")
	}
	h.expect(h.sent(4, api, "POST", "/orders", "k"), "map[200:2 429:2]")
	var got struct{ Limits []limitStatus }
	out := status("GET", "k")
	if err := json.Unmarshal([]byte(out.body), &got); err != nil || out.code != 200 || out.header.Get("Cache-Control") != "no-store" || len(got.Limits) != 2 {
		t.Fatalf("%v: %+v", err, out)
	}
	for i, l := range got.Limits {
		l.Reset -= time.Now().Unix()
		want := []limitStatus{
			{Policy: "per-hour", Scope: "key", Limit: "1/h burst 5", Tokens: 1, Period: 3600, Burst: 5, Remaining: 1, ResetAfter: 14400, Reset: 14400},
			{Policy: "POST /orders", Endpoint: "POST /orders", Scope: "key", Limit: "1/h burst 2", Tokens: 1, Period: 3600, Burst: 2, ResetAfter: 7200, Reset: 7200},
		}[i]
		if l.Reset -= want.Reset; l.Reset < -1 || l.Reset > 1 {
			t.Errorf("%d: reset is %d s off", i, l.Reset)
		}
		if l.Reset, want.Reset = 0, 0; l != want {
			t.Errorf("got %+v, want %+v", l, want)
		}
	}
	h.sent(9, api, "GET", "/x", "k")
	if out := status("GET", "k"); out.code != 200 || !out.authenticated {
		t.Errorf("of a drained key: %+v", out)
	}
	if out := status("GET", "nobody"); out.code != 403 || out.body != "" {
		t.Errorf("%+v", out)
	}
	h.expect(h.codes(30, func() outcome { return status("GET", "k") }), "map[200:3 429:27]")
	h.now += time.Hour
	if out := status("POST", "k"); out.code != 200 || out.body != "" {
		t.Errorf("a POST is a request like any: %+v", out)
	}
}

func TestStatusOfAnAddressOnAKeylessAPI(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"status_path": "/rate-limit", "anonymous": "1/h burst 3"})
	api.UseKeylessAccess = true
	h.expect(h.sent(2, api, "GET", "/x", ""), "map[200:2]")
	if out := h.send(api, ask("GET", "/demo/rate-limit", "")); !strings.Contains(out.body, `"remaining": 1,`) || !strings.Contains(out.body, `"scope": "address"`) {
		t.Errorf("%+v", out)
	}
}
