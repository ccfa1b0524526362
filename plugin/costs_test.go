package plugin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/TykTechnologies/tyk/apidef"
)

func TestCosts(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"costs": []any{
		meta{"method": "POST", "path": "/batch", "cost": 5.0},
		meta{"path": "/bulk", "header": "X-Items", "min": 2.0, "max": 8.0, "cost": 3.0},
		meta{"path": "/free", "cost": "0"},
	}})
	h.key("k", meta{"ratelimit": "1/h burst 1000"})
	left := func(method, path, items, want string) {
		t.Helper()
		for range 2 { // learned, then known
			r := ask(method, "/demo"+path, "k")
			r.Header.Set("X-Items", items)
			before := h.tokens("k")
			if got := h.send(api, r); got.code != 200 {
				t.Fatalf("%s %s: %+v", method, path, got)
			}
			if cost := before - h.tokens("k"); want != string(rune('0'+cost)) {
				t.Errorf("%s %s with %q cost %d, want %s", method, path, items, cost, want)
			}
		}
	}
	left("GET", "/batch", "", "1")
	left("POST", "/batch", "", "5")
	left("GET", "/bulk", "4", "4")
	left("GET", "/bulk", "0", "2")
	left("GET", "/bulk", "99999999999999999999", "8")
	for _, odd := range []string{"-4", "+4", "4.0", "4,4", "4e0", "four"} {
		left("GET", "/bulk", odd, "8")
	}
	left("GET", "/bulk", "", "3")
	left("GET", "/free", "", "0")
	h.expect(h.sent(1, api, "POST", "/batch", "k"), "map[200:1]")
}

// tokens is what is left of the key's only bucket.
func (h *host) tokens(key string) int64 {
	who := h.e.identity(get(key), h.keys[key]).bucket(h.keys[key].OrgID)
	a := &author{s: h.e.apis.none, session: h.keys[key], who: who, unusable: func(string, error) {}}
	rule := a.plan().plain.enforced[0]
	return h.e.limits.peek(&rule).Remaining
}

func TestCostAboveTheBurstIsNeverAllowed(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"costs": meta{"path": "/big", "cost": 6.0}})
	h.key("k", meta{"ratelimit": "5/s"})
	for range 2 {
		got := h.send(api, ask("GET", "/demo/big", "k"))
		if _, tells := got.header["Retry-After"]; got.code != 429 || tells {
			t.Errorf("%+v", got)
		}
	}
	h.expect(h.sent(6, api, "GET", "/small", "k"), "map[200:5 429:1]")
}

func TestUnusableCosts(t *testing.T) {
	for want, v := range map[string]any{
		": a value of type float64 is not a list": 5.0,
		"[0]: want an object":                     []any{5.0},
		"[0]: path: want":                         []any{meta{"cost": 5.0}},
		"[0]: cost, header or response_header":    []any{meta{"path": "/"}},
		"[0]: cost: \"-1\" is not a whole":        []any{meta{"path": "/", "cost": -1.0}},
		"[0]: cost: \"1.5\" is not a whole":       []any{meta{"path": "/", "cost": 1.5}},
		"[0]: max is missing":                     []any{meta{"path": "/", "header": "X"}},
		"[0]: max 1 is below min 5":               []any{meta{"path": "/", "header": "X", "min": 5.0, "max": 1.0}},
		"[0]: header: want a text":                []any{meta{"path": "/", "header": 1.0}},
		"[0]: costs: no such field":               []any{meta{"path": "/", "costs": 1.0}},
	} {
		var told []string
		if got := readCosts(v, func(path string, err error) { told = append(told, path+": "+err.Error()) }); len(got) != 0 || len(told) != 1 || !strings.HasPrefix(told[0], want) {
			t.Errorf("%v: %v, %q; want %q", v, got, told, want)
		}
	}
}

// answered sends a request and runs the response hook on the upstream's answer.
func (h *host) answered(api *apidef.APIDefinition, r *http.Request, status int, cost string) outcome {
	out := h.send(api, r)
	if out.code != 200 {
		return out
	}
	res := &http.Response{StatusCode: status, Header: http.Header{}}
	if cost != "" {
		res.Header.Set("X-Cost", cost)
	}
	w := httptest.NewRecorder()
	h.e.response(w, res, r)
	out.code = status
	for name, values := range w.Header() {
		out.header[name] = values
	}
	return out
}

func TestAnswerSettlesTheCost(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"costs": meta{"path": "/search", "cost": 10.0, "response_header": "X-Cost", "min": 0.0, "max": 50.0}})
	h.key("k", meta{"ratelimit": "1/h burst 100"})
	for _, c := range []struct {
		cost string
		left int64
		told string
	}{{"3", 97, `"default";r=97;t=10800`}, {"", 87, ""}, {"10", 77, ""}, {"0", 77, ""}, {"17", 60, ""}, {"1000", 10, ""}, {"30", 0, `"default";r=0;t=432000`}} {
		got := h.answered(api, ask("GET", "/demo/search", "k"), 200, c.cost)
		if left := h.tokens("k"); left != c.left {
			t.Errorf("cost %q: %d left, want %d", c.cost, left, c.left)
		}
		if told := got.header.Get("RateLimit"); c.told != "" && told != c.told {
			t.Errorf("cost %q: told %s", c.cost, told)
		}
	}
	if got := h.answered(api, ask("GET", "/demo/x", "k"), 200, "5"); got.code != 429 || got.header.Get("Retry-After") != "75600" {
		t.Errorf("20 tokens of debt and one to take: %+v", got)
	}
}

func TestRefunds(t *testing.T) {
	h := newHost(t)
	api := demoAPI(meta{"refund": []any{"5xx", "429", 408.0}, "endpoints": meta{"path": "/e", "limit": "1/h burst 3"}})
	h.key("k", meta{"ratelimit": "1/h burst 2"})
	for _, status := range []int{500, 599, 429, 408, 503} {
		got := h.answered(api, ask("GET", "/demo/e", "k"), status, "")
		if left := got.header.Get("RateLimit"); got.code != status || left != `"default";r=2;t=0` {
			t.Errorf("%d: %+v", status, got)
		}
	}
	for _, status := range []int{404, 200, 428} {
		h.answered(api, ask("GET", "/demo/e", "k"), status, "")
	}
	h.expect(h.sent(1, api, "GET", "/x", "k"), "map[429:1]")
	bad := newHost(t)
	bad.key("k", nil)
	bad.send(demoAPI(meta{"refund": []any{"6xx", 99.0, "5x", true}}), get("k"))
	for _, want := range []string{"refund[0]: want", "refund[1]: want", "refund[2]: want", "refund[3]: want"} {
		if !strings.Contains(bad.log.String(), want) {
			t.Errorf("want %q in:\n%s", want, bad.log.String())
		}
	}
}
