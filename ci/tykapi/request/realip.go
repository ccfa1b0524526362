// Package request reads the client's address.
package request

import (
	"net"
	"net/http"
	"strings"

	"github.com/TykTechnologies/tyk/config"
)

// Global returns the running gateway's configuration; nil outside of one.
var Global func() config.Config

// RealIP is the client's address as the gateway sees it: the context's
// "remote_addr", else X-Real-IP, else X-Forwarded-For at the configured depth,
// else the connection's. Header values that are no address are passed over. A
// depth that the header does not reach gives "", never another entry.
func RealIP(r *http.Request) string {
	if addr := r.Context().Value("remote_addr"); addr != nil {
		return addr.(string)
	}
	if ip := net.ParseIP(r.Header.Get("X-Real-IP")); ip != nil {
		return ip.String()
	}
	if forwarded := r.Header.Get("X-Forwarded-For"); forwarded != "" {
		entry, ok := atDepth(strings.Split(forwarded, ","))
		if !ok {
			return ""
		}
		if ip := net.ParseIP(strings.TrimSpace(entry)); ip != nil {
			return ip.String()
		}
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// atDepth counts from the right; depth 0 is the leftmost entry.
func atDepth(entries []string) (string, bool) {
	depth := 0
	if Global != nil {
		depth = Global().HttpServerOptions.XFFDepth
	}
	switch {
	case depth == 0:
		return entries[0], true
	case depth < 0 || depth > len(entries):
		return "", false
	}
	return entries[len(entries)-depth], true
}
