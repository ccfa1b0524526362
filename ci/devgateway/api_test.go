package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/ctx"
)

func TestAuthToken(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	h.define("plain", upstream.URL, nil)
	h.define("param", upstream.URL, object{"auth_configs": object{"authToken": object{"use_param": true, "use_cookie": true, "auth_header_name": "X-Key"}}})
	h.define("named", upstream.URL, object{"auth": object{"use_param": true, "param_name": "k", "use_cookie": true, "cookie_name": "c", "disable_header": true}})
	h.define("open", upstream.URL, object{"use_keyless": true})
	h.define("both", upstream.URL, object{
		"auth": object{"auth_header_name": "X-Old"}, "auth_configs": object{"authToken": object{"auth_header_name": "X-New"}},
	})
	h.reload()
	h.key("good", nil, "plain", "param", "named", "both")
	h.key("other", nil, "open")

	missing := "{\n    \"error\": \"Authorization field missing\"\n}"
	disallowed := "{\n    \"error\": \"Access to this API has been disallowed\"\n}"
	for _, c := range []struct {
		path, header string
		code         int
		body         string
	}{
		{"/plain/x", "", 401, missing},
		{"/plain/x", "Authorization: nobody", 403, disallowed},
		{"/plain/x", "Authorization: go", 403, disallowed}, // shorter than min_token_length
		{"/plain/x", "Authorization: good", 200, ""},
		{"/plain/x", "Authorization: Bearer good", 200, ""},
		{"/plain/x", "Authorization: bEaReR good", 200, ""},
		{"/plain/x", "Authorization: defaultgood", 200, ""}, // the stored form
		{"/plain/x", "Authorization: other", 403, disallowed},
		{"/plain/x?authorization=good", "", 401, missing},
		{"/param/x", "X-Key: good", 200, ""},
		{"/param/x", "Authorization: good", 401, missing},
		{"/param/x?X-Key=good", "X-Key: nobody", 200, ""},
		{"/param/x?X-Key=", "X-Key: good", 200, ""},
		{"/param/x?X-Key=nobody", "Cookie: X-Key=good", 200, ""},
		{"/named/x?k=good", "", 200, ""},
		{"/named/x", "Cookie: c=good", 200, ""},
		{"/named/x", "Authorization: good", 401, missing},
		{"/both/x", "X-New: good", 200, ""},
		{"/both/x", "X-Old: good", 401, missing},
		{"/open/x", "", 200, ""},
		{"/plain", "Authorization: good", 404, "Not Found"},
		{"/nowhere", "", 404, "Not Found"},
	} {
		headers := []string{"Accept: */*"}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		got := h.do("GET", c.path, "", headers...)
		if got.code != c.code || c.body != "" && got.body != c.body {
			t.Errorf("%s %q: got %d %q", c.path, c.header, got.code, got.body)
		}
	}

	got := h.do("GET", "/plain/x", "", "Content-Type: text/xml; charset=utf-8")
	if got.code != 401 || got.header.Get("Content-Type") != "text/xml" || !strings.Contains(got.body, "<error>Authorization field missing</error>") {
		t.Errorf("XML: %+v", got)
	}
}

// trace returns hooks that write down when they ran and what they saw.
func trace(h *host) func() string {
	var mu sync.Mutex
	var lines []string
	note := func(name string, r *http.Request) {
		line := name
		if s := ctx.GetSession(r); s != nil {
			line += " " + s.KeyID + "@" + s.OrgID + "=" + ctx.GetAuthToken(r)
		}
		if ctx.GetDefinition(r) != nil {
			line += " classic"
		}
		if ctx.GetOASDefinition(r) != nil {
			line += " oas"
		}
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	for _, name := range []string{"Pre1", "Pre2", "Auth", "Post"} {
		h.hooks[name] = func(w http.ResponseWriter, r *http.Request) { note(name, r) }
	}
	h.hooks["Response"] = func(w http.ResponseWriter, res *http.Response, r *http.Request) {
		note("Response", r)
		res.Header.Set("X-Hook", "response")
	}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { lines = nil }()
		return strings.Join(lines, ", ")
	}
}

func TestOrderOfHooksAndWhatTheySee(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	ran := trace(h)
	section := h.section(map[string]string{"pre": "Pre1 Pre2", "post_key_auth": "Auth", "post": "Post", "response": "Response"})
	ignored := object{"not_versioned": true, "versions": object{"Default": object{
		"name": "Default", "use_extended_paths": true, "extended_paths": object{"ignored": []object{
			{"path": "/free/{id}", "method": "GET"}, {"path": "/off", "disabled": true}, {"path": "/ANY", "ignore_case": true},
		}},
	}}}
	h.define("a", upstream.URL, object{"custom_middleware": section, "version_data": ignored})
	h.define("open", upstream.URL, object{"custom_middleware": section, "use_keyless": true})
	h.define("o", upstream.URL, object{"custom_middleware": section, "is_oas": true})
	h.file("apps/o-oas.json", `{"openapi":"3.0.3","x-tyk-api-gateway":{"info":{"id":"o"}}}`)
	off := h.section(map[string]string{"pre": "Pre1", "response": "Response"})
	off["pre"].([]object)[0]["disabled"] = true
	h.define("off", upstream.URL, object{"custom_middleware": off, "use_keyless": true})
	h.reload()
	h.key("good", nil, "a", "o")

	session := " defaultgood@default=defaultgood"
	for _, c := range []struct {
		method, path, header string
		code                 int
		want                 string
	}{
		{"GET", "/a/x", "Authorization: good", 200, "Pre1 classic, Pre2 classic, Auth" + session + " classic, Post" + session + " classic, Response" + session + " classic"},
		{"GET", "/a/x", "X-No: key", 401, "Pre1 classic, Pre2 classic"},
		{"GET", "/a/free/1", "X-No: key", 200, "Pre1 classic, Pre2 classic, Auth classic, Post classic, Response classic"},
		{"POST", "/a/free/1", "X-No: key", 401, "Pre1 classic, Pre2 classic"},
		{"GET", "/a/off", "X-No: key", 401, "Pre1 classic, Pre2 classic"},
		{"GET", "/a/any", "X-No: key", 200, "Pre1 classic, Pre2 classic, Auth classic, Post classic, Response classic"},
		{"GET", "/open/x", "X-No: key", 200, "Pre1 classic, Pre2 classic, Post classic, Response classic"},
		{"GET", "/o/x", "Authorization: good", 200, "Pre1 oas, Pre2 oas, Auth" + session + " oas, Post" + session + " oas, Response" + session + " oas"},
		{"GET", "/off/x", "X-No: key", 200, "Response classic"},
	} {
		got := h.do(c.method, c.path, "", c.header)
		if saw := ran(); got.code != c.code || saw != c.want {
			t.Errorf("%s %s %s: got %d, hooks %s", c.method, c.path, c.header, got.code, saw)
		}
		if c.code == 200 && got.header.Get("X-Hook") != "response" {
			t.Errorf("%s: the response hook's header is lost", c.path)
		}
	}
}

func TestAHookThatAnswersEndsTheChain(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	ran := trace(h)
	h.hooks["Refuse"] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte("slow down"))
	}
	h.hooks["Flush"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("early"))
		w.(http.Flusher).Flush()
	}
	h.hooks["OnlyHeader"] = func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Pre", "1") }
	h.hooks["Panic"] = func(w http.ResponseWriter, r *http.Request) { panic("broken hook") }
	h.hooks["Mark"] = func(w http.ResponseWriter, r *http.Request) { panic("wrong signature is never called") }
	for id, pre := range map[string]string{"refuse": "Refuse", "flush": "Flush", "header": "OnlyHeader", "panic": "Panic", "gone": "Missing", "wrong": "Response"} {
		h.define(id, upstream.URL, object{"use_keyless": true, "custom_middleware": h.section(map[string]string{"pre": pre + " Pre1"})})
	}
	h.reload()

	for _, c := range []struct {
		path string
		code int
		body string
		ran  string
	}{
		{"/refuse/", 429, "slow down", ""},
		{"/flush/", 200, "early", ""},
		{"/header/", 200, "", "Pre1 classic"},
		{"/gone/", 500, "{\n    \"error\": \"Internal Server Error\"\n}", ""},
		{"/wrong/", 500, "{\n    \"error\": \"Internal Server Error\"\n}", ""},
	} {
		got := h.do("GET", c.path, "")
		if saw := ran(); got.code != c.code || c.body != "" && got.body != c.body || saw != c.ran {
			t.Errorf("%s: got %d %q, hooks %q", c.path, got.code, got.body, saw)
		}
	}
	if got := h.do("GET", "/panic/", ""); got.err == nil {
		t.Errorf("a panic must drop the connection, got %+v", got)
	}
	if got := h.do("GET", "/header/", ""); got.code != 200 || got.header.Get("X-Pre") != "1" || got.header.Get("X-Upstream") != "yes" {
		t.Errorf("after a panic: %+v", got)
	}
}

func TestResponseHooks(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	response := func(f func(http.ResponseWriter, *http.Response)) any {
		return func(w http.ResponseWriter, res *http.Response, r *http.Request) { f(w, res) }
	}
	h.hooks["Panic"] = response(func(http.ResponseWriter, *http.Response) { panic("broken hook") })
	h.hooks["Refuse"] = response(func(w http.ResponseWriter, _ *http.Response) { w.WriteHeader(502) })
	h.hooks["Teapot"] = response(func(_ http.ResponseWriter, res *http.Response) { res.StatusCode = 418 })
	h.hooks["Set"] = response(func(_ http.ResponseWriter, res *http.Response) { res.Header.Set("X-Upstream", "changed") })
	h.hooks["Quota"] = func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-RateLimit-Limit", "5") }
	h.hooks["Remaining"] = response(func(_ http.ResponseWriter, res *http.Response) { res.Header.Set("X-RateLimit-Remaining", "5") })
	h.define("quota", upstream.URL, object{"use_keyless": true, "custom_middleware": h.section(map[string]string{"pre": "Quota", "response": "Remaining"})})
	for id, symbols := range map[string]string{"panic": "Panic", "refuse": "Refuse Teapot", "gone": "Missing", "two": "Teapot Set"} {
		h.define(id, upstream.URL, object{"use_keyless": true, "custom_middleware": h.section(map[string]string{"response": symbols})})
	}
	h.reload()
	for path, want := range map[string]int{"/panic/": 500, "/refuse/": 502, "/gone/": 500, "/two/": 418} {
		if got := h.do("GET", path, ""); got.code != want {
			t.Errorf("%s: got %d, %v", path, got.code, got.err)
		}
	}
	if got := h.do("GET", "/two/", ""); got.header.Get("X-Upstream") != "changed" {
		t.Errorf("%v", got.header)
	}
	if got := h.do("GET", "/quota/", ""); len(got.header["X-Ratelimit-Limit"]) != 2 || len(got.header["X-Ratelimit-Remaining"]) != 1 {
		t.Errorf("the gateway doubles what pre sets and overwrites what response sets: %v", got.header)
	}
}

// A refusal after authentication comes only after the post_key_auth hooks.
func TestExpiredInactiveAndForeignKeys(t *testing.T) {
	h, upstream := newHost(t, func(c *conf) { c.AllowMasterKeys = true }), echo(t)
	ran := trace(h)
	h.define("a", upstream.URL, object{"custom_middleware": h.section(map[string]string{"post_key_auth": "Auth"})})
	h.define("b", upstream.URL, nil)
	h.reload()
	h.key("dead", object{"expires": time.Now().Unix() + 1}, "a")
	h.key("off", object{"is_inactive": true}, "a")
	h.key("foreign", nil, "b")
	h.key("master", nil)
	h.key("past", object{"expires": 1000}, "a") // as if no expiry had been given
	h.key("never", object{"expires": -1}, "a")
	time.Sleep(2100 * time.Millisecond)

	for _, c := range []struct {
		key  string
		code int
		want string
	}{
		{"dead", 401, "Key has expired, please renew"},
		{"off", 403, "Key is inactive, please renew"},
		{"foreign", 403, "Access to this API has been disallowed"},
		{"master", 200, ""},
		{"past", 200, ""},
		{"never", 200, ""},
	} {
		got := h.do("GET", "/a/", "", "Authorization: "+c.key)
		if got.code != c.code || !strings.Contains(got.body, c.want) {
			t.Errorf("%s: got %d %s", c.key, got.code, got.body)
		}
		if ran() == "" {
			t.Errorf("%s: post_key_auth did not run", c.key)
		}
	}
}

func TestProxy(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	keyless := object{"use_keyless": true}
	with := func(proxy object) object {
		return object{"use_keyless": true, "proxy": proxy}
	}
	h.define("strip", upstream.URL+"/base", keyless)
	h.define("keep", upstream.URL, with(object{"listen_path": "/keep/", "target_url": upstream.URL}))
	h.define("host", upstream.URL, with(object{"listen_path": "/host/", "target_url": upstream.URL, "preserve_host_header": true}))
	h.define("deep", upstream.URL, with(object{"listen_path": "/strip/deep/", "target_url": upstream.URL + "/deeper", "strip_listen_path": true}))
	h.define("down", "http://127.0.0.1:1", keyless)
	h.define("auth", upstream.URL, object{
		"strip_auth_data": true,
		"auth_configs":    object{"authToken": object{"use_param": true, "param_name": "k", "use_cookie": true, "cookie_name": "c"}},
	})
	h.reload()
	h.key("good", nil, "auth")

	for path, want := range map[string]string{
		"/strip/x/y?q=1&r=%20": "/base/x/y?q=1&r=%20",
		"/strip/a%2Fb":         "/base/a%2Fb",
		"/strip/":              "/base", // as the gateway joins them
		"/strip/deep/x":        "/deeper/x",
		"/keep/x":              "/keep/x",
		"/keep/x?q=a;b+%2f":    "/keep/x?q=a;b+%2f",
		"/deep/x":              "/deeper/deep/x", // by api id; only the listen path is stripped
	} {
		if got := h.upstream("GET", path); got["uri"] != want {
			t.Errorf("%s: upstream got %v", path, got["uri"])
		}
	}
	address := strings.TrimPrefix(upstream.URL, "http://")
	if got := h.upstream("GET", "/strip/")["host"]; got != address {
		t.Errorf("host %v", got)
	}
	if got := h.upstream("GET", "/host/")["host"]; got == address {
		t.Errorf("host %v", got)
	}
	forwarded := h.upstream("GET", "/strip/", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https")["header"].(object)
	if got := toJSON(forwarded["X-Forwarded-For"]) + toJSON(forwarded["X-Forwarded-Proto"]); got != "[\"1.2.3.4, 127.0.0.1\"]\n[\"https\"]\n" {
		t.Errorf("forwarded: %s", got)
	}
	stripped := h.upstream("GET", "/auth/x?a=1&k=good", "Authorization: good", "Cookie: a=1; c=good; b=2")
	header := stripped["header"].(object)
	if stripped["uri"] != "/x?a=1" || header["Authorization"] != nil || toJSON(header["Cookie"]) != "[\"a=1; b=2\"]\n" {
		t.Errorf("strip_auth_data: %v", stripped)
	}
	if got := h.do("GET", "/down/", ""); got.code != 500 || !strings.Contains(got.body, "There was a problem proxying the request") {
		t.Errorf("unreachable: %+v", got)
	}
}

// upstream sends a request and returns what the echo upstream got.
func (h *host) upstream(method, path string, headers ...string) object {
	h.t.Helper()
	got := h.do(method, path, "", headers...)
	var o object
	if err := json.Unmarshal([]byte(got.body), &o); err != nil {
		h.t.Fatalf("%s: %+v", path, got)
	}
	return o
}

// Hooks of parallel requests get sessions of their own (run with -race).
func TestSessionsAreNotShared(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	h.hooks["Write"] = func(w http.ResponseWriter, r *http.Request) {
		s := ctx.GetSession(r)
		nested := s.MetaData["nested"].(map[string]interface{})
		if nested["n"] != 1.0 {
			http.Error(w, "seen a write of another request", 500)
		}
		nested["n"], s.MetaData["x"], s.AccessRights = 2.0, 1, nil
	}
	h.define("a", upstream.URL, object{"custom_middleware": h.section(map[string]string{"post_key_auth": "Write"})})
	h.reload()
	h.key("good", object{"meta_data": object{"nested": object{"n": 1}}}, "a")
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 10 {
				if got := h.do("GET", "/a/", "", "Authorization: good"); got.code != 200 {
					t.Errorf("%+v", got)
				}
			}
		}()
	}
	wg.Wait()
}
