package cluster

import (
	"math"
	"sync/atomic"
	"time"

	"tokenbucket.internal/cluster/shared"
	"tokenbucket.internal/limiter"
)

const (
	// frozen marks the count of a lease that is being replaced: nobody takes
	// from it any more.
	frozen = math.MinInt64
	// never is before any time; half of it, so that spans since then fit.
	never = time.Duration(math.MinInt64 / 2)
	// always is a low mark that every lease is below.
	always = math.MaxInt64
)

// A lease is what a gateway holds of one key's shared bucket. All but the count
// of tokens spent never changes; a renewal replaces it. It keeps no pointer to
// the one before.
type lease struct {
	spent  atomic.Int64 // below 0 after refunds
	lapsed atomic.Int64 // of these, tokens that nobody took in their time

	plan   *shared.Plan
	base   int64  // tokens that could be spent from the start; below 0: owed
	parts  []part // tokens that the shared bucket earns later, in order
	total  int64  // of all of them
	low    int64  // a renewal is due when no more than these are left
	keep   int64  // of those that can be spent, how many may be left after a take
	next   time.Duration
	born   time.Duration // when Redis last answered; never: it has not yet
	fullAt time.Duration // when the shared bucket would be full if nobody took from it
	plenty bool          // the shared bucket held more than was wanted
	fault  bool          // the last renewal failed
}

// A part of a lease is tokens whose time has not come: the first can be spent
// at first, the last a span later, the others evenly in between.
type part struct {
	first, span time.Duration
	n           int64
}

// maxParts bounds a lease's parts. Renewals take about as long as two parts
// last, so there are rarely more than three.
const maxParts = 6

func (p part) earned(now time.Duration) int64 {
	since := now - p.first
	switch {
	case since < 0:
		return 0
	case since >= p.span:
		return p.n
	}
	// At most Ahead's worth of tokens times Ahead: it fits.
	return 1 + (p.n-1)*int64(since)/int64(p.span)
}

// at is the time at which the n-th token can be spent, rounded up; n is from 1
// to p.n.
func (p part) at(n int64) time.Duration {
	if n <= 1 {
		return p.first
	}
	return p.first + time.Duration(((n-1)*int64(p.span)+p.n-2)/(p.n-1))
}

// usable is how many tokens could be spent until now, spent ones included.
func (ls *lease) usable(now time.Duration) int64 {
	n := ls.base
	for _, p := range ls.parts {
		n += p.earned(now)
	}
	return n
}

// inherit takes over what is left of another lease of which so many tokens
// were spent.
func (ls *lease) inherit(old *lease, spent int64, now time.Duration) {
	ls.base = old.base - spent
	for _, p := range old.parts {
		if p.earned(now) == p.n {
			ls.base += p.n
		} else {
			ls.parts = append(ls.parts, p)
		}
	}
	ls.total = old.total - spent
}

// stale is how many tokens lapse at a take of so many: those beyond keep.
func (v view) stale(cost int64) int64 { return max(0, v.ready-v.spent-cost-v.keep) }

// fresh is how long a token can be taken after its time, at least, while less is
// there than is asked for.
const fresh = 50 * time.Millisecond

// keeps is how many tokens outlast a pause then: a burst, as in one bucket, or
// those that can be spent now, or what is earned while one is fresh, whichever is
// most.
func (ls *lease) keeps(now time.Duration) int64 {
	held, earned := ls.usable(now), int64(0)
	if n := len(ls.parts); n > 0 {
		last := ls.parts[n-1]
		if end := last.first + last.span - now; end > 0 {
			earned = int64(float64(ls.total-held) * float64(fresh) / float64(end))
		}
	}
	return max(held, ls.plan.Limit.Burst, earned)
}

// add adds a grant that was answered no later than now: local times count from
// the answer's arrival, which is after Redis's clock was read, so no token can
// be spent before its time. Those that come later are spread over the span
// pace, or until the last is earned, if that takes longer.
func (ls *lease) add(g shared.Grant, now, pace time.Duration) {
	held := min(g.Tokens, ls.plan.Free(g.Lacked))
	ls.base += held
	ls.total += g.Tokens
	if held == g.Tokens {
		return
	}
	p := part{first: after(now, ls.plan.Earned(g, held+1)), n: g.Tokens - held}
	if p.n > 1 {
		p.span = max(pace, after(now, ls.plan.Earned(g, g.Tokens))-p.first)
	}
	if ls.parts = append(ls.parts, p); len(ls.parts) > maxParts {
		// The first two as one, which begins when the later does and ends with
		// both, so none of its tokens comes too early.
		a, b := ls.parts[0], ls.parts[1]
		first, end := max(a.first, b.first), max(a.first+a.span, b.first+b.span)
		ls.parts = ls.parts[1:]
		ls.parts[0] = part{first, end - first, a.n + b.n}
	}
}

// after is a time some span later, or the end of time.
func after(now, span time.Duration) time.Duration {
	if now > 0 && span > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + span
}

// decision describes the key: as if this gateway were alone with the shared
// bucket since it was last seen.
func (v view) decision(now time.Duration, allowed bool) limiter.Decision {
	burst := v.plan.Limit.Burst
	full := max(0, v.fullAt-now)
	if left := v.total - v.spent; left < 0 {
		full = after(full, v.plan.Span(-left))
	} else if full > 0 {
		full = max(0, full-v.plan.Span(left))
	}
	d := limiter.Decision{Allowed: allowed, ResetAfter: full, Remaining: min(burst, max(0, v.ready-v.spent))}
	if allowed && d.Remaining < burst {
		d.Remaining = max(d.Remaining, burst-v.plan.Tokens(full))
	}
	return d
}

// refusal is the decision on a cost that the lease cannot meet now. When it
// can is known if it holds the tokens, and else it is a guess: when the shared
// bucket has them and may be asked.
func (v view) refusal(now time.Duration, cost int64) limiter.Decision {
	d := v.decision(now, false)
	d.RetryAfter = max(v.due(v.spent+cost)-now, time.Millisecond)
	return d
}

// look is the decision on a cost that takes nothing: 0, or one that can never
// be met.
func (ls *lease) look(now time.Duration, cost int64) limiter.Decision {
	v := view{ls, ls.spent.Load(), ls.usable(now)}
	if v.spent == frozen {
		v.spent = 0
	}
	d := v.decision(now, true)
	if cost != 0 {
		d.Allowed, d.RetryAfter = false, -1
	}
	return d
}

// due is when n tokens of the lease, those spent included, are earned.
func (ls *lease) due(n int64) time.Duration {
	n -= ls.base
	for _, p := range ls.parts {
		if n <= p.n {
			return p.at(n)
		}
		n -= p.n
	}
	earned := ls.fullAt
	if burst := ls.plan.Limit.Burst; n > burst {
		earned = after(earned, ls.plan.Span(n-burst))
	} else {
		earned -= ls.plan.Span(burst - n)
	}
	return max(earned, ls.next)
}
