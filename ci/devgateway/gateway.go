package main

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/TykTechnologies/tyk/log"
	"github.com/sirupsen/logrus"
)

// gateway routes requests to the APIs of its current state.
type gateway struct {
	conf      *conf
	open      opener
	keys      *keyStore
	transport *http.Transport
	log       *logrus.Entry

	state      atomic.Pointer[state]
	reloading  sync.Mutex
	background sync.WaitGroup
}

// state is what a reload replaces as a whole. A request in flight keeps the
// state that it started with.
type state struct {
	apis     []*api // the longest listen path first
	byID     map[string]*api
	policies policySet
}

func newGateway(c *conf, open opener) *gateway {
	return &gateway{
		conf:      c,
		open:      open,
		keys:      newKeyStore(c.HashKeyFunction),
		transport: http.DefaultTransport.(*http.Transport).Clone(),
		log:       log.Get().WithField("prefix", "devgateway"),
	}
}

// reload builds new APIs from the files. It fails, and leaves everything as it
// was, if the policies are unusable; an API that is unusable is left out.
func (g *gateway) reload() error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	policies, err := loadPolicies(g.conf.Policies)
	if err != nil {
		return err
	}
	next := &state{byID: make(map[string]*api), policies: policies}
	next.apis = g.loadAPIs()
	for _, a := range next.apis {
		next.byID[a.def.APIID] = a
	}
	g.state.Store(next)
	g.log.Infof("%d APIs loaded", len(next.apis))
	return nil
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	clean := cleanPath(r.URL.Path)
	switch {
	case clean != r.URL.Path:
		u := *r.URL
		u.Path, u.RawPath = clean, ""
		w.Header().Set("Location", u.String())
		w.WriteHeader(http.StatusMovedPermanently)
	case r.URL.Path == "/"+g.conf.HealthCheckEndpointName:
		g.hello(w, r)
	case strings.HasPrefix(r.URL.Path, "/tyk/"):
		g.admin(w, r)
	default:
		if a := g.route(r.URL.Path); a != nil {
			a.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, http.StatusText(http.StatusNotFound))
	}
}

// route finds the API of a path: by its listen path, or by /<api id>/.
func (g *gateway) route(urlPath string) *api {
	for _, a := range g.state.Load().apis {
		if strings.HasPrefix(urlPath, a.def.Proxy.ListenPath) || strings.HasPrefix(urlPath, "/"+a.def.APIID+"/") {
			return a
		}
	}
	return nil
}

// cleanPath resolves dots and double slashes; a slash at the end stays.
func cleanPath(p string) string {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

func (g *gateway) hello(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		answerJSON(w, http.StatusMethodNotAllowed, failure(http.StatusText(http.StatusMethodNotAllowed)))
		return
	}
	answerJSON(w, http.StatusOK, map[string]any{
		"status": "pass", "version": version, "description": "Tyk GW (development host)", "details": map[string]any{},
	})
}

func answerJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// answerError writes an error of the request chain in the gateway's form: XML
// for an XML request, else JSON.
func answerError(w http.ResponseWriter, r *http.Request, code int, message string) {
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch contentType {
	case "application/xml", "text/xml", "application/soap+xml":
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<?xml version = \"1.0\" encoding = \"UTF-8\"?>\n<error>"+message+"</error>\n")
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "{\n    \"error\": \""+message+"\"\n}")
	}
}
