package plugin

import (
	"net/http"
	"strings"

	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/request"
	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// policyName is what clients are told the limit is called.
const policyName = "default"

// pre enforces what is known. A request that it does not refuse may have paid,
// which its mark says.
func (e *engine) pre(w http.ResponseWriter, r *http.Request) {
	if skipped(r) {
		return
	}
	s := e.apis.of(r)
	if s.keyless {
		limit := s.anonymous
		if limit == nil {
			limit = s.byDefault
		}
		e.anonymous(w, r, s, limit)
		return
	}
	c, shown := s.credential(r)
	if !shown {
		return
	}
	g := e.known.find(c)
	if g == nil || g.from != s || e.paid(r, g.rule) {
		return
	}
	// One request in a while goes on to authentication even if it is above the
	// limit, so that a limit that was raised is learned.
	look := g.due(e.clock())
	d := e.limits.Take(g.rule.bucket, g.rule.limit, 1)
	switch {
	case d.Allowed:
		m := &mark{bucket: g.rule.bucket, policy: httplimit.Policy{Name: policyName, Limit: g.rule.limit}, decision: d, grant: g}
		m.leave(r)
	case !look:
		refuse(w, r, g.rule.limit, d)
	}
}

// postKeyAuth learns from the session, and limits the requests that have not
// paid yet.
func (e *engine) postKeyAuth(w http.ResponseWriter, r *http.Request) {
	if skipped(r) {
		return
	}
	s, m := e.apis.of(r), markOf(r)
	session := ctx.GetSession(r)
	key := sessionKey(r, session)
	if key == "" { // a path that the API lets through without authentication
		if m == nil {
			e.anonymous(w, r, s, s.anonymous)
		}
		return
	}
	who, in := sessionIDs.with(hash(session.OrgID)).with(hash(key)), inputsOf(session, s.api)
	if m != nil && m.grant != nil && m.grant.from == s && m.grant.who == who && m.grant.inputs.same(in) {
		return
	}
	rule, ok := e.learn(r, s, session, key, who, in)
	if ok && e.paid(r, rule) && (m.grant == nil || m.policy.Limit == rule.limit) {
		return
	}
	if m != nil && m.grant != nil {
		// In pre it paid for somebody else, or at a limit that is out of date.
		e.limits.Refund(m.bucket, 1)
	}
	if ok {
		e.take(w, r, rule.bucket, rule.limit)
	}
}

// learn makes the session's rule, and keeps it for the request's credential.
func (e *engine) learn(r *http.Request, s *settings, session *user.SessionState, key string, who id, in inputs) (rule, bool) {
	rule, ok := s.ruleFor(who, hash(session.OrgID), in, func(field string, err error) {
		e.warn.about(who.with(hash(field)), "key %s%s: %s: %s; the next limit applies", masked(key), alias(session),
			field, strings.TrimPrefix(err.Error(), "limiter: "))
	})
	c, shown := s.credential(r)
	switch {
	case !shown:
	case ok:
		g := &grant{who: who, from: s, inputs: in.keep(), rule: rule}
		g.lookedAt.Store(int64(e.clock()))
		e.known.put(c, g)
	default:
		e.known.forget(c)
	}
	return rule, ok
}

// anonymous limits a request without a session by its client's address.
func (e *engine) anonymous(w http.ResponseWriter, r *http.Request, s *settings, limit *limiter.Limit) {
	if limit == nil {
		return
	}
	bucket := addressIDs.with(hash(request.RealIP(r))).with(s.id).key()
	if !e.paid(r, rule{bucket: bucket}) {
		e.take(w, r, bucket, *limit)
	}
}

func (e *engine) take(w http.ResponseWriter, r *http.Request, bucket string, limit limiter.Limit) {
	d := e.limits.Take(bucket, limit, 1)
	if !d.Allowed {
		refuse(w, r, limit, d)
		return
	}
	m := &mark{bucket: bucket, policy: httplimit.Policy{Name: policyName, Limit: limit}, decision: d}
	m.leave(r)
}

// response tells the client of the limit.
func (e *engine) response(res *http.Response, r *http.Request) {
	if m := markOf(r); m != nil && res != nil {
		if res.Header == nil {
			res.Header = make(http.Header)
		}
		httplimit.SetRateLimit(res.Header, m.policy, m.decision)
	}
}

func refuse(w http.ResponseWriter, r *http.Request, limit limiter.Limit, d limiter.Decision) {
	httplimit.Refuse(w, r, httplimit.Policy{Name: policyName, Limit: limit}, d, 0)
}

// skipped reports a loop of the gateway's onto the same API: the request has
// been here before. A loop that asks for limits is a request of its own.
func skipped(r *http.Request) bool {
	loop, _ := r.Context().Value(ctx.SelfLooping).(bool)
	return loop && !checksLimits(r)
}

func checksLimits(r *http.Request) bool {
	check, _ := r.Context().Value(ctx.CheckLoopLimits).(bool)
	return check
}

// paid reports that the request has paid from the rule's bucket before, here
// or before the gateway looped it to this API.
func (e *engine) paid(r *http.Request, rule rule) bool {
	m := markOf(r)
	return m != nil && m.bucket == rule.bucket && !checksLimits(r)
}

// sessionKey is the canonical name of the key that was accepted, "" if none
// was. It is a secret.
func sessionKey(r *http.Request, session *user.SessionState) string {
	if session == nil {
		return ""
	}
	if session.KeyID != "" {
		return session.KeyID
	}
	return ctx.GetAuthToken(r)
}

func alias(s *user.SessionState) string {
	if s.Alias == "" {
		return ""
	}
	return " (" + s.Alias + ")"
}
