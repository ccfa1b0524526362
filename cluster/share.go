package cluster

import (
	"math"
	"time"

	"tokenbucket.internal/limiter"
)

// A Fault says what becomes of requests that Redis cannot decide.
type Fault uint8

// The values of [Options.OnRedisFault].
const (
	FaultShare  Fault = iota // each gateway enforces its share of the limit by itself
	FaultOpen                // all requests are allowed
	FaultClosed              // all requests are refused
)

// closedRetry is when a request refused by FaultClosed may come again.
const closedRetry = time.Second

// local decides without Redis. The entry is nil if the key has none.
func (l *Limiter) local(e *entry, c limiter.Claim, take bool) limiter.Decision {
	l.count.local.Add(1)
	// What Redis alone did not answer in time, and what cannot be kept there, is
	// limited in any case.
	if e == nil && l.link.down.Load() || e != nil && l.lost(e.lease.Load()) {
		switch l.onFault {
		case FaultOpen:
			return limiter.Decision{Allowed: true, Remaining: c.Limit.Burst}
		case FaultClosed:
			return limiter.Decision{RetryAfter: closedRetry}
		}
	}
	part := l.share(e, c)
	if take {
		return l.shares.Take(c.Key, part, c.Cost)
	}
	d := l.shares.Peek(c.Key, part)
	if d.Allowed = d.Remaining >= c.Cost; !d.Allowed {
		spare := float64(part.Burst-c.Cost) * float64(part.Period) / float64(part.Tokens)
		d.RetryAfter = time.Duration(max(1, float64(d.ResetAfter)-spare))
	}
	return d
}

// share is what a key is decided by from now on. The entry is nil if it has
// none.
func (l *Limiter) share(e *entry, c limiter.Claim) limiter.Limit {
	if e == nil {
		return l.shareOf(c.Limit, c.Cost)
	}
	c.Limit = e.lease.Load().plan.Limit
	part := e.shareOf(l, c)
	if !e.split.Load() && e.split.CompareAndSwap(false, true) {
		l.divide(e, c, part)
	}
	return part
}

// shareOf is the limit's part of one gateway: its rate over as many times the
// period, so that a share below a token is one in a longer time, and as much
// less burst, but no less than a token and the cost.
func (l *Limiter) shareOf(limit limiter.Limit, cost int64) limiter.Limit {
	nodes := max(1, l.link.nodes.Load())
	limit.Burst = max(1, limit.Burst/nodes, min(cost, limit.Burst))
	if g := gcd(limit.Tokens, nodes); g > 1 {
		limit.Tokens, nodes = limit.Tokens/g, nodes/g
	}
	if limit.Period > math.MaxInt64/time.Duration(nodes) {
		limit.Period = math.MaxInt64
	} else {
		limit.Period *= time.Duration(nodes)
	}
	return limit
}

// shareOf keeps the share's burst as large as the largest cost that it was
// asked for.
func (e *entry) shareOf(l *Limiter, c limiter.Claim) limiter.Limit {
	for {
		most := e.most.Load()
		if c.Cost <= most || e.most.CompareAndSwap(most, c.Cost) {
			return l.shareOf(c.Limit, max(c.Cost, most))
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// divide makes the share hold its part of what the shared bucket held when it
// was last seen, rounded up, less what is leased still, so that a fault does not
// come with a burst.
func (l *Limiter) divide(e *entry, c limiter.Claim, part limiter.Limit) {
	ls, now := e.lease.Load(), l.clock()
	if ls.born == never {
		return
	}
	nodes := max(1, l.link.nodes.Load())
	held := (max(0, c.Limit.Burst-ls.plan.Tokens(ls.fullAt-now)) + nodes - 1) / nodes
	left := max(0, ls.total-max(ls.spent.Load(), 0))
	if surplus := l.shares.Peek(c.Key, part).Remaining - held + left; surplus > 0 {
		l.shares.Charge(c.Key, part, surplus)
	}
}

// unite is the other way around: what the share lacks is to be charged to the
// shared bucket, which has been filling meanwhile, and then comes back to the
// share.
func (l *Limiter) unite(e *entry) (charge, lacks int64, united bool) {
	if !e.split.Load() {
		return 0, 0, false
	}
	limit := e.lease.Load().plan.Limit
	part := l.shareOf(limit, e.most.Load())
	lacks = part.Burst - l.shares.Peek(e.key, part).Remaining
	whole := float64(limit.Burst) / float64(max(1, l.link.nodes.Load()))
	return int64(math.Ceil(float64(lacks) / float64(part.Burst) * whole)), lacks, true
}

// divided reports whether the share lacks something that is still to be charged.
func (l *Limiter) divided(e *entry) bool {
	if _, lacks, _ := l.unite(e); lacks > 0 {
		return true
	}
	e.split.Store(false)
	return false
}
