package plugin

import (
	"context"
	"net/http"

	"github.com/TykTechnologies/tyk/ctx"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// A mark is left in the context of a request that has paid: by which rule,
// and what was left in the bucket.
type mark struct {
	context.Context
	rule     rule
	decision limiter.Decision
	grant    *grant // by which pre let it pass; nil if it paid later
	round    int    // in which it paid
	returned bool   // it got its token back
}

type markKey struct{}

func (m *mark) Value(key any) any {
	if key == (markKey{}) {
		return m
	}
	return m.Context.Value(key)
}

func markOf(r *http.Request) *mark {
	m, _ := r.Context().Value(markKey{}).(*mark)
	return m
}

// before is the mark that the request had already.
func (m *mark) before() *mark {
	earlier, _ := m.Context.Value(markKey{}).(*mark)
	return earlier
}

// by reports that pre has left the mark, for this API and in this round.
func (m *mark) by(s *settings, r *http.Request) bool {
	return m != nil && m.grant != nil && m.grant.from == s && m.round == round(r)
}

// payment finds how the request has paid from a bucket: in this round or,
// unless the gateway's loop checks limits, before it. nil: not yet.
func payment(r *http.Request, bucket string) *mark {
	for m := markOf(r); m != nil; m = m.before() {
		if m.rule.bucket == bucket && !m.returned && (m.round == round(r) || !checksLimits(r)) {
			return m
		}
	}
	return nil
}

// round counts how often the gateway has looped the request, to the same API
// or to another.
func round(r *http.Request) int {
	n, _ := r.Context().Value(ctx.LoopLevel).(int)
	return n
}

// checksLimits reports a loop that is a request of its own to the limits.
func checksLimits(r *http.Request) bool {
	check, _ := r.Context().Value(ctx.CheckLoopLimits).(bool)
	return check
}

// keepsSession reports a loop after which the gateway does not authenticate
// again: its credential, which may have been changed, says nothing.
func keepsSession(r *http.Request) bool {
	loop, _ := r.Context().Value(ctx.SelfLooping).(bool)
	return loop
}

// tell puts the RateLimit fields into the answer to come. Whatever else the
// gateway does with the request, they go out with it; fields of a response hook
// would miss cached answers, and cost the gateway one more hook.
func (m *mark) tell(w http.ResponseWriter) {
	httplimit.SetRateLimit(w.Header(), m.rule.policy, m.decision)
}

// leave replaces the request in place, as the gateway itself does.
func (m *mark) leave(r *http.Request) {
	m.Context, m.round = r.Context(), round(r)
	*r = *r.WithContext(m)
}
