package main

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
)

var noLog = stdlog.New(io.Discard, "", 0)

// proxy forwards the request. Response hooks run before the client sees
// anything, except for an upgraded connection, which has no response to change.
func (a *api) proxy(w http.ResponseWriter, r *http.Request) {
	if a.def.Proxy.StripListenPath {
		r.URL.Path = stripListenPath(a.def.Proxy.ListenPath, r.URL.Path)
		if r.URL.RawPath != "" {
			r.URL.RawPath = stripListenPath(a.def.Proxy.ListenPath, r.URL.RawPath)
		}
	}
	p := httputil.ReverseProxy{
		Transport: a.gw.transport,
		Rewrite:   a.rewrite,
		ModifyResponse: func(res *http.Response) error {
			if res.StatusCode != http.StatusSwitchingProtocols {
				a.runResponseHooks(w, res, r)
				setQuota(res.Header)
				hookTimeOf(r).tell(res.Header)
			}
			return nil
		},
		ErrorHandler: a.upstreamError,
		ErrorLog:     noLog,
	}
	p.ServeHTTP(w, r)
}

func (a *api) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.RawQuery = p.In.URL.RawQuery // as the client wrote it
	p.SetURL(a.target)
	if p.In.URL.Path == "/" { // adds nothing, not even its slash
		p.Out.URL.Path, p.Out.URL.RawPath = strings.TrimRight(a.target.Path, "/"), ""
	}
	if a.def.Proxy.PreserveHostHeader {
		p.Out.Host = p.In.Host
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := p.In.Header[name]; ok {
			p.Out.Header[name] = v
		}
	}
	hops := p.In.Header["X-Forwarded-For"]
	if client, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
		hops = append(hops[:len(hops):len(hops)], client)
	}
	if len(hops) > 0 {
		p.Out.Header.Set("X-Forwarded-For", strings.Join(hops, ", "))
	}
}

func (a *api) upstreamError(w http.ResponseWriter, r *http.Request, err error) {
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		answerError(w, r, 499, "Client closed request")
	case errors.As(err, &dns):
		answerError(w, r, http.StatusInternalServerError, "Upstream host lookup failed")
	default:
		a.gw.log.WithField("api_id", a.def.APIID).Errorf("upstream: %v", err)
		answerError(w, r, http.StatusInternalServerError, "There was a problem proxying the request")
	}
}

// setQuota overwrites what hooks set under the names that the gateway uses for
// its quotas on every proxied answer. A hook that has set them on the client's
// answer already gets them doubled, as there. This host has no quotas: all 0.
func setQuota(h http.Header) {
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		h.Set(name, "0")
	}
}

func stripListenPath(listenPath, path string) string {
	path = strings.TrimPrefix(path, listenPath)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
