package plugin

import (
	"context"
	"net/http"

	"github.com/TykTechnologies/tyk/ctx"

	"tokenbucket.internal/limiter"
)

// A mark is left in the context of a request that has paid: to what, and what
// was left in the tightest bucket.
type mark struct {
	context.Context
	charge   *charge
	rule     *rule // of the decision; nil: nothing is enforced
	decision limiter.Decision
	from     *settings
	grant    *grant // by which pre let it pass; nil if it paid later
	tokens   int64
	cost     *cost // that says what it costs; nil: one token
	round    int32 // in which it paid
	returned bool  // it got its tokens back
	deposit  bool  // it gets them back when its credential is accepted
	shadowed bool  // a shadow limit would have refused, and took nothing
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

// paysFrom reports that the request has paid from a bucket.
func (m *mark) paysFrom(bucket string) bool {
	for i := range m.charge.enforced {
		if m.charge.enforced[i].bucket == bucket {
			return true
		}
	}
	for i := range m.charge.shadow {
		if m.charge.shadow[i].bucket == bucket {
			return true
		}
	}
	return false
}

// payment finds how the request has paid from a bucket: in this round or,
// unless the gateway's loop checks limits, before it. nil: not yet.
func payment(r *http.Request, bucket string) *mark {
	for m := markOf(r); m != nil; m = m.before() {
		if !m.returned && !m.deposit && m.tokens > 0 && (m.round == round(r) || !checksLimits(r)) && m.paysFrom(bucket) {
			return m
		}
	}
	return nil
}

// unpaid is what of a charge the request has not paid yet; nil if that is
// nothing, and then by is a mark to tell of.
func unpaid(r *http.Request, c *charge) (rest *charge, by *mark) {
	if markOf(r) == nil {
		return c, nil
	}
	rest = new(charge)
	keep := func(rules []rule) (left []rule) {
		for _, rule := range rules {
			if m := payment(r, rule.bucket); m == nil {
				left = append(left, rule)
			} else if by == nil {
				by = m
			}
		}
		return left
	}
	rest.enforced, rest.shadow = keep(c.enforced), keep(c.shadow)
	switch {
	case by == nil:
		return c, nil
	case rest.empty():
		return nil, by
	}
	return rest, nil
}

// same reports charges that are paid alike.
func (c *charge) same(other *charge) bool {
	equal := func(a, b []rule) bool {
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i].bucket != b[i].bucket || a[i].policy.Limit() != b[i].policy.Limit() {
				return false
			}
		}
		return true
	}
	return c == other || equal(c.enforced, other.enforced) && equal(c.shadow, other.shadow)
}

// round counts how often the gateway has looped the request, to the same API
// or to another.
func round(r *http.Request) int32 {
	n, _ := r.Context().Value(ctx.LoopLevel).(int)
	return int32(n)
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

// leave replaces the request in place, as the gateway itself does.
func (m *mark) leave(r *http.Request) {
	m.Context, m.round = r.Context(), round(r)
	*r = *r.WithContext(m)
}
