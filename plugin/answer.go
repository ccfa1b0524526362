package plugin

import (
	"net/http"

	"tokenbucket.internal/limiter/httplimit"
)

// refuse answers. What the request has paid before the gateway looped it here
// comes back: a refusal costs nothing.
func (e *engine) refuse(w http.ResponseWriter, r *http.Request, s *settings, v verdict) {
	for m := markOf(r); m != nil; m = m.before() {
		e.giveBack(m)
	}
	httplimit.RefuseWith(w, r, v.rule.policy, v.Decision, 0, s.fields)
}

// shadowField tells clients of a shadow limit that would have refused.
const shadowField = "Ratelimit-Shadow"

var wouldRefuse = []string{"would-refuse"}

// tell puts the RateLimit fields into the answer to come. Whatever else the
// gateway does with the request, they go out with it; fields of a response hook
// would miss cached answers, and cost the gateway one more hook. The older
// fields are the gateway's own on such answers.
func (m *mark) tell(w http.ResponseWriter, s *settings) {
	if m.rule != nil && s.fields&httplimit.RateLimit != 0 {
		httplimit.SetRateLimit(w.Header(), m.rule.policy, m.decision)
	}
	if m.shadowed && s.shadowField {
		w.Header()[shadowField] = wouldRefuse
	}
}

// expectAnswer warns when the response hook is needed and never called.
func (e *engine) expectAnswer(s *settings) {
	if s.needsResponse && s.answering.overdue() {
		e.warn.log.Warningf("API %s: %d requests, and RateLimitResponse has seen no answer to them: is it registered for response? Without it refund and response_header do nothing", s.api, overdueAfter)
	}
}

// response settles what the answer says: what the request really cost, or that
// it failed and costs nothing, in each API that it was looped through. It
// removes the RateLimit fields of an upstream that has some: the client would
// get them beside ours.
func (e *engine) response(w http.ResponseWriter, res *http.Response, r *http.Request) {
	last := markOf(r)
	if last == nil || res == nil {
		return
	}
	e.apis.of(r).answering.met()
	settled := false
	for m := last; m != nil; m = m.before() {
		switch {
		case m.deposit || m.returned:
		case m.from.refunds.has(res.StatusCode):
			e.giveBack(m)
			settled = true
		case e.settleCost(m, res.Header):
			settled = true
		}
	}
	if last.deposit || last.rule == nil || last.from.fields&httplimit.RateLimit == 0 {
		return
	}
	httplimit.DelRateLimit(res.Header)
	if settled && w != nil {
		last.decision = e.limits.of(last.charge).peek(last.rule)
		last.tell(w, last.from)
	}
}

// settleCost charges what the answer says that the request cost, less what it
// has paid; false if it says nothing new.
func (e *engine) settleCost(m *mark, h http.Header) bool {
	if m.cost == nil || m.cost.response == "" {
		return false
	}
	tokens, ok := m.cost.clamp(h.Get(m.cost.response))
	if !ok || tokens == m.tokens {
		return false
	}
	e.settle(m, tokens-m.tokens)
	m.tokens = tokens
	return true
}

// statuses are the answers of an upstream after which tokens come back.
type statuses struct {
	classes uint16 // bit n: all of n00 to n99
	codes   map[int]bool
}

func (s *statuses) has(code int) bool {
	return code >= 100 && code <= 599 && s.classes>>(code/100)&1 == 1 || s.codes[code]
}
