package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The plugin's module requires and replaces what the root module does.
const pluginModule = `module tokenbucket.internal

go 1.23.0

require (
	github.com/TykTechnologies/tyk v1.9.2-0.20260707114557-2e9450120e2b
	github.com/sirupsen/logrus v1.9.3
)

require golang.org/x/sys v0.0.0-20220715151400-c0bba94af5f8 // indirect

replace github.com/TykTechnologies/tyk => TYKAPI
`

const pluginSource = `package main

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
	"github.com/TykTechnologies/tyk/config"
	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/log"
	"github.com/TykTechnologies/tyk/request"
)

var calls atomic.Int64

func init() { log.Get().WithField("prefix", "test-plugin").Info("loaded") }

func Pre(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Calls", fmt.Sprint(calls.Add(1)))
	w.Header().Set("X-Ip", request.RealIP(r))
	w.Header().Set("X-Hash-Keys", fmt.Sprint(config.Global().HashKeys))
	classic, _ := r.Context().Value(ctx.Definition).(*apidef.APIDefinition)
	document, _ := r.Context().Value(ctx.OASDefinition).(*oas.OAS)
	w.Header().Set("X-Definition", fmt.Sprint(classic != nil, document != nil))
	switch r.URL.Query().Get("do") {
	case "refuse":
		w.WriteHeader(http.StatusTooManyRequests)
	case "panic":
		panic("asked for")
	}
}

func PostKeyAuth(w http.ResponseWriter, r *http.Request) {
	s := ctx.GetSession(r)
	w.Header().Set("X-Session", fmt.Sprint(s.KeyID, " ", s.OrgID, " ", s.KeyHashEmpty(), " ", s.MetaData["ratelimit"]))
}

func Response(w http.ResponseWriter, res *http.Response, r *http.Request) {
	res.Header.Set("X-Response", ctx.GetAuthToken(r))
}

func main() {}
`

// build runs go build in a folder, as the root folder's plugin is built.
func build(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-tags=goplugin"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// start runs the built host until the test ends, and returns its address.
func start(t *testing.T, binary, conf string) (base string, output *lines) {
	t.Helper()
	output = &lines{ready: make(chan string, 1)}
	ready := output.ready
	cmd := exec.Command(binary, "--conf", conf)
	cmd.Stderr, cmd.Stdout = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("exit after SIGTERM: %v", err)
			}
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			t.Error("still running after SIGTERM")
		}
	})
	select {
	case address := <-ready:
		return "http://" + address, output
	case err := <-ended:
		ended <- err
		t.Fatalf("the host ended: %v\n%s", err, output.text)
	case <-time.After(20 * time.Second):
		t.Fatal("the host does not listen")
	}
	return "", nil
}

// A real plugin file, built apart from the host, is loaded and called.
func TestRealPlugin(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	tykapi, err := filepath.Abs("../tykapi")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	h.file("src/go.mod", strings.ReplaceAll(pluginModule, "TYKAPI", tykapi))
	h.file("src/go.sum", string(sums))
	h.file("src/main.go", pluginSource)
	build(t, h.path("src"), "-buildmode=plugin", "-o", h.path("tb_v1.2.3_"+platform+".so"), ".")
	build(t, ".", "-ldflags=-X main.version=v1.2.3-rc1", "-o", h.path("devgateway"), ".")
	h.file("not-a-plugin.so", "junk")

	hook := func(name, file string) []object { return []object{{"name": name, "path": h.path(file)}} }
	hooks := object{"driver": "goplugin", "pre": hook("Pre", "tb.so"), "post_key_auth": hook("PostKeyAuth", "tb.so"), "response": hook("Response", "tb.so")}
	h.define("a", upstream.URL, object{"custom_middleware": hooks})
	h.define("o", upstream.URL, object{"custom_middleware": hooks, "is_oas": true})
	h.file("apps/o-oas.json", `{"openapi":"3.0.3","x-tyk-api-gateway":{"info":{"id":"o"}}}`)
	for id, pre := range map[string][]object{"junk": hook("Pre", "not-a-plugin.so"), "gone": hook("Pre", "none.so"), "symbol": hook("Nothing", "tb.so"), "kind": hook("Response", "tb.so")} {
		h.define(id, upstream.URL, object{"use_keyless": true, "custom_middleware": object{"driver": "goplugin", "pre": pre}})
	}
	h.file("tyk.conf", toJSON(object{"secret": "s3cret", "app_path": h.path("apps"), "middleware_path": h.path("mw"), "hash_keys": true}))
	base, output := start(t, h.path("devgateway"), h.path("tyk.conf"))

	secret := "X-Tyk-Authorization: s3cret"
	if got := send(t, base, "POST", "/tyk/keys/good", keyJSON(object{"meta_data": object{"ratelimit": "5/s"}}, "a", "o"), secret); got.code != 200 {
		t.Fatalf("%+v", got)
	}
	for _, c := range []struct {
		path string
		code int
		want map[string]string
	}{
		{"/a/x", 200, map[string]string{"X-Calls": "1", "X-Definition": "true false", "X-Ip": "127.0.0.1", "X-Hash-Keys": "true",
			"X-Session": "defaultgood default false 5/s", "X-Response": "defaultgood"}},
		{"/o/x", 200, map[string]string{"X-Calls": "2", "X-Definition": "false true", "X-Response": "defaultgood"}},
		{"/a/x?do=refuse", 429, map[string]string{"X-Calls": "3", "X-Session": "", "X-Response": ""}},
		{"/a/x?do=panic", 0, nil},
		{"/junk/", 500, nil},
		{"/gone/", 500, nil},
		{"/symbol/", 500, nil},
		{"/kind/", 500, nil},
	} {
		got := send(t, base, "GET", c.path, "", "Authorization: good")
		if got.code != c.code || (c.code == 0) != (got.err != nil) {
			t.Errorf("%s: got %+v", c.path, got)
		}
		for name, value := range c.want {
			if got.header.Get(name) != value {
				t.Errorf("%s: %s is %q, want %q", c.path, name, got.header.Get(name), value)
			}
		}
	}

	if got := send(t, base, "GET", "/tyk/reload?block=true", "", secret); got.code != 200 {
		t.Fatalf("%+v", got)
	}
	got := send(t, base, "GET", "/a/x", "", "Authorization: good")
	if calls, _ := strconv.Atoi(got.header.Get("X-Calls")); calls < 5 { // a client may repeat what panicked
		t.Errorf("the plugin's state is lost in a reload: %v", got.header)
	}
	hello := send(t, base, "GET", "/hello", "")
	var health object
	if err := json.Unmarshal([]byte(hello.body), &health); err != nil || health["version"] != "v1.2.3-rc1" {
		t.Errorf("%+v", hello)
	}
	output.mu.Lock()
	defer output.mu.Unlock()
	for _, want := range []string{"prefix=test-plugin", "none.so not loaded", "plugin file not found", "panic in plugin hook Pre: asked for"} {
		if !strings.Contains(output.text, want) {
			t.Errorf("want %q in the log:\n%s", want, output.text)
		}
	}
}
