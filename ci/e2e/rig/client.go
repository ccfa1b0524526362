package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// A Request is one request to a gateway.
type Request struct {
	Method string // GET by default
	Path   string
	Key    string // goes into the Authorization header
	Header Header
	Body   string
}

// Header has one value per name.
type Header map[string]string

// A Reply is what came back, and when. A decision that the gateway took for
// the request lies between Sent and Received.
type Reply struct {
	Status         int
	Header         http.Header
	Body           string
	Sent, Received time.Time
	Err            error // no answer: the connection failed
}

// OK reports whether the upstream answered.
func (r Reply) OK() bool { return r.Err == nil && r.Header.Get("X-Upstream") == "yes" }

// Refused reports whether a limit did.
func (r Reply) Refused() bool { return r.Err == nil && r.Status == http.StatusTooManyRequests }

func (r Reply) String() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("%d %v %.300s", r.Status, r.Header, r.Body)
}

func newClient() *http.Client {
	return &http.Client{
		Timeout: 20 * time.Second,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     time.Minute,
		},
	}
}

// Send sends a request and reads the whole answer.
func (g *Gateway) Send(ctx context.Context, q Request) (r Reply) {
	r.Sent = time.Now()
	defer func() { r.Received = time.Now() }()
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, g.URL+q.Path, strings.NewReader(q.Body))
	if err != nil {
		r.Err = err
		return r
	}
	if q.Key != "" {
		req.Header.Set("Authorization", q.Key)
	}
	for name, value := range q.Header {
		req.Header.Set(name, value)
	}
	res, err := g.client.Do(req)
	if err != nil {
		r.Err = err
		return r
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	r.Status, r.Header, r.Body, r.Err = res.StatusCode, res.Header, string(body), err
	return r
}

// admin calls the admin API and decodes its answer.
func (g *Gateway) admin(ctx context.Context, method, path string, body, answer any) error {
	text := ""
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = string(b)
	}
	r := g.Send(ctx, Request{Method: method, Path: path, Body: text, Header: Header{AdminHeader: g.Secret}})
	if r.Err != nil {
		return fmt.Errorf("rig: admin API: %s: %w", method, r.Err)
	}
	if r.Status != http.StatusOK {
		return fmt.Errorf("rig: admin API: %s answered %d: %.300s", method, r.Status, r.Body)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal([]byte(r.Body), answer)
}

// final is an error that no waiting mends.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Until calls a condition every few milliseconds until it returns nil; when the
// time is up, it returns the condition's last error.
func Until(ctx context.Context, limit time.Duration, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if stop := (final{}); errors.As(err, &stop) {
			return stop.error
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("rig: not within %v: %w", limit, err)
		}
	}
}
