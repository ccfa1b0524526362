package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/ctx"
)

// A reload changes the definition's pointer, keeps keys and hooks' state, and
// lets a request in flight finish on what it started with.
func TestReloadUnderARequestInFlight(t *testing.T) {
	h := newHost(t)
	release, arrived := make(chan bool), make(chan bool, 1)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/wait") {
			arrived <- true
			<-release
		}
	}))
	defer slow.Close()
	var mu sync.Mutex
	seen := make(map[*apidef.APIDefinition]int)
	h.hooks["Note"] = func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Context().Value(ctx.Definition).(*apidef.APIDefinition)]++
	}
	h.hooks["Old"] = func(w http.ResponseWriter, res *http.Response, r *http.Request) { res.Header.Set("X-Api", "old") }
	h.define("a", slow.URL, object{"custom_middleware": h.section(map[string]string{"pre": "Note", "response": "Old"})})
	h.reload()
	h.key("good", nil, "a")

	inFlight := make(chan reply, 1)
	go func() { inFlight <- h.do("GET", "/a/wait", "", "Authorization: good") }()
	<-arrived
	h.define("a", slow.URL, object{"custom_middleware": h.section(map[string]string{"pre": "Note"})})
	if code, _ := h.admin("GET", "/tyk/reload?block=true", ""); code != 200 {
		t.Fatalf("reload: %d", code)
	}
	if got := h.do("GET", "/a/", "", "Authorization: good"); got.code != 200 || got.header.Get("X-Api") != "" {
		t.Errorf("after the reload: %+v", got)
	}
	close(release)
	if got := <-inFlight; got.code != 200 || got.header.Get("X-Api") != "old" {
		t.Errorf("in flight: %+v", got)
	}
	if len(seen) != 2 {
		t.Errorf("%d definition pointers, want 2", len(seen))
	}
}

func TestNoRequestIsLostWhileReloading(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	h.define("a", upstream.URL, nil)
	h.reload()
	h.key("good", nil, "a")
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for !stop.Load() {
				if got := h.do("GET", "/a/", "", "Authorization: good"); got.code != 200 {
					t.Errorf("%+v", got)
					return
				}
			}
		}()
	}
	for range 20 {
		h.admin("GET", "/tyk/reload", "")
		h.admin("GET", "/tyk/reload?block=true", "")
	}
	stop.Store(true)
	wg.Wait()
	h.gw.background.Wait()
}

func TestUncleanPathsAreRedirected(t *testing.T) {
	h, upstream := newHost(t), echo(t)
	h.define("a", upstream.URL, object{"use_keyless": true})
	h.reload()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]string{
		"/a//x?q=%20": "/a/x?q=%20",
		"/b/../a/":    "/a/",
		"/a/./x":      "/a/x",
		"/a/x/":       "",
		"/a/":         "",
	} {
		req, err := http.NewRequest("GET", h.server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = path
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Location"); got != want || (res.StatusCode == 301) != (want != "") {
			t.Errorf("%s: got %d %q", path, res.StatusCode, got)
		}
	}
}

func TestWebsocketUpgrade(t *testing.T) {
	h := newHost(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n\r\n", r.Header.Get("Upgrade"))
		line, _ := rw.ReadString('\n')
		fmt.Fprintf(conn, "echo %s", line)
	}))
	defer upstream.Close()
	var ran atomic.Int32
	h.hooks["Pre"] = func(w http.ResponseWriter, r *http.Request) { ran.Add(1) }
	h.define("ws", upstream.URL, object{"use_keyless": true, "custom_middleware": h.section(map[string]string{"pre": "Pre", "response": "Missing"})})
	h.reload()

	conn, err := net.Dial("tcp", h.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(conn, "GET /ws/ HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	buf := bufio.NewReader(conn)
	res, err := http.ReadResponse(buf, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("%v %v", res, err)
	}
	fmt.Fprint(conn, "hello\n")
	if got, err := io.ReadAll(buf); string(got) != "echo hello\n" || ran.Load() != 1 {
		t.Errorf("%q %v, %d hook calls", got, err, ran.Load())
	}
}
