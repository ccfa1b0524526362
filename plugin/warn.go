package plugin

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/TykTechnologies/tyk/user"
	"github.com/sirupsen/logrus"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// warner writes to the gateway's log, the same thing at most once a minute.
type warner struct {
	log    *logrus.Entry
	recent *limiter.Limiter
	faults atomic.Uint64
	shadow atomic.Uint64 // requests that a shadow limit would have refused
}

var onceAMinute = limiter.Limit{Tokens: 1, Period: time.Minute, Burst: 1}

func newWarner(log *logrus.Entry, clock func() time.Duration) *warner {
	return &warner{log: log, recent: limiter.New(limiter.WithMaxKeys(4096), limiter.WithClock(clock))}
}

// due reports whether to warn of something: not if it did in the last minute.
func (w *warner) due(what id) bool { return w.recent.Take(what.key(), onceAMinute, 1).Allowed }

// masked shows the end of a key, or of the id in a key of Tyk's newer form, if
// it is long enough to stay a secret.
func masked(key string) string {
	if id := tokenID(key); id != "" {
		key = id
	}
	if len(key) < 16 {
		return "****"
	}
	return "****" + key[len(key)-4:]
}

// label names a key in the log.
func label(key string, s *user.SessionState) string {
	name := masked(inner(key, s.OrgID))
	if alias := s.Alias; alias != "" {
		name += fmt.Sprintf(" (%.64s)", alias)
	}
	return name
}

// noteShadow counts a refusal that a shadow limit would have made.
func (e *engine) noteShadow(who id, label string, s *settings, r *rule) {
	n := e.warn.shadow.Add(1)
	if e.warn.due(who.with(hash(r.policy.Name()))) {
		e.warn.log.Warningf("shadow: API %s: key %s would have been refused by %q, %v; %d such requests so far, of all keys", s.api, label, r.policy.Name(), r.policy.Limit(), n)
	}
}

// recovered turns a panic of a hook into what on_fault says. A nil w means
// that it is too late to refuse.
func (e *engine) recovered(hook string, w http.ResponseWriter, r *http.Request) {
	fault := recover()
	if fault == nil {
		return
	}
	n := e.warn.faults.Add(1)
	closed := w != nil && e.closedOnFault(r)
	verdict := "let it pass"
	if closed {
		verdict = "refused it"
	}
	if e.warn.due(hash(hook)) {
		e.warn.log.Warningf("%s failed and %s, %d faults so far: %v", hook, verdict, n, fault)
	}
	if closed {
		httplimit.Answer(w, r, http.StatusServiceUnavailable,
			"{\n    \"error\": \"Rate limiter unavailable\"\n}\n",
			"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<error>Rate limiter unavailable</error>\n")
	}
}

// closedOnFault is false if the fault is in the settings themselves.
func (e *engine) closedOnFault(r *http.Request) (closed bool) {
	defer func() { _ = recover() }()
	s := e.apis.of(r)
	return s != nil && s.closedOnFault
}
