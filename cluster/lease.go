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
	spent atomic.Int64 // below 0 after refunds

	plan   *shared.Plan
	base   int64  // tokens that could be spent from the start; below 0: owed
	parts  []part // tokens that the shared bucket earns later, in order
	total  int64  // of all of them
	low    int64  // a renewal is due when no more than these are left
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
	if last := len(ls.parts) - 1; last == maxParts-1 {
		// As one, without the gap between them: its tokens wait a little longer.
		p = part{p.first - ls.parts[last].span, p.span + ls.parts[last].span, p.n + ls.parts[last].n}
		ls.parts = ls.parts[:last]
	}
	ls.parts = append(ls.parts, p)
}

// after is a time some span later, or the end of time.
func after(now, span time.Duration) time.Duration {
	if now > 0 && span > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + span
}

// decision describes the key after so many tokens of the lease were spent: as
// if this gateway were alone with the shared bucket since it was last seen.
func (ls *lease) decision(now time.Duration, spent int64, allowed bool) limiter.Decision {
	burst := ls.plan.Limit.Burst
	full := max(0, ls.fullAt-now)
	left := ls.total - spent
	if left >= 0 {
		full = max(0, full-ls.plan.Span(left))
	} else {
		full = after(full, ls.plan.Span(-left))
	}
	d := limiter.Decision{Allowed: allowed, ResetAfter: full}
	d.Remaining = min(burst, max(0, ls.usable(now)-spent))
	if allowed {
		d.Remaining = max(d.Remaining, burst-ls.plan.Tokens(full))
	}
	return d
}

// refusal is the decision on a cost that the lease cannot meet now. When it
// can is known if it holds the tokens, and else it is a guess: when the shared
// bucket has them and may be asked.
func (ls *lease) refusal(now time.Duration, spent, cost int64) limiter.Decision {
	d := ls.decision(now, spent, false)
	d.RetryAfter = max(ls.ready(spent+cost, now)-now, time.Millisecond)
	return d
}

// look is the decision on a cost that takes nothing: 0, or one that can never
// be met.
func (ls *lease) look(now time.Duration, cost int64) limiter.Decision {
	spent := ls.spent.Load()
	if spent == frozen {
		spent = 0
	}
	d := ls.decision(now, spent, true)
	if cost != 0 {
		d.Allowed, d.RetryAfter = false, -1
	}
	return d
}

// ready is when n tokens of the lease, those spent included, are earned.
func (ls *lease) ready(n int64, now time.Duration) time.Duration {
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
