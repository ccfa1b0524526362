package main

import (
	"strings"
	"testing"
)

func TestAdminAnswers(t *testing.T) {
	h := newHost(t)
	h.define("a", "http://127.0.0.1:1", nil)
	h.reload()
	good := keyJSON(object{"meta_data": object{"ratelimit": "5/s"}}, "a")
	for _, c := range []struct {
		method, path, body string
		code               int
		want               object
	}{
		{"POST", "/tyk/keys/free", good, 200, object{"key": "defaultfree", "status": "ok", "action": "added"}},
		{"POST", "/tyk/keys/free", good, 200, object{"key": "defaultfree", "status": "ok", "action": "added"}},
		{"PUT", "/tyk/keys/free", good, 200, object{"key": "defaultfree", "status": "ok", "action": "modified"}},
		{"PUT", "/tyk/keys/defaultfree?suppress_reset=1", good, 200, object{"key": "defaultfree", "status": "ok", "action": "modified"}},
		{"PUT", "/tyk/keys/none", good, 404, object{"status": "error", "message": "Key is not found"}},
		{"POST", "/tyk/keys/x", "{", 400, object{"status": "error", "message": "Request malformed"}},
		{"POST", "/tyk/keys/ab", good, 400, object{"status": "error"}},
		{"POST", "/tyk/keys/lost", `{"org_id":"default"}`, 500, object{"status": "error", "message": "Failed to create key, ensure security settings are correct."}},
		{"GET", "/tyk/keys/free", "", 404, object{"status": "error", "message": "Key not found"}},
		{"GET", "/tyk/keys/free?org_id=default", "", 200, object{"org_id": "default"}},
		{"GET", "/tyk/keys/free?api_id=a", "", 200, object{"org_id": "default"}},
		{"GET", "/tyk/keys/defaultfree", "", 200, object{"org_id": "default"}},
		{"GET", "/tyk/keys/free?hashed=1", "", 400, object{"status": "error"}},
		{"DELETE", "/tyk/keys/free", "", 404, object{"status": "error", "message": "There is no such key found"}},
		{"DELETE", "/tyk/keys/free/?org_id=default", "", 200, object{"key": "defaultfree", "status": "ok", "action": "deleted"}},
		{"DELETE", "/tyk/keys/defaultfree", "", 404, object{"status": "error"}},
		{"PATCH", "/tyk/keys/free", "", 405, object{"status": "error", "message": "Method not supported"}},
		{"POST", "/tyk/reload", "", 405, object{"status": "error"}},
		{"GET", "/tyk/reload", "", 200, object{"status": "ok", "message": ""}},
		{"GET", "/tyk/reload/?block=true", "", 200, object{"status": "ok"}},
		{"GET", "/tyk/reload/group", "", 200, object{"status": "ok"}},
		{"GET", "/tyk/nothing", "", 404, nil},
	} {
		code, got := h.admin(c.method, c.path, c.body)
		if code != c.code {
			t.Errorf("%s %s: got %d %v", c.method, c.path, code, got)
		}
		for k, v := range c.want {
			if got[k] != v {
				t.Errorf("%s %s: got %v", c.method, c.path, got)
			}
		}
	}
	for _, path := range []string{"/tyk/keys", "/tyk/keys/create", "/tyk/keys/"} {
		_, got := h.admin("POST", path, good)
		if key, _ := got["key"].(string); len(key) != len("default")+32 || got["action"] != "added" || got["key_hash"] != nil {
			t.Errorf("generated: %v", got)
		}
	}
	for _, header := range []string{"X-No: secret", "X-Tyk-Authorization: wrong", "X-Tyk-Authorization: s3cret0"} {
		got := h.do("GET", "/tyk/keys/free", "", header)
		if got.code != 403 || !strings.Contains(got.body, `"message":"Attempted administrative access with invalid or missing key!"`) {
			t.Errorf("%s: got %+v", header, got)
		}
	}
}

func TestHello(t *testing.T) {
	h := newHost(t, func(c *conf) { c.HealthCheckEndpointName = "alive" })
	got := h.do("GET", "/alive", "")
	if got.code != 200 || got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, `"status":"pass"`) {
		t.Errorf("%+v", got)
	}
	if got := h.do("POST", "/alive", ""); got.code != 405 {
		t.Errorf("%+v", got)
	}
	if got := h.do("GET", "/hello", ""); got.code != 404 {
		t.Errorf("%+v", got)
	}
}

func TestHashedKeysAndTokens(t *testing.T) {
	h := newHost(t, func(c *conf) { c.HashKeys, c.HashKeyFunction = true, "murmur64" })
	upstream := echo(t)
	h.define("a", upstream.URL, nil)
	h.reload()
	_, got := h.admin("POST", "/tyk/keys/free", keyJSON(nil, "a"))
	token, _ := got["key"].(string)
	if hash, _ := got["key_hash"].(string); len(hash) != 64 || tokenOrg(token) != "default" {
		t.Fatalf("%v", got)
	}
	for _, key := range []string{"free", token} {
		if got := h.do("GET", "/a/", "", "Authorization: "+key); got.code != 200 {
			t.Errorf("%s: %+v", key, got)
		}
	}
	if code, got := h.admin("GET", "/tyk/keys/"+token+"?org_id=default", ""); code != 200 {
		t.Errorf("%d %v", code, got)
	}
}

func TestTokenOrg(t *testing.T) {
	for token, want := range map[string]string{
		"":     "",
		"free": "",
		"eyJvcmciOiJkZWZhdWx0IiwiaWQiOiJ4IiwiaCI6InNoYTI1NiJ9": "default",
		"eyJub3RoaW5nIjoxfQ==":                                 "",
		"eyzzz":                                                "",
		"54de205930c55e15bd000001x":                            "54de205930c55e15bd000001",
		"54de205930c55e15bd000001":                             "",
		"zzde205930c55e15bd000001x":                            "",
	} {
		if got := tokenOrg(token); got != want {
			t.Errorf("%q: got %q", token, got)
		}
	}
}

func TestPutKeepsWhatItMust(t *testing.T) {
	h := newHost(t)
	h.define("a", "http://127.0.0.1:1", nil)
	h.reload()
	detail := func() object {
		_, o := h.admin("GET", "/tyk/keys/free?org_id=default", "")
		return o
	}
	h.key("free", object{"expires": 4000000000}, "a")
	if detail()["last_updated"] == nil {
		t.Fatalf("%v", detail())
	}
	id, s := h.gw.keys.find("default", "free")
	s.LastUpdated = "1"
	if err := h.gw.keys.save(id, s); err != nil {
		t.Fatal(err)
	}
	put := func(query string, fields object) object {
		if code, o := h.admin("PUT", "/tyk/keys/free"+query, keyJSON(fields, "a")); code != 200 {
			t.Fatalf("%d %v", code, o)
		}
		return detail()
	}
	if o := put("?suppress_reset=1", object{"expires": 5}); o["last_updated"] != "1" || o["expires"] != 4e9 {
		t.Errorf("%v", o)
	}
	if o := put("", object{"meta_data": object{"x": "y"}}); o["last_updated"] == "1" || o["expires"] != nil {
		t.Errorf("%v", o)
	}
}
