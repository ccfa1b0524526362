package httplimit_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

func ExampleMiddleware() {
	limit, _ := limiter.Parse("100/m burst 2")
	byKey := func(r *http.Request) string { return r.Header.Get("X-API-Key") }
	limited, err := httplimit.Middleware(limiter.New(), limit, byKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	for range 3 {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-API-Key", "customer-7")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%d %s %s retry after %q\n", w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "default";q=100;w=60 "default";r=1;t=1 retry after ""
	// 200 "default";q=100;w=60 "default";r=0;t=2 retry after ""
	// 429 "default";q=100;w=60 "default";r=0;t=2 retry after "1"
}

func TestSetRateLimit(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		limit  limiter.Limit
		d      limiter.Decision
		policy string
		field  string
	}{
		{"default", limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 100}, limiter.Decision{Remaining: 50, ResetAfter: 30 * s}, `"default";q=100;w=60`, `"default";r=50;t=30`},
		{"x", limiter.Limit{Tokens: 1, Period: 500 * time.Millisecond, Burst: 1}, limiter.Decision{ResetAfter: 1}, `"x";q=2;w=1`, `"x";r=0;t=1`},
		{"x", limiter.Limit{Tokens: 1, Period: 1500 * time.Millisecond, Burst: 1}, limiter.Decision{ResetAfter: s + 1}, `"x";q=1;w=2`, `"x";r=0;t=2`},
		{"x", limiter.Limit{Tokens: 1, Period: 1, Burst: 5}, limiter.Decision{Remaining: 5}, `"x";q=1000000000;w=1`, `"x";r=5;t=0`},
		{"a\"b\\c\nü", limiter.Limit{Tokens: 1e17, Period: 2e8 * s, Burst: 1e17}, limiter.Decision{Remaining: 1e17}, `"a\"b\\c??";q=999999999999999;w=200000000`, `"a\"b\\c??";r=999999999999999;t=0`},
	} {
		h := http.Header{}
		httplimit.SetRateLimit(h, httplimit.NewPolicy(c.name, c.limit), c.d)
		if got := h.Get("RateLimit-Policy"); got != c.policy {
			t.Errorf("%v: policy %s, want %s", c.limit, got, c.policy)
		}
		if got := h.Get("RateLimit"); got != c.field {
			t.Errorf("%v: %s, want %s", c.limit, got, c.field)
		}
		if httplimit.DelRateLimit(h); len(h) > 0 {
			t.Errorf("%v is left", h)
		}
	}
}

func TestSetXRateLimit(t *testing.T) {
	h := http.Header{}
	p := httplimit.NewPolicy("", limiter.Limit{Tokens: 10, Period: time.Second, Burst: 25})
	httplimit.SetXRateLimit(h, p, limiter.Decision{Remaining: 3, ResetAfter: 2200 * time.Millisecond}, time.Unix(1000, 999))
	for name, want := range map[string]string{"Limit": "25", "Remaining": "3", "Reset": "1003"} {
		if got := h.Get("X-RateLimit-" + name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		-1:                                 "",
		0:                                  "1",
		1:                                  "1",
		time.Second:                        "1",
		time.Second + 1:                    "2",
		100*time.Second - time.Millisecond: "100",
	} {
		h := http.Header{}
		httplimit.SetRetryAfter(h, limiter.Decision{RetryAfter: wait}, 0)
		if got := h.Get("Retry-After"); got != want {
			t.Errorf("%v: %q, want %q", wait, got, want)
		}
	}
}

func TestJitterSpreadsRetryAfter(t *testing.T) {
	seen := map[int]bool{}
	for range 500 {
		h := http.Header{}
		httplimit.SetRetryAfter(h, limiter.Decision{RetryAfter: 2 * time.Second}, 3*time.Second)
		n, err := strconv.Atoi(h.Get("Retry-After"))
		if err != nil || n < 2 || n > 5 {
			t.Fatalf("Retry-After %q", h.Get("Retry-After"))
		}
		seen[n] = true
	}
	if len(seen) != 4 {
		t.Errorf("only %v", seen)
	}
}

func TestRefuseAnswersInTheFormOfTheRequest(t *testing.T) {
	p := httplimit.NewPolicy("default", limiter.Limit{Tokens: 1, Period: time.Second, Burst: 1})
	for contentType, xmlBody := range map[string]bool{
		"": false, "application/json": false, "text/plain": false, "not a type;;": false,
		"application/xml": true, "text/xml; charset=utf-8": true, "Application/SOAP+XML": true,
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("x"))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		httplimit.Refuse(w, r, p, limiter.Decision{RetryAfter: time.Second}, 0)
		body := w.Body.Bytes()
		if w.Code != 429 || w.Header().Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("%q: %d %v", contentType, w.Code, w.Header())
		}
		var message string
		var err error
		if xmlBody {
			err = xml.Unmarshal(body, &message)
		} else {
			var answer map[string]string
			err = json.Unmarshal(body, &answer)
			message = answer["error"]
		}
		if err != nil || message != "Rate limit exceeded" {
			t.Errorf("%q: %v, %q", contentType, err, body)
		}
		if w.Header().Get("Content-Type") != map[bool]string{true: "application/xml", false: "application/json"}[xmlBody] {
			t.Errorf("%q is answered with %q", contentType, w.Header().Get("Content-Type"))
		}
	}
}

func TestRefusedRequestsDoNotReachTheHandler(t *testing.T) {
	reached := 0
	limited, err := httplimit.Middleware(limiter.New(), limiter.Limit{Tokens: 1, Period: time.Hour, Burst: 2},
		func(r *http.Request) string { return r.Header.Get("X-API-Key") }, httplimit.WithName("hourly"), httplimit.WithJitter(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	h := limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached++ }))
	for i := range 6 {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-API-Key", strconv.Itoa(i%2))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if (w.Code == 200) != (i < 4) || !strings.HasPrefix(w.Header().Get("RateLimit"), `"hourly";r=`) {
			t.Errorf("request %d: %d %v", i, w.Code, w.Header())
		}
	}
	if reached != 4 {
		t.Errorf("%d requests reached the handler", reached)
	}
}

func TestMiddlewareRefusesBadArguments(t *testing.T) {
	byKey := func(*http.Request) string { return "" }
	for name, err := range map[string]error{
		"limit":   second(httplimit.Middleware(limiter.New(), limiter.Limit{}, byKey)),
		"limiter": second(httplimit.Middleware(nil, limiter.Limit{Tokens: 1, Period: 1, Burst: 1}, byKey)),
		"key":     second(httplimit.Middleware(limiter.New(), limiter.Limit{Tokens: 1, Period: 1, Burst: 1}, nil)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "httplimit: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
