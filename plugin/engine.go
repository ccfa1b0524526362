package plugin

import (
	"net/http"
	"strings"
	"time"

	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/request"
	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// pre enforces what is known. A request that it does not refuse may have paid,
// which its mark says.
func (e *engine) pre(w http.ResponseWriter, r *http.Request) {
	s := e.apis.of(r)
	if s.keyless {
		policy := s.anonymous
		if policy == nil {
			policy = s.byDefault
		}
		e.anonymous(w, r, s, policy)
		return
	}
	if keepsSession(r) {
		return
	}
	c, shown := s.credential(r)
	if !shown {
		return
	}
	g := e.known.find(c)
	if g == nil || g.from != s || payment(r, g.rule.bucket) != nil {
		return
	}
	now := e.clock()
	if g.dead(now) {
		e.known.forget(c)
		return
	}
	// One request in a while goes on to authentication even if it is above the
	// limit, so that a limit that was raised is learned.
	look := g.due(now)
	// Another API may know better what the limit is by now.
	d := e.limits.TakeKnown(g.rule.bucket, g.rule.policy.Limit(), 1)
	if d.Allowed || look {
		g.passed(now)
	}
	switch {
	case d.Allowed:
		m := &mark{rule: g.rule, decision: d, grant: g}
		m.leave(r)
	case !look:
		e.refuse(w, r, g.rule, d)
	}
}

// postKeyAuth learns from the session, and limits the requests that have not
// paid yet.
func (e *engine) postKeyAuth(w http.ResponseWriter, r *http.Request) {
	s, m := e.apis.of(r), markOf(r)
	session := ctx.GetSession(r)
	key, who := e.identity(r, session)
	if key == "" { // a path that the API lets through without authentication
		if m == nil {
			e.anonymous(w, r, s, s.anonymous)
		}
		return
	}
	byPre := m.by(s, r)
	if refusedNext(session, s.api) {
		e.release(r, s, m, byPre)
		return
	}
	in := inputsOf(session, s.api)
	if byPre {
		m.grant.confirmed()
	}
	if byPre && m.grant.who == who && m.grant.inputs == in {
		m.tell(w)
		return
	}
	rule, ok := e.learn(r, s, session, key, who, in)
	paid := payment(r, rule.bucket)
	if byPre && m != paid { // it paid for somebody else
		e.giveBack(m)
	}
	if paid != nil {
		if paid.rule.policy.Limit() == rule.policy.Limit() {
			paid.tell(w)
			return
		}
		e.giveBack(paid) // at a limit that is out of date
	}
	if ok {
		e.take(w, r, rule)
	}
}

// refusedNext reports a session that the gateway will refuse right after this
// hook. It must not drain a bucket that it may share with others.
func refusedNext(s *user.SessionState, api string) bool {
	_, access := s.AccessRights[api]
	return s.IsInactive || s.Expires >= 1 && time.Now().After(time.Unix(s.Expires, 0)) || len(s.AccessRights) > 0 && !access
}

// release gives back what the request paid in pre, and forgets its credential.
func (e *engine) release(r *http.Request, s *settings, m *mark, byPre bool) {
	if byPre {
		e.giveBack(m)
	}
	if c, shown := s.credential(r); shown && !keepsSession(r) {
		e.known.forget(c)
	}
}

// learn makes the session's rule, and keeps it for the request's credential.
func (e *engine) learn(r *http.Request, s *settings, session *user.SessionState, key string, who id, in inputs) (rule, bool) {
	rule, ok := s.ruleFor(who, hash(session.OrgID), in, limitsApart(session, s.api), func(field string, err error) {
		if e.warn.due(who.with(hash(field))) {
			e.warn.log.Warningf("key %s%s: %s: %s; see the README for what applies instead", masked(inner(key, session.OrgID)), alias(session),
				field, strings.TrimPrefix(err.Error(), "limiter: "))
		}
	})
	c, shown := s.credential(r)
	switch {
	case !shown || keepsSession(r):
	case ok:
		g := &grant{who: who, from: s, inputs: in, rule: rule}
		seen := e.clock()
		if e.known.find(c) == nil {
			// The first session of a JWT's subject lacks its policy's metadata:
			// the next look is not to wait.
			seen -= s.refresh
		}
		g.lookedAt.Store(int64(seen))
		g.unsure.Store(sure)
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
	if payment(r, rule.bucket) == nil {
		e.take(w, r, rule)
	}
}

func (e *engine) take(w http.ResponseWriter, r *http.Request, rule rule) {
	d := e.limits.Take(rule.bucket, rule.policy.Limit(), 1)
	if !d.Allowed {
		e.refuse(w, r, rule, d)
		return
	}
	m := &mark{rule: rule, decision: d}
	m.leave(r)
	m.tell(w)
}

// refuse answers. What the request has paid before the gateway looped it here
// comes back: a refusal costs nothing.
func (e *engine) refuse(w http.ResponseWriter, r *http.Request, rule rule, d limiter.Decision) {
	for m := markOf(r); m != nil; m = m.before() {
		e.giveBack(m)
	}
	httplimit.Refuse(w, r, rule.policy, d, 0)
}

func (e *engine) giveBack(m *mark) {
	if !m.returned {
		m.returned = true
		e.limits.Refund(m.rule.bucket, 1)
	}
}

// response removes the RateLimit fields of an upstream that has some: the
// client would get them beside ours.
func (e *engine) response(res *http.Response, r *http.Request) {
	if markOf(r) != nil && res != nil {
		httplimit.DelRateLimit(res.Header)
	}
}

func alias(s *user.SessionState) string {
	if s.Alias == "" {
		return ""
	}
	return " (" + s.Alias + ")"
}
