// Package limiter is a token bucket rate limiter: exact, lock-free, without a
// goroutine or a timer, and without an allocation for a decision.
//
// A [Bucket] limits one stream, a [Limiter] one stream for each key. Both keep
// a bucket in a single atomic word (the generic cell rate algorithm), so
// refilling cannot race with taking, a refusal writes nothing, and over any
// span of time no more than Burst + Tokens*span/Period is ever admitted.
//
// Every method that reads the clock has a twin that takes the time. That time
// is a reading of a monotonic clock since any start; one that stands still or
// goes backwards never adds tokens.
package limiter

import (
	"sync/atomic"
	"time"
)

// A Decision says what became of a request for tokens.
type Decision struct {
	Allowed    bool
	Remaining  int64         // whole tokens left after the decision
	RetryAfter time.Duration // 0 if allowed; the wait until the same request is allowed; < 0 if it can never be
	ResetAfter time.Duration // until the bucket is full; at most 292 years
}

// refused is the answer where there is no valid limit: nothing is unlimited
// by accident.
var refused = Decision{RetryAfter: -1}

// A Bucket is one token bucket. All methods may be called concurrently. The
// zero value and a bucket made from an invalid limit refuse everything.
type Bucket struct {
	rate rate
	tat  atomic.Int64
}

// NewBucket makes a full bucket. Call [Limit.Validate] first: a bucket with a
// limit that cannot be kept refuses everything, for ever.
func NewBucket(l Limit) *Bucket {
	b := new(Bucket)
	if r, err := compile(l); err == nil {
		b.rate = *r
	}
	b.tat.Store(fresh)
	return b
}

// Take takes cost tokens if the bucket holds them. A cost of 0 only looks, a
// negative one or one above the burst is refused with a RetryAfter below 0.
func (b *Bucket) Take(cost int64) Decision { return b.TakeAt(Monotonic(), cost) }

// TakeAt is Take at the time now.
func (b *Bucket) TakeAt(now time.Duration, cost int64) Decision {
	if b.rate.interval == 0 {
		return refused
	}
	d, _ := b.rate.takeWord(&b.tat, now, cost, true)
	return d
}

// Refund gives cost tokens back, at most until the bucket is full. A cost of
// 0 or less does nothing.
func (b *Bucket) Refund(cost int64) { b.RefundAt(Monotonic(), cost) }

// RefundAt is Refund at the time now.
func (b *Bucket) RefundAt(now time.Duration, cost int64) {
	if b.rate.interval != 0 {
		b.rate.refundWord(&b.tat, now, cost)
	}
}

// Allow takes one token and reports whether it did. It is Take without the
// divisions that describe the bucket.
func (b *Bucket) Allow() bool { return b.AllowAt(Monotonic()) }

// AllowAt is Allow at the time now.
func (b *Bucket) AllowAt(now time.Duration) bool {
	r := &b.rate
	if r.interval == 0 {
		return false
	}
	at := r.units(now)
	for {
		tat := b.tat.Load()
		next, ok := r.take(tat, at, r.interval)
		if !ok {
			return false
		}
		if b.tat.CompareAndSwap(tat, next) {
			return true
		}
	}
}
