package plugin

import (
	"net/http"
	"strings"
	"time"

	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/request"
	"github.com/TykTechnologies/tyk/user"
)

// pre enforces what is known. A request that it does not refuse may have paid,
// which its mark says.
func (e *engine) pre(w http.ResponseWriter, r *http.Request) {
	s := e.apis.of(r)
	if s.keyless {
		if s.asksStatus(s.targetOf(r, nil)) {
			e.answerStatus(w, r, s, s.addressPlan(addressOf(r), s.forAddresses))
			return
		}
		e.anonymous(w, r, s, s.forAddresses)
		return
	}
	if keepsSession(r) {
		return
	}
	if s.learning.overdue() {
		e.warn.log.Warningf("API %s: %d requests, and RateLimitPostKeyAuth has seen none: is it registered for post_key_auth? Without it nothing is limited", s.api, overdueAfter)
	}
	c, shown := s.credential(r)
	now := e.clock()
	g := e.acquaintance(c, shown, now)
	if g == nil {
		e.admitUnknown(w, r, s)
		return
	}
	if g.from != s {
		return
	}
	t := s.targetOf(r, g.plan)
	if s.asksStatus(t) {
		e.limitStatus(w, r, s, g)
		return
	}
	charge, by := unpaid(r, g.plan.of(s, t))
	if by != nil && charge == nil {
		return
	}
	cost := s.costOf(t)
	tokens := cost.tokens(r)
	// One request in a while goes on to authentication even if it is above the
	// limit, so that a limit that was raised is learned.
	look := g.due(now)
	v := e.takeKnown(now, charge, tokens)
	if v.Allowed || look {
		g.passed(now)
	}
	switch {
	case v.Allowed:
		if v.shadowed != nil {
			e.noteShadow(g.who, g.label, s, v.shadowed)
		}
		m := &mark{charge: charge, rule: v.rule, decision: v.Decision, from: s, grant: g, tokens: tokens, cost: cost, shadowed: v.shadowed != nil}
		m.leave(r)
	case !look:
		e.refuse(w, r, s, v)
	}
}

// acquaintance is what is known of a credential; nil if it is nothing, or out
// of date.
func (e *engine) acquaintance(c id, shown bool, now time.Duration) *grant {
	if !shown {
		return nil
	}
	g := e.known.find(c)
	if g != nil && g.dead(now) {
		e.known.forget(c)
		return nil
	}
	return g
}

// admitUnknown limits what comes from an address without a credential that was
// accepted before, so that a flood of invented ones ends here.
func (e *engine) admitUnknown(w http.ResponseWriter, r *http.Request, s *settings) {
	if len(s.unknown.specs) == 0 || ctx.GetSession(r) != nil {
		return
	}
	who := unknownIDs.with(named(request.RealIP(r)))
	rules := s.address(who).rules(s.unknown)
	c := charged(rules)
	c.local = true // a flood must not reach Redis
	e.pay(w, r, s, payer{charge: c, deposit: true, who: who, label: anAddress})
}

// postKeyAuth learns from the session, and limits the requests that have not
// paid yet.
func (e *engine) postKeyAuth(w http.ResponseWriter, r *http.Request) {
	s, m := e.apis.of(r), markOf(r)
	s.learning.met()
	session := ctx.GetSession(r)
	who := e.identity(r, session)
	if who.key == "" { // a path that the API lets through without authentication
		if e.returnDeposit(m); !m.by(s, r) {
			e.anonymous(w, r, s, s.anonymous)
		}
		return
	}
	byPre := m.by(s, r)
	if refusedNext(session, s.api) {
		e.release(r, s, m, byPre)
		return
	}
	e.returnDeposit(m)
	if byPre {
		m.grant.confirmed()
		if m.grant.who == who.who && m.grant.inputs == inputsOf(session, s.api, m.grant.watched) {
			e.expectAnswer(s)
			m.tell(w, s)
			return
		}
	}
	g := e.learn(r, s, session, who)
	t := s.targetOf(r, g.plan)
	if s.asksStatus(t) {
		e.answerStatus(w, r, s, g.plan)
		return
	}
	charge := g.plan.of(s, t)
	if byPre && !m.charge.same(charge) { // it paid for somebody else, or at a limit that is out of date
		e.giveBack(m)
	}
	rest, by := unpaid(r, charge)
	if rest == nil {
		by.tell(w, s)
		return
	}
	e.pay(w, r, s, payer{charge: rest, cost: s.costOf(t), who: g.who, label: g.label})
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

// learn makes the session's plan, and keeps it for the request's credential.
func (e *engine) learn(r *http.Request, s *settings, session *user.SessionState, who identity) *grant {
	type fault struct {
		field string
		err   error
	}
	var unusable []fault // told when it is known what is in force instead
	a := &author{s: s, session: session, who: who.bucket(session.OrgID)}
	g := &grant{who: who.who, from: s}
	a.unusable = func(field string, err error) { unusable = append(unusable, fault{field, err}) }
	g.plan = a.plan()
	g.watched = a.watched
	for _, f := range unusable {
		if e.warn.due(who.who.with(hash(f.field))) {
			e.warn.log.Warningf("key %s: %s: %s; in force: %s", label(who.key, session), f.field, strings.TrimPrefix(f.err.Error(), "limiter: "), g.plan.plain)
		}
	}
	g.inputs = inputsOf(session, s.api, g.watched)
	if len(g.plan.plain.shadow) > 0 || g.plan.author != nil {
		g.label = label(who.key, session)
	}
	c, shown := s.credential(r)
	switch {
	case !shown || keepsSession(r):
	case g.plan.empty() && len(s.unknown.specs) == 0:
		e.known.forget(c)
	default:
		seen := e.clock()
		if e.known.find(c) == nil {
			// The first session of a JWT's subject lacks its policy's metadata:
			// the next look is not to wait.
			seen -= s.refresh
		}
		g.lookedAt.Store(int64(seen))
		g.unsure.Store(sure)
		e.known.put(c, g)
	}
	return g
}

const anAddress = "of a client address"

// addressOf is the id of the client's address.
func addressOf(r *http.Request) id { return addressIDs.with(named(request.RealIP(r))) }

// anonymous limits a request without a session by its client's address.
func (e *engine) anonymous(w http.ResponseWriter, r *http.Request, s *settings, limits entry) {
	if len(limits.specs)+len(s.endpoints)+len(s.totals) == 0 {
		return
	}
	who := addressOf(r)
	t := s.targetOf(r, nil)
	rest, by := unpaid(r, s.addressPlan(who, limits).of(s, t))
	if by != nil && rest == nil {
		return
	}
	e.pay(w, r, s, payer{charge: rest, cost: s.costOf(t), who: who.with(s.id), label: anAddress})
}

// A payer is who pays what.
type payer struct {
	charge  *charge
	cost    *cost // nil: one token
	deposit bool
	who     id
	label   string
}

// pay takes what a request is charged to, or refuses it.
func (e *engine) pay(w http.ResponseWriter, r *http.Request, s *settings, p payer) {
	if p.charge.empty() {
		return
	}
	m := &mark{charge: p.charge, from: s, deposit: p.deposit, cost: p.cost, tokens: p.cost.tokens(r)}
	v := e.take(p.charge, m.tokens)
	if !v.Allowed {
		e.refuse(w, r, s, v)
		return
	}
	if m.shadowed = v.shadowed != nil; m.shadowed {
		e.noteShadow(p.who, p.label, s, v.shadowed)
	}
	m.rule, m.decision = v.rule, v.Decision
	e.expectAnswer(s)
	m.leave(r)
	if !p.deposit {
		m.tell(w, s)
	}
}

// giveBack returns what the request has paid.
func (e *engine) giveBack(m *mark) {
	if m.returned {
		return
	}
	m.returned = true
	e.settle(m, -m.tokens)
}

// returnDeposit returns what the request paid while it was unknown.
func (e *engine) returnDeposit(m *mark) {
	for ; m != nil; m = m.before() {
		if m.deposit {
			e.giveBack(m)
		}
	}
}

// settle charges more, or gives back, in every bucket that the mark paid from.
func (e *engine) settle(m *mark, more int64) {
	from := e.limits.of(m.charge)
	paid := [][]rule{m.charge.enforced, m.charge.shadow}
	if m.shadowed {
		paid = paid[:1]
	}
	for _, rules := range paid {
		for _, rule := range rules {
			from.settle(&rule, more)
		}
	}
}
