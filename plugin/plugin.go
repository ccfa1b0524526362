// Package plugin limits the request rate of each API key inside a Tyk Gateway.
//
// In pre there is no session yet, so a key's limit is learned in
// post_key_auth, where Tyk's session with its policies is at hand, and from
// then on enforced in pre: a request above it is refused before the gateway
// authenticates it.
package plugin

import (
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/TykTechnologies/tyk/log"
	"github.com/sirupsen/logrus"
)

// Version is written to the gateway's log when the plugin is loaded.
const Version = "0.1.0"

// A Plugin is the state behind the hooks, of all APIs of a gateway process: the
// gateway never unloads a plugin.
type Plugin struct{ e *engine }

// Load reads the settings of the process and says in the gateway's log that
// the plugin is there.
func Load() *Plugin {
	logger := log.Get().WithField("prefix", "ratelimit")
	p, problems := readProcess(os.Getenv)
	for _, problem := range problems {
		logger.Warning(problem)
	}
	logger.Infof("tyk-token-bucket %s loaded: %s", Version, p)
	return &Plugin{newEngine(p, logger)}
}

// Pre is the pre hook.
func (p *Plugin) Pre(w http.ResponseWriter, r *http.Request) {
	defer p.e.recovered("RateLimitPre", w, r)
	injectFault(r, "pre")
	p.e.pre(w, r)
}

// PostKeyAuth is the post_key_auth hook.
func (p *Plugin) PostKeyAuth(w http.ResponseWriter, r *http.Request) {
	defer p.e.recovered("RateLimitPostKeyAuth", w, r)
	injectFault(r, "post")
	p.e.postKeyAuth(w, r)
}

// Response is the response hook: it gives tokens back after a failure, settles
// what requests really cost, and removes RateLimit fields of an upstream.
func (p *Plugin) Response(w http.ResponseWriter, res *http.Response, r *http.Request) {
	defer p.e.recovered("RateLimitResponse", nil, r)
	injectFault(r, "response")
	p.e.response(w, res, r)
}

// engine is the plugin without the gateway's log and environment.
type engine struct {
	limits buckets
	known  *known
	apis   *apis
	warn   *warner
	clock  func() time.Duration

	keysAreHashed func() bool
}

func newEngine(p process, logger *logrus.Entry) *engine {
	w := newWarner(logger, p.clock)
	return &engine{
		limits: openBuckets(p, func(line string) { logger.Warning(line) }),
		known:  newKnown(p.maxKeys),
		apis:   newAPIs(w),
		warn:   w,
		clock:  p.clock,

		keysAreHashed: sync.OnceValue(keysAreHashed),
	}
}
