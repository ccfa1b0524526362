package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/TykTechnologies/tyk/log"
)

func TestMain(m *testing.M) {
	log.Get().SetOutput(io.Discard)
	os.Exit(m.Run())
}

// object is JSON in a test.
type object = map[string]any

// host is a gateway under test with its folders, behind a real listener.
type host struct {
	t      *testing.T
	dir    string
	gw     *gateway
	server *httptest.Server
	hooks  map[string]any // by symbol; stands in for plugin files
}

func newHost(t *testing.T, change ...func(*conf)) *host {
	h := &host{t: t, dir: t.TempDir(), hooks: make(map[string]any)}
	h.file("apps/.keep", "")
	h.file("p.so", "")
	c := &conf{
		Secret: "s3cret", AppPath: h.path("apps"), MiddlewarePath: h.path("mw"),
		HealthCheckEndpointName: "hello", MinTokenLength: 3,
	}
	for _, f := range change {
		f(c)
	}
	h.gw = newGateway(c, func(path, symbol string) (any, error) {
		if f, ok := h.hooks[symbol]; ok {
			return f, nil
		}
		return nil, os.ErrNotExist
	})
	h.reload()
	h.server = httptest.NewUnstartedServer(h.gw)
	h.server.Config.ErrorLog = noLog
	h.server.Start()
	t.Cleanup(h.server.Close)
	return h
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

func (h *host) file(name, content string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(name)), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.path(name), []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) reload() {
	h.t.Helper()
	if err := h.gw.reload(); err != nil {
		h.t.Fatal(err)
	}
}

// define writes an API definition: a usable one of org "default" at /<id>/,
// with the given fields changed.
func (h *host) define(id, target string, fields object) {
	h.t.Helper()
	def := object{
		"name": id, "api_id": id, "org_id": "default", "active": true,
		"version_data": object{"not_versioned": true, "versions": object{"Default": object{"name": "Default"}}},
		"proxy":        object{"listen_path": "/" + id + "/", "target_url": target, "strip_listen_path": true},
	}
	for k, v := range fields {
		def[k] = v
	}
	h.file("apps/"+id+".json", toJSON(def))
}

// section is a custom_middleware with hooks by kind, symbols separated by spaces.
func (h *host) section(kinds map[string]string) object {
	s := object{"driver": "goplugin"}
	for kind, symbols := range kinds {
		var hooks []object
		for _, symbol := range strings.Fields(symbols) {
			hooks = append(hooks, object{"name": symbol, "path": h.path("p.so")})
		}
		s[kind] = hooks
	}
	return s
}

type reply struct {
	code   int
	body   string
	header http.Header
	err    error
}

// do sends one request; headers are "Name: value".
func (h *host) do(method, path, body string, headers ...string) reply {
	h.t.Helper()
	return send(h.t, h.server.URL, method, path, body, headers...)
}

func send(t *testing.T, base, method, path, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, string(b), res.Header, err}
}

func (h *host) admin(method, path, body string) (int, object) {
	h.t.Helper()
	got := h.do(method, path, body, "X-Tyk-Authorization: s3cret")
	var o object
	_ = json.Unmarshal([]byte(got.body), &o)
	return got.code, o
}

// key adds a key with access to the given APIs and the fields given.
func (h *host) key(name string, fields object, apis ...string) {
	h.t.Helper()
	if code, o := h.admin("POST", "/tyk/keys/"+name, keyJSON(fields, apis...)); code != 200 {
		h.t.Fatalf("key %s: %d %v", name, code, o)
	}
}

func keyJSON(fields object, apis ...string) string {
	rights := object{}
	for _, id := range apis {
		rights[id] = object{"api_id": id, "versions": []string{"Default"}}
	}
	key := object{"org_id": "default", "access_rights": rights}
	for k, v := range fields {
		key[k] = v
	}
	return toJSON(key)
}

func toJSON(v any) string {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

// echo is an upstream that answers with what it got.
func echo(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Upstream", "yes")
		_, _ = io.WriteString(w, toJSON(object{
			"uri": r.URL.RequestURI(), "host": r.Host, "header": r.Header,
		}))
	}))
	t.Cleanup(s.Close)
	return s
}
