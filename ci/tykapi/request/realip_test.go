package request

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/TykTechnologies/tyk/config"
)

func TestRealIP(t *testing.T) {
	for _, c := range []struct {
		name              string
		realIP, forwarded string
		remote            string
		depth             int
		want              string
	}{
		{name: "connection", remote: "10.0.0.9:1234", want: "10.0.0.9"},
		{name: "connection, v6", remote: "[::1]:1234", want: "::1"},
		{name: "no port", remote: "10.0.0.9", want: ""},
		{name: "X-Real-IP first", realIP: "1.2.3.4", forwarded: "5.6.7.8", want: "1.2.3.4"},
		{name: "X-Real-IP canonical", realIP: "2001:DB8::0:1", want: "2001:db8::1"},
		{name: "X-Real-IP no address", realIP: "me", forwarded: "5.6.7.8", want: "5.6.7.8"},
		{name: "X-Real-IP not trimmed", realIP: "1.2.3.4 x", remote: "10.0.0.9:1", want: "10.0.0.9"},
		{name: "leftmost", forwarded: " 1.1.1.1 , 2.2.2.2, 3.3.3.3", want: "1.1.1.1"},
		{name: "depth 1 is the last", forwarded: "1.1.1.1, 2.2.2.2, 3.3.3.3", depth: 1, want: "3.3.3.3"},
		{name: "depth 3 is the first", forwarded: "1.1.1.1, 2.2.2.2, 3.3.3.3", depth: 3, want: "1.1.1.1"},
		{name: "depth out of reach", forwarded: "1.1.1.1", depth: 2, remote: "10.0.0.9:1", want: ""},
		{name: "negative depth", forwarded: "1.1.1.1", depth: -1, remote: "10.0.0.9:1", want: ""},
		{name: "no address there", forwarded: "unknown, 2.2.2.2", remote: "10.0.0.9:1", want: "10.0.0.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			Global = func() config.Config {
				return config.Config{HttpServerOptions: config.HttpServerOptionsConfig{XFFDepth: c.depth}}
			}
			defer func() { Global = nil }()
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.remote
			if c.realIP != "" {
				r.Header.Set("X-Real-IP", c.realIP)
			}
			if c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", c.forwarded)
			}
			if got := RealIP(r); got != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRealIPFromTheContextAndWithoutConfiguration(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 2.2.2.2")
	if got := RealIP(r); got != "1.1.1.1" {
		t.Fatalf("got %q", got)
	}
	//lint:ignore SA1029 the gateway's own key
	r = r.WithContext(context.WithValue(r.Context(), "remote_addr", "9.9.9.9"))
	if got := RealIP(r); got != "9.9.9.9" {
		t.Fatalf("got %q", got)
	}
}
