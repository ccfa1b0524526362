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

	"tokenbucket.internal/limiter"
)

// Version is written to the gateway's log when the plugin is loaded.
const Version = "0.1.0"

// The gateway never unloads a plugin: this is the state of all its APIs.
var gateway = load()

func load() *engine {
	logger := log.Get().WithField("prefix", "ratelimit")
	p, problems := readProcess(os.Getenv)
	for _, problem := range problems {
		logger.Warning(problem)
	}
	logger.Infof("tyk-token-bucket %s loaded: %s", Version, p)
	return newEngine(p, logger)
}

// Pre is the pre hook.
func Pre(w http.ResponseWriter, r *http.Request) {
	defer gateway.recovered("RateLimitPre", w, r)
	injectFault(r, "pre")
	gateway.pre(w, r)
}

// PostKeyAuth is the post_key_auth hook.
func PostKeyAuth(w http.ResponseWriter, r *http.Request) {
	defer gateway.recovered("RateLimitPostKeyAuth", w, r)
	injectFault(r, "post")
	gateway.postKeyAuth(w, r)
}

// Response is the response hook. Only an upstream with RateLimit fields of its
// own needs it.
func Response(_ http.ResponseWriter, res *http.Response, r *http.Request) {
	defer gateway.recovered("RateLimitResponse", nil, r)
	injectFault(r, "response")
	gateway.response(res, r)
}

// engine is the plugin without its globals.
type engine struct {
	limits *limiter.Limiter
	known  *known
	apis   *apis
	warn   *warner
	clock  func() time.Duration

	keysAreHashed func() bool
}

func newEngine(p process, logger *logrus.Entry) *engine {
	w := newWarner(logger, p.clock)
	return &engine{
		limits: limiter.New(limiter.WithMaxKeys(p.maxKeys), limiter.WithShards(p.shards), limiter.WithClock(p.clock)),
		known:  newKnown(p.maxKeys),
		apis:   newAPIs(w),
		warn:   w,
		clock:  p.clock,

		keysAreHashed: sync.OnceValue(keysAreHashed),
	}
}
