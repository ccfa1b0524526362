package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/config"
	"github.com/TykTechnologies/tyk/request"
)

func TestConfigurationErrorsNameTheFileAndTheField(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tyk.conf")
	for name, c := range map[string]struct{ conf, want string }{
		"no JSON":       {"{\n\"secret\": \"x\",\n oops", "tyk.conf: line 3"},
		"wrong type":    {`{"listen_port": "8080"}`, "tyk.conf: listen_port: want int, got string"},
		"nested type":   {`{"policies": {"policy_source": 1}}`, "tyk.conf: policies.policy_source: want string, got number"},
		"no secret":     {`{}`, "tyk.conf: secret: missing"},
		"port":          {`{"secret": "x", "listen_port": 70000}`, "tyk.conf: listen_port: 70000"},
		"policy source": {`{"secret": "x", "policies": {"policy_source": "rpc"}}`, `tyk.conf: policies.policy_source: "rpc"`},
		"hash function": {`{"secret": "x", "hash_key_function": "md5"}`, `tyk.conf: hash_key_function: "md5"`},
		"no apps":       {`{"secret": "x", "app_path": "DIR/none"}`, "tyk.conf: app_path"},
		"apps a file":   {`{"secret": "x", "app_path": "DIR/tyk.conf"}`, "tyk.conf is not a folder"},
		"bundle URL":    {`{"secret": "x", "app_path": "DIR", "bundle_base_url": "ftp://x"}`, "tyk.conf: bundle_base_url"},
		"public key":    {`{"secret": "x", "app_path": "DIR", "public_key_path": "DIR/none.pem"}`, "tyk.conf: public_key_path"},
		"policies":      {`{"secret": "x", "app_path": "DIR", "policies": {"policy_source": "file", "policy_record_name": "DIR/none.json"}}`, "policies.policy_record_name"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(c.conf, "DIR", dir)), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run(context.Background(), []string{"--conf", file}, new(strings.Builder))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := run(context.Background(), []string{"--conf", filepath.Join(dir, "none")}, new(strings.Builder)); err == nil {
		t.Error("want an error for a missing file")
	}
	if err := run(context.Background(), []string{"--what"}, new(strings.Builder)); err == nil {
		t.Error("want an error for an unknown flag")
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	err = run(context.Background(), []string{"--conf", writeConf(t, `{"secret": "x", "listen_port": `+port)}, new(strings.Builder))
	if err == nil || !strings.Contains(err.Error(), "listen_port: "+port+" is taken") {
		t.Errorf("got %v", err)
	}
}

// writeConf completes a configuration with an app_path, and writes it.
func writeConf(t *testing.T, head string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tyk.conf")
	if err := os.WriteFile(file, []byte(head+`, "app_path": "`+dir+`/apps"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "apps"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// lines collects what a host prints, and gives the address that it names.
type lines struct {
	mu    sync.Mutex
	text  string
	ready chan string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	if _, address, ok := strings.Cut(l.text, "devgateway: listening on "); ok && strings.Contains(address, "\n") && l.ready != nil {
		address, _, _ = strings.Cut(address, "\n")
		l.ready <- address
		l.ready = nil
	}
	return len(b), nil
}

// A signal lets the requests in flight finish.
func TestServeUntilTheSignal(t *testing.T) {
	arrived := make(chan bool, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		time.Sleep(300 * time.Millisecond)
	}))
	defer upstream.Close()
	file := writeConf(t, `{"secret": "x", "unknown_field": {"a": 1}, "listen_port": 0, "http_server_options": {"xff_depth": 2}, "hash_keys": true`)
	definition := object{"api_id": "a", "use_keyless": true,
		"version_data": object{"not_versioned": true, "versions": object{"Default": object{}}},
		"proxy":        object{"listen_path": "/a/", "target_url": upstream.URL}}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "apps", "a.json"), []byte(toJSON(definition)), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() { config.Global, request.Global = nil, nil }()

	signal, stop := context.WithCancel(context.Background())
	defer stop()
	out := &lines{ready: make(chan string, 1)}
	ready, ended := out.ready, make(chan error, 1)
	go func() { ended <- run(signal, []string{"-conf", file}, out) }()
	address := <-ready
	if !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("listening on %s", address)
	}
	if !config.Global().HashKeys || request.Global().HttpServerOptions.XFFDepth != 2 {
		t.Errorf("published %+v", config.Global())
	}
	inFlight := make(chan reply, 1)
	go func() { inFlight <- send(t, "http://"+address, "GET", "/a/", "") }()
	<-arrived
	stop()
	if got := <-inFlight; got.code != 200 {
		t.Errorf("in flight: %+v", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := send(t, "http://"+address, "GET", "/a/", ""); got.err == nil {
		t.Error("still serving")
	}
}
