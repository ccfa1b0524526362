package rig

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An Upstream is what a gateway's APIs forward to. It answers with what it got,
// and counts it. The client steers it through the gateway, per request:
//
//	X-Upstream-Status: 503     answer this status
//	X-Upstream-Delay: 100ms    answer that much later
//	X-Upstream-Header: X-A: 1  answer with this field
type Upstream struct {
	URL string

	server *http.Server
	mu     sync.Mutex
	hits   map[string]int // by API
}

// An Echo is the body of an upstream's answer.
type Echo struct {
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Query  string      `json:"query"`
	Header http.Header `json:"header"`
}

func startUpstream() (*Upstream, error) {
	u := &Upstream{hits: make(map[string]int)}
	var err error
	if u.server, u.URL, err = serve(http.HandlerFunc(u.answer)); err != nil {
		return nil, err
	}
	return u, nil
}

func (u *Upstream) answer(w http.ResponseWriter, r *http.Request) {
	api, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	u.mu.Lock()
	u.hits[api]++
	u.mu.Unlock()
	if d, err := time.ParseDuration(r.Header.Get("X-Upstream-Delay")); err == nil {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
			return
		}
	}
	if r.Header.Get("Upgrade") == "websocket" {
		echo(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Upstream", "yes")
	if name, value, ok := strings.Cut(r.Header.Get("X-Upstream-Header"), ":"); ok {
		w.Header().Set(name, strings.TrimSpace(value))
	}
	if code, err := strconv.Atoi(r.Header.Get("X-Upstream-Status")); err == nil {
		w.WriteHeader(code)
	}
	_ = json.NewEncoder(w).Encode(Echo{r.Method, r.URL.Path, r.URL.RawQuery, r.Header})
}

// echo switches protocols and sends one line back.
func echo(w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	_ = rw.Flush()
	line, _ := rw.ReadString('\n')
	_, _ = rw.WriteString(line)
	_ = rw.Flush()
}

// Hits counts the requests of an API that have arrived.
func (u *Upstream) Hits(api string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hits[api]
}

// serve runs a handler on a free loopback port until its server is closed.
func serve(h http.Handler) (server *http.Server, url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // a listener of our own does not fail
		}
	}()
	return server, "http://" + listener.Addr().String(), nil
}

// freePorts returns ports that nobody listens on at the moment.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
