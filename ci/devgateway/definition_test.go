package main

import (
	"bytes"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/TykTechnologies/tyk/log"
)

const platform = runtime.GOOS + "_" + runtime.GOARCH

// logged returns what f logs.
func logged(f func()) string {
	var b bytes.Buffer
	old := log.Get().Out
	log.Get().SetOutput(&b)
	defer log.Get().SetOutput(old)
	f()
	return b.String()
}

func TestUnusableDefinitionsAreLoggedAndLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		fields object
		want   string
	}{
		"no id":         {object{"api_id": ""}, "api_id: missing"},
		"wrong type":    {object{"use_keyless": "yes"}, "use_keyless: want bool, got string"},
		"nested type":   {object{"proxy": object{"listen_path": 1}}, "proxy.listen_path: want string, got number"},
		"no path":       {object{"proxy": object{"target_url": "http://x"}}, "proxy.listen_path"},
		"pattern":       {object{"proxy": object{"listen_path": "/a/{b}/", "target_url": "http://x"}}, "not supported"},
		"no target":     {object{"proxy": object{"listen_path": "/a/"}}, "proxy.target_url"},
		"odd scheme":    {object{"proxy": object{"listen_path": "/a/", "target_url": "tyk://self"}}, "proxy.target_url"},
		"jwt":           {object{"enable_jwt": true}, "enable_jwt: not supported"},
		"basic":         {object{"use_basic_auth": true}, "use_basic_auth: not supported"},
		"certificate":   {object{"auth": object{"use_certificate": true}}, "auth.use_certificate"},
		"versioned":     {object{"version_data": object{"versions": object{"v1": object{}}}}, "version_data.not_versioned"},
		"no version":    {object{"version_data": object{"not_versioned": true}}, "version_data.versions"},
		"bad pattern":   {object{"version_data": object{"not_versioned": true, "versions": object{"": object{"paths": object{"ignored": []string{"/("}}}}}}, "ignored"},
		"no document":   {object{"is_oas": true}, "-oas.json is missing"},
		"other driver":  {object{"custom_middleware": object{"driver": "otto", "pre": []object{{"name": "x", "path": "x.js"}}}}, `otto`},
		"no bundle URL": {object{"custom_middleware_bundle": "b.zip"}, "bundle_base_url is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.define("x", "http://127.0.0.1:1", c.fields)
			h.define("good", "http://127.0.0.1:1", nil)
			out := logged(h.reload)
			if !strings.Contains(out, c.want) || !strings.Contains(out, "x.json") {
				t.Errorf("logged %s", out)
			}
			if got := h.do("GET", "/x/", ""); got.code != 404 {
				t.Errorf("got %d, want 404", got.code)
			}
			if got := h.do("GET", "/good/", ""); got.code != 401 {
				t.Errorf("the other API: got %d", got.code)
			}
		})
	}
}

func TestDuplicatesAndBrokenFiles(t *testing.T) {
	h := newHost(t)
	h.define("a", "http://127.0.0.1:1", nil)
	h.define("b", "http://127.0.0.1:1", object{"api_id": "a"})
	h.define("c", "http://127.0.0.1:1", object{"proxy": object{"listen_path": "/a/", "target_url": "http://127.0.0.1:1"}})
	h.file("apps/d.json", "{\n\n  \"name\": oops }")
	h.define("e", "http://127.0.0.1:1", object{"is_oas": true})
	h.file("apps/e-oas.json", `[]`)
	out := logged(h.reload)
	for _, want := range []string{"b.json: api_id a", "c.json: proxy.listen_path /a/", "d.json: line 3", "e-oas.json: oas: the document is not a JSON object"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if n := len(h.gw.state.Load().apis); n != 1 {
		t.Errorf("%d APIs", n)
	}
}

func TestIgnoredPathPatterns(t *testing.T) {
	for _, c := range []struct {
		path, request string
		want          bool
	}{
		{"/free", "/free", true},
		{"/free", "/free/more", true}, // no anchor: the gateway's default
		{"/free", "/other", false},
		{"/a/{id}/b", "/a/7/b", true},
		{"/a/{id}/b", "/a/7/8/b", false},
		{"/a/*/b", "/a/7/b", true},
		{"/a/*", "/a/", true},
		{"^/a$", "/a", true},
		{"^/a$", "/a/b", false},
	} {
		if got := regexp.MustCompile(pathPattern(c.path)).MatchString(c.request); got != c.want {
			t.Errorf("%s %s: got %v", c.path, c.request, got)
		}
	}
}

func TestPluginFileByVersion(t *testing.T) {
	h := newHost(t)
	if f, _ := pluginFile(h.path("p.so"), "v1.2.3"); f != h.path("p.so") {
		t.Errorf("got %s", f)
	}
	for _, c := range []struct{ add, version, want string }{
		{"p_5.14.0_" + platform + ".so", "v5.14.0", "p_5.14.0_" + platform + ".so"},
		{"p_v5.14.0_" + platform + ".so", "v5.14.0", "p_v5.14.0_" + platform + ".so"},
		{"p_v5.15.0_" + platform + ".so", "5.15.0-rc7", "p_v5.15.0_" + platform + ".so"},
		{"p_v0.0.0_" + platform + ".so", "v0.0.0-dev", "p_v0.0.0_" + platform + ".so"},
		{"other", "v9.9.9", "p.so"},
	} {
		h.file(c.add, "")
		if got, err := pluginFile(h.path("p.so"), c.version); err != nil || got != h.path(c.want) {
			t.Errorf("%s: got %s, %v", c.version, got, err)
		}
	}
	if err := os.Remove(h.path("p.so")); err != nil {
		t.Fatal(err)
	}
	if _, err := pluginFile(h.path("p.so"), "v9.9.9"); err == nil || err.Error() != "plugin file not found" {
		t.Errorf("got %v", err)
	}
}
