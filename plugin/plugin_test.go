package plugin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/ctx"
)

// faulty is a host whose limiter is gone, so that every take panics.
func faulty(t *testing.T) *host {
	h := newHost(t)
	h.e.limits = buckets{}
	return h
}

func TestFaultOpensOrCloses(t *testing.T) { // H22
	for onFault, want := range map[string]int{"open": 200, "closed": 503} {
		h := faulty(t)
		r := httptest.NewRequest("GET", "/", nil)
		api := &apidef.APIDefinition{APIID: "a", UseKeylessAccess: true, ConfigData: limits(meta{"anonymous": "1/s", "on_fault": onFault})}
		ctx.SetDefinition(r, api)
		for range 3 {
			w := httptest.NewRecorder()
			func() {
				defer h.e.recovered("RateLimitPre", w, r)
				h.e.pre(w, r)
			}()
			if w.Code != want || want == 503 && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %d %s", onFault, w.Code, w.Body)
			}
		}
		if n := h.e.warn.faults.Load(); n != 3 {
			t.Errorf("%d faults counted", n)
		}
		if n := strings.Count(h.log.String(), "RateLimitPre failed"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, h.log.String())
		}
	}
}

func TestFaultInTheResponseHookChangesNothing(t *testing.T) {
	h := newHost(t)
	func() {
		defer h.e.recovered("RateLimitResponse", nil, httptest.NewRequest("GET", "/", nil))
		panic("x")
	}()
	if h.e.warn.faults.Load() != 1 {
		t.Error("not counted")
	}
}

// The exported hooks never panic, whatever the gateway hands over.
func TestExportedHooksSurviveOddRequests(t *testing.T) {
	p := Load()
	for _, r := range []*http.Request{httptest.NewRequest("GET", "/", nil), {Header: http.Header{}}, {}} {
		w := httptest.NewRecorder()
		p.Pre(w, r)
		p.PostKeyAuth(w, r)
		p.Response(w, nil, r)
		p.Response(w, &http.Response{}, r)
		if w.Code != 200 {
			t.Errorf("%d", w.Code)
		}
	}
}

// A hook that is not registered would leave everything unlimited without a word.
func TestMissingHooksAreToldOnce(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{"refund": "5xx"}))
	for range 300 { // only pre
		r := get("k")
		ctx.SetDefinition(r, api)
		h.e.pre(httptest.NewRecorder(), r)
	}
	if log := h.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "API a: 100 requests, and RateLimitPostKeyAuth has seen none") {
		t.Errorf("only pre: %s", log)
	}
	h = newHost(t)
	h.key("k", meta{"ratelimit": "1000/s"})
	h.codes(300, func() outcome { return h.send(api, get("k")) })
	if log := h.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "RateLimitResponse has seen no answer") {
		t.Errorf("no response hook: %s", log)
	}
	h = newHost(t)
	h.key("k", meta{"ratelimit": "1000/s"})
	h.codes(300, func() outcome { return h.answered(api, get("k"), 200, "") })
	if h.log.Len() > 0 {
		t.Errorf("all hooks: %s", h.log.String())
	}
}

func TestNoGoroutineInTheDefaultSetUp(t *testing.T) {
	before := runtime.NumGoroutine()
	h := newHost(t)
	p, _ := readProcess(func(string) string { return "" })
	h.e = newEngine(p, h.e.warn.log)
	h.key("k", meta{"ratelimit": "1/h burst 5"})
	h.expect(h.codes(50, func() outcome { return h.send(keyed("a", nil), get("k")) }), "map[200:5 429:45]")
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// A definition that is cloned costs hundreds of allocations; the mark costs two.
func TestPreAllocatesNothingButTheMark(t *testing.T) {
	for limit, most := range map[string]float64{"1000000000/s": 2, "1/d": 12} {
		h := newHost(t)
		p, _ := readProcess(func(string) string { return "" })
		h.e = newEngine(p, h.e.warn.log)
		api := keyed("a", nil)
		h.key("k", meta{"ratelimit": limit})
		h.send(api, get("k"))
		known := get("k")
		ctx.SetDefinition(known, api)
		w := discard{http.Header{}}
		n := testing.AllocsPerRun(100, func() {
			r := *known
			h.e.pre(w, &r)
		})
		if n > most {
			t.Errorf("%s: %v allocations, want at most %v", limit, n, most)
		}
	}
}

// BenchmarkRateLimitPre is the whole pre hook for a known credential.
func BenchmarkRateLimitPre(b *testing.B) {
	for name, limit := range map[string]string{"admit": "1000000000/s", "refuse": "1/d"} {
		b.Run(name, func(b *testing.B) {
			t := &testing.T{}
			h := newHost(t)
			p, _ := readProcess(func(string) string { return "" })
			h.e = newEngine(p, h.e.warn.log)
			api := keyed("a", nil)
			h.key("k", meta{"ratelimit": limit})
			r := get("k")
			h.send(api, r)
			fresh := get("k")
			ctx.SetDefinition(fresh, api)
			w := discard{http.Header{}}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				request := *fresh
				h.e.pre(w, &request)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
