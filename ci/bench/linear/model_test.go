// Package linear checks that concurrent calls on one bucket are linearizable:
// whatever they return, there is an order of the calls, each at some moment
// between its beginning and its end, in which a bucket that is used by one
// caller returns the same.
package linear

import (
	"time"

	"github.com/anishathalye/porcupine"

	"tokenbucket.internal/limiter"
)

type kind int

const (
	take kind = iota
	peek
	refund
	charge
)

func (k kind) String() string { return [...]string{"take", "peek", "refund", "charge"}[k] }

// A call is what was asked of the bucket, and at what time by its clock.
type call struct {
	kind  kind
	now   time.Duration
	cost  int64
	limit limiter.Limit
}

// A bucket is the reference: the textbook's token bucket, for one caller, in
// nanoseconds. It is known once something was taken; its limit is the one of
// the last take.
type bucket struct {
	known bool
	limit limiter.Limit
	full  time.Duration // when it is full again
}

// Limits here have a whole number of nanoseconds for a token.
func every(l limiter.Limit) time.Duration { return l.Period / time.Duration(l.Tokens) }

func (b bucket) tokens(n int64) time.Duration { return time.Duration(n) * every(b.limit) }

// step is what a bucket does and answers.
func step(b bucket, c call) (bucket, limiter.Decision) {
	switch c.kind {
	case refund:
		if b.known && c.cost > 0 && b.full > c.now {
			b.full = max(b.full-b.tokens(min(c.cost, b.limit.Burst)), c.now)
		}
		return b, limiter.Decision{}
	case charge:
		return b.charge(c), limiter.Decision{}
	}
	after := b.at(c.limit, c.now)
	if c.cost < 0 || c.cost > c.limit.Burst {
		d := after.describe(c.now)
		d.RetryAfter = -1
		return b, d
	}
	if missing := after.tokens(c.cost) - after.held(c.now); c.cost > 0 && missing > 0 {
		d := after.describe(c.now)
		d.RetryAfter = missing
		if !b.known { // cannot be: a new bucket is full
			panic("a new bucket refused")
		}
		return after, d
	}
	if c.cost == 0 {
		d := after.describe(c.now)
		d.Allowed = true
		return b, d
	}
	after.known = true
	after.full = max(after.full, c.now) + after.tokens(c.cost)
	d := after.describe(c.now)
	d.Allowed = true
	return after, d
}

// at is the bucket under another limit: it keeps its tokens, and its debt.
func (b bucket) at(l limiter.Limit, now time.Duration) bucket {
	if !b.known {
		return bucket{limit: l, full: now}
	}
	if b.limit == l {
		return b
	}
	held := b.held(now)
	if held >= 0 {
		held = held * every(l) / every(b.limit)
	} else {
		held = -((-held*every(l) + every(b.limit) - 1) / every(b.limit))
	}
	after := bucket{known: true, limit: l}
	after.full = now + after.tokens(l.Burst) - min(held, after.tokens(l.Burst))
	return after
}

// charge goes down to one burst of debt; a new bucket has none.
func (b bucket) charge(c call) bucket {
	if c.cost <= 0 {
		return b
	}
	if !b.known {
		b = bucket{known: true, limit: c.limit, full: c.now}
		c.cost = min(c.cost, c.limit.Burst)
	}
	base := max(b.full, c.now)
	lowest := c.now + b.tokens(2*b.limit.Burst)
	b.full = max(base, min(base+b.tokens(c.cost), lowest))
	return b
}

// held is the time's worth of tokens in the bucket, below 0 in debt.
func (b bucket) held(now time.Duration) time.Duration {
	return b.tokens(b.limit.Burst) - (max(b.full, now) - now)
}

func (b bucket) describe(now time.Duration) limiter.Decision {
	return limiter.Decision{
		Remaining:  max(0, int64(b.held(now)/every(b.limit))),
		ResetAfter: max(b.full, now) - now,
	}
}

// reference is the bucket for porcupine.
var reference = porcupine.Model{
	Init: func() any { return bucket{} },
	Step: func(state, input, output any) (bool, any) {
		after, d := step(state.(bucket), input.(call))
		return d == output.(limiter.Decision), after
	},
}
