package plugin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
)

func ask(method, path, credential string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Authorization", credential)
	return r
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		method, pattern any
		yes, no         string // lists of requests
	}{
		{"POST", "/orders", "POST /orders|POST /orders/|POST //orders|POST /x/../orders", "GET /orders|POST /orders/1|POST /Orders|POST /order"},
		{nil, "/orders/{id}", "GET /orders/1|DELETE /orders/a.b|GET /orders/1/", "GET /orders|GET /orders/1/items|GET /orders//"},
		{"*", "/reports/*", "GET /reports/a|PUT /reports/a/b", "GET /reports|GET /reportsx"},
		{"get", "*", "GET /|GET /any/thing", "POST /"},
		{nil, "/files/{name}.json", "GET /files/a.json", "GET /files/a.jsonx|GET /files/axjson|GET /files/a/b.json"},
		{nil, "/a+b(c", "GET /a+b(c", "GET /aab(c"},
		{nil, "/n/{id:[0-9]+}", "GET /n/17", "GET /n/x"},
		{nil, "/n/{id:[0-9]{3}}/x", "GET /n/173/x", "GET /n/17/x"},
		{"GET", "/head", "GET /head|HEAD /head|get /head", "POST /head|HEADS /head"},
		{nil, "/", "GET /", "GET /a"},
	} {
		p, err := parsePattern(c.method, c.pattern)
		if err != nil {
			t.Errorf("%v: %v", c.pattern, err)
			continue
		}
		for want, list := range map[bool]string{true: c.yes, false: c.no} {
			for _, line := range strings.Split(list, "|") {
				method, path, _ := strings.Cut(line, " ")
				if got := p.matches(target{method, clean(path)}); got != want {
					t.Errorf("%v matches %s: %v", p, line, got)
				}
			}
		}
	}
	for want, c := range map[string][2]any{
		"method: ":            {"GET POST", "/"},
		"method: want":        {5.0, "/"},
		"path: want one such": {nil, "orders"},
		"without its }":       {nil, "/orders/{id"},
		"missing":             {nil, "/{a:(}"},
		"unexpected":          {nil, "/{a:b)|(.*}"},
		"no query":            {nil, "/a?x=1"},
		"no encoded":          {nil, "/a%2Fb"},
		"path: want":          {nil, "/" + strings.Repeat("x", maxPath)},
	} {
		if p, err := parsePattern(c[0], c[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %v; want %q", c, p, err, want)
		}
	}
}

func TestPathBelowTheListenPath(t *testing.T) {
	for _, c := range [][3]string{
		{"/demo/", "/demo/orders/", "/orders"}, {"/demo", "/demo", "/"}, {"/", "/orders", "/orders"}, {"", "/orders", "/orders"},
		{"/demo/", "/demonstration", "/demonstration"}, {"/demo/", "/other/x", "/other/x"},
		{"/{tenant}/v1/", "/acme/v1/orders", "/orders"}, {"/{id:[0-9]+}/", "/12/x", "/x"}, {"/{id:[0-9]+}/", "/a/x", "/a/x"},
		{"/demo/", "/demo//orders", "/orders"},
		{"/demo/", "/x/../demo/orders", "/orders"}, {"/demo/", "/demo/../demo/orders", "/orders"},
		{"/demo/", "/demo/items/a%2Fb", "/items/a%2Fb"}, {"/demo/", "/demo/items/..%2Fhealth", "/items/..%2Fhealth"},
		{"/demo/", "/demo/a/%2e%2e/health", "/health"}, {"/demo/", "/demo/%41", "/A"},
		{"/r/{t:[0-9]{2}}/", "/r/12/x", "/x"},
	} {
		l, err := newListenPath(c[0])
		if got := l.below(httptest.NewRequest("GET", "http://host"+c[1], nil)); err != nil || got != c[2] {
			t.Errorf("%s below %s: %q, %v; want %q", c[1], c[0], got, err, c[2])
		}
	}
	if _, err := newListenPath("/{a:(}/"); err == nil {
		t.Error("a listen path that does not compile")
	}
}

func demoAPI(section meta) *apidef.APIDefinition {
	api := keyed("a", limits(section))
	api.Proxy.ListenPath = "/demo/"
	return api
}

// sent counts the answers to n requests of a kind.
func (h *host) sent(n int, api *apidef.APIDefinition, method, path, key string) string {
	h.t.Helper()
	return h.codes(n, func() outcome { return h.send(api, ask(method, "/demo"+path, key)) })
}

func TestEndpointsBesideAndInsteadOfTheKeysLimit(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"endpoints": []any{
		meta{"method": "POST", "path": "/orders", "limit": "1/h burst 2"},
		meta{"path": "/reports/*", "limit": "1/h burst 3", "replace": true},
		meta{"path": "/health", "limit": "unlimited", "replace": "true"},
	}})
	h.key("k", meta{"ratelimit": "1/h burst 5"})
	h.key("other", meta{"ratelimit": "1/h burst 5"})
	h.expect(h.sent(4, api, "POST", "/orders", "k"), "map[200:2 429:2]")
	refused := h.send(api, ask("POST", "/demo//orders/", "k"))
	if got := refused.header.Get("RateLimit-Policy"); refused.code != 429 || refused.authenticated || got != `"POST /orders";q=1;w=3600` {
		t.Errorf("%+v", refused)
	}
	h.expect(h.sent(9, api, "GET", "/reports/a", "k"), "map[200:3 429:6]")
	h.expect(h.sent(5, api, "GET", "/orders", "k"), "map[200:3 429:2]")
	h.expect(h.sent(1, api, "POST", "/orders", "k"), "map[429:1]") // the key's limit, and nothing of the endpoint's
	h.expect(h.sent(20, api, "GET", "/health", "k"), "map[200:20]")
	h.expect(h.sent(3, api, "POST", "/orders", "other"), "map[200:2 429:1]")
	if h.log.Len() > 0 {
		t.Error(h.log.String())
	}
}

func TestEndpointsOfAKeyWinOverTheAPIs(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"endpoints": `[{"path": "/a", "limit": "1/h"}, {"path": "/b", "limit": "1/h burst 2"}]`})
	h.key("k", meta{"ratelimit_endpoints": `[{"path": "/a", "limit": "1/h burst 4"}]`})
	h.expect(h.sent(6, api, "GET", "/a", "k"), "map[200:4 429:2]")
	h.expect(h.sent(6, api, "GET", "/b", "k"), "map[200:2 429:4]")
	h.expect(h.sent(6, api, "GET", "/c", "k"), "map[200:6]")
	h.keys["k"].MetaData["ratelimit_endpoints"] = `[{"path": "/b", "limit": "unlimited"}]`
	h.expect(h.sent(6, api, "GET", "/b", "k"), "map[429:6]") // for a refresh
	h.now += defaultRefresh
	h.expect(h.sent(6, api, "GET", "/b", "k"), "map[200:6]")
	h.expect(h.sent(6, api, "GET", "/a", "k"), "map[429:6]") // the same bucket, at the API's limit
}

// What a credential holds does not grow with the endpoints that it might use.
func TestEndpointsCostNoMemoryUntilTheyAreUsed(t *testing.T) {
	var list []any
	for i := range 200 {
		list = append(list, meta{"path": fmt.Sprintf("/x%d/{id}", i), "limit": "10/m"})
	}
	for name, section := range map[string]meta{"API": {"endpoints": list}, "key": nil} {
		h := newHost(t)
		h.e.known = newKnown(100_000)
		api := demoAPI(section)
		m := meta{"ratelimit": "10/s"}
		if name == "key" {
			m["ratelimit_endpoints"] = list
		}
		send := func(from, to int) {
			for i := from; i < to; i++ {
				key := fmt.Sprint("k", i)
				h.key(key, m)
				h.send(api, ask("GET", "/demo/x7/1", key))
				delete(h.keys, key)
			}
		}
		send(0, 100)
		before := heap()
		send(100, 2100)
		if each := int64(heap()-before) / 2000; each > 2500 {
			t.Errorf("endpoints of the %s: %d bytes for each credential", name, each)
		}
	}
}

func TestListsOfEndpointsAreBounded(t *testing.T) {
	var list []any
	for range 5000 {
		list = append(list, meta{"path": "no slash", "limit": "1/s"})
	}
	h := newHost(t)
	h.key("k", meta{"ratelimit_endpoints": list}).Alias = strings.Repeat("x", 10_000)
	h.send(keyed("a", limits(meta{"endpoints": list, "costs": list})), get("k"))
	if n := strings.Count(h.log.String(), "\n"); n > 3*(maxProblems+2) || h.log.Len() > 20_000 {
		t.Errorf("%d lines and %d bytes in the log", n, h.log.Len())
	}
	if !strings.Contains(h.log.String(), "5000 endpoints; only the first 1000 count") || !strings.Contains(h.log.String(), "more problems") {
		t.Error(h.log.String())
	}
}

func TestUnusableEndpointsAreSkipped(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"endpoints": []any{
		meta{"path": "/ok", "limit": "1/h", "repalce": true}, "x", meta{"path": "/a"}, meta{"path": "b", "limit": "1/h"},
		meta{"path": "/c", "limit": "often"}, meta{"path": "/d", "limit": "1/h", "replace": "perhaps"},
	}, "costs": true})
	h.key("k", nil)
	h.expect(h.sent(2, api, "GET", "/ok", "k"), "map[200:1 429:1]")
	h.expect(h.sent(2, api, "GET", "/c", "k"), "map[200:2]")
	h.expect(h.sent(2, api, "GET", "/d", "k"), "map[200:1 429:1]")
	for _, want := range []string{"endpoints[0].repalce: no such field", "endpoints[1]: want an object", "endpoints[2]: limit is missing",
		"endpoints[3]: path: want", "endpoints[4].limit: ", "endpoints[5].replace: want true or false", "ratelimit.costs: a value of type bool"} {
		if strings.Count(h.log.String(), want) != 1 {
			t.Errorf("want %q once in:\n%s", want, h.log.String())
		}
	}
}

func TestWindowsAreChargedTogether(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("k", meta{"ratelimit": "5/s, 1/h burst 12"})
	send := func() outcome { return h.send(api, get("k")) }
	h.expect(h.codes(9, send), "map[200:5 429:4]")
	if got := send().header.Get("RateLimit-Policy"); got != `"per-second";q=5;w=1` {
		t.Errorf("the second refuses: %s", got)
	}
	h.now += time.Second
	h.expect(h.codes(9, send), "map[200:5 429:4]")
	h.now += time.Second
	ok := send()
	if got := ok.header.Get("RateLimit"); ok.code != 200 || got != `"per-hour";r=1;t=39598` {
		t.Errorf("the tightest is told: %+v", ok)
	}
	h.expect(h.codes(9, send), "map[200:1 429:8]")
	h.now += time.Second
	if got := send(); got.code != 429 || got.header.Get("RateLimit-Policy") != `"per-hour";q=1;w=3600` || got.authenticated {
		t.Errorf("the hour refuses: %+v", got)
	}
	// The second window comes and goes, the first keeps its tokens.
	h.now += time.Hour
	h.keys["k"].MetaData["ratelimit"] = "5/s"
	h.expect(h.codes(9, send), "map[200:5 429:4]")
	h.keys["k"].MetaData["ratelimit"] = "5/s, 1/h burst 3"
	h.now += 2 * time.Second
	h.expect(h.codes(9, send), "map[200:1 429:8]")
}

// FuzzSettings reads any JSON as settings and as metadata.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		`{"default": "10/s, 100/m", "endpoints": [{"method": "GET", "path": "/a/{id}", "limit": ["1/s", {"rate": 5, "per": "1m", "shadow": true}], "replace": true}]}`,
		`{"costs": [{"path": "*", "cost": 2}, {"path": "/b", "header": "X-N", "response_header": "X-C", "min": 0, "max": 9}], "scope": "metadata:team"}`,
		`{"api_total": "100/s", "org_total": {"rate": 1}, "unknown": 5, "mode": "shadow", "shadow_header": true, "refund": ["5xx", 429], "status_path": "/x", "headers": "none"}`,
		`{"ratelimit": "1/s", "ratelimit_override": "unlimited", "ratelimit_group": "g", "ratelimit_endpoints": "[{\"path\": \"/\", \"limit\": 1}]"}`,
	} {
		f.Add(seed, "/a/1", "7")
	}
	f.Fuzz(func(t *testing.T, text, path, field string) {
		var section meta
		if json.Unmarshal([]byte(text), &section) != nil || !strings.HasPrefix(path, "/") {
			t.Skip()
		}
		h := newHost(t)
		h.key("k", section)
		h.keys["k"].ApplyPolicies = []string{field}
		api := demoAPI(section)
		for _, keyless := range []bool{false, false, true} {
			api.UseKeylessAccess = keyless
			r := ask("GET", "/", "k")
			r.URL.Path = path
			r.Header.Set("X-N", field)
			if got := h.send(api, r); got.code != 200 && got.code != 429 {
				t.Errorf("%+v", got)
			}
			h.e.response(httptest.NewRecorder(), &http.Response{StatusCode: 500, Header: http.Header{"X-C": {field}}}, r)
		}
		if n := strings.Count(h.log.String(), fmt.Sprintln()); n > 2000 {
			t.Errorf("%d lines in the log", n)
		}
	})
}
