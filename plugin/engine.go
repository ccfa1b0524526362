package plugin

import (
	"net/http"
	"strings"

	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/request"
	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/limiter/httplimit"
)

// pre enforces what is known. A request that it does not refuse may have paid,
// which its mark says.
func (e *engine) pre(w http.ResponseWriter, r *http.Request) {
	if skipped(r) {
		return
	}
	s := e.apis.of(r)
	if s.keyless {
		policy := s.anonymous
		if policy == nil {
			policy = s.byDefault
		}
		e.anonymous(w, r, s, policy)
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
	d := e.limits.Take(g.rule.bucket, g.rule.policy.Limit(), 1)
	switch {
	case d.Allowed:
		m := &mark{rule: g.rule, decision: d, grant: g}
		m.leave(r)
	case !look:
		httplimit.Refuse(w, r, g.rule.policy, d, 0)
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
	if m != nil && m.grant != nil && m.grant.from == s && m.grant.who == who && m.grant.inputs == in {
		m.tell(w)
		return
	}
	rule, ok := e.learn(r, s, session, key, who, in)
	if ok && e.paid(r, rule) && (m.grant == nil || m.rule.policy.Limit() == rule.policy.Limit()) {
		m.tell(w)
		return
	}
	if m != nil && m.grant != nil {
		// In pre it paid for somebody else, or at a limit that is out of date.
		e.limits.Refund(m.rule.bucket, 1)
	}
	if ok {
		e.take(w, r, rule)
	}
}

// learn makes the session's rule, and keeps it for the request's credential.
func (e *engine) learn(r *http.Request, s *settings, session *user.SessionState, key string, who id, in inputs) (rule, bool) {
	rule, ok := s.ruleFor(who, hash(session.OrgID), in, func(field string, err error) {
		if e.warn.due(who.with(hash(field))) {
			e.warn.log.Warningf("key %s%s: %s: %s; the next limit applies", masked(key), alias(session),
				field, strings.TrimPrefix(err.Error(), "limiter: "))
		}
	})
	c, shown := s.credential(r)
	switch {
	case !shown:
	case ok:
		g := &grant{who: who, from: s, inputs: in, rule: rule}
		g.lookedAt.Store(int64(e.clock()))
		e.known.put(c, g)
	default:
		e.known.forget(c)
	}
	return rule, ok
}

// anonymous limits a request without a session by its client's address.
func (e *engine) anonymous(w http.ResponseWriter, r *http.Request, s *settings, policy *httplimit.Policy) {
	if policy == nil {
		return
	}
	rule := rule{policy, addressIDs.with(hash(request.RealIP(r))).with(s.id).key()}
	if !e.paid(r, rule) {
		e.take(w, r, rule)
	}
}

func (e *engine) take(w http.ResponseWriter, r *http.Request, rule rule) {
	d := e.limits.Take(rule.bucket, rule.policy.Limit(), 1)
	if !d.Allowed {
		httplimit.Refuse(w, r, rule.policy, d, 0)
		return
	}
	m := &mark{rule: rule, decision: d}
	m.leave(r)
	m.tell(w)
}

// response removes the RateLimit fields of an upstream that has some: the
// client would get them beside ours.
func (e *engine) response(res *http.Response, r *http.Request) {
	if markOf(r) != nil && res != nil {
		httplimit.DelRateLimit(res.Header)
	}
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
	return m != nil && m.rule.bucket == rule.bucket && !checksLimits(r)
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
