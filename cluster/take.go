package cluster

import (
	"time"

	"tokenbucket.internal/limiter"
)

// refused is the answer where there is no valid limit.
var refused = limiter.Decision{RetryAfter: -1}

// Take takes cost tokens of the key's bucket if this gateway can have them. A
// key that is not known starts with what its bucket in Redis holds, a full one
// if there is none. A changed limit keeps the tokens that are there, at most
// the new burst. A cost of 0 only looks; a negative one, one above the burst
// and an invalid limit are refused with a RetryAfter below 0.
//
// It waits for Redis, at most Options.Wait, if this gateway holds no token for
// the key while Redis may: at the key's first request, at the first after a
// second in which Redis was not asked, and when requests come faster than the
// lease has grown while the shared bucket was known to hold more.
//
// Remaining, RetryAfter and ResetAfter are as if no other gateway took from
// the bucket since Redis last answered. So RetryAfter, after which the same
// request may be refused again, is an estimate, unless it is below 0.
func (l *Limiter) Take(key string, limit limiter.Limit, cost int64) limiter.Decision {
	var deadline time.Time
	d, _ := l.request(limiter.Claim{Key: key, Limit: limit, Cost: cost}, false, &deadline)
	return d
}

// TakeKnown is Take at the limit that this gateway knows the key by, whatever
// the given one is; that is for a key that is not known. It never changes a
// limit.
func (l *Limiter) TakeKnown(key string, limit limiter.Limit, cost int64) limiter.Decision {
	var deadline time.Time
	d, _ := l.request(limiter.Claim{Key: key, Limit: limit, Cost: cost}, true, &deadline)
	return d
}

// Peek looks at the key's bucket as far as this gateway knows it, which Look
// brings up to date, and while Redis is given up at its share. It never waits.
func (l *Limiter) Peek(key string, limit limiter.Limit) limiter.Decision {
	if e := l.table.find(key); e != nil && l.lost(e.lease.Load()) {
		return l.local(e, limiter.Claim{Key: key, Limit: limit}, false)
	}
	return l.Take(key, limit, 0)
}

// maxLook is how many keys are looked at at once.
const maxLook = 64

// Look asks Redis about those of the first 64 claims' keys that it was not asked
// about for a second, all at once, and waits for the answers, at most
// Options.Wait. Limits are for keys that are not known; it takes nothing.
func (l *Limiter) Look(claims []limiter.Claim) {
	var waiting []<-chan struct{}
	now := l.clock()
	for _, c := range claims[:min(len(claims), maxLook)] {
		c.Cost = 1
		e, _ := l.entryOf(c, true)
		if e == nil || l.wait <= 0 {
			continue
		}
		if ls := e.lease.Load(); now-ls.born >= idle && !l.lost(ls) {
			done := e.enlist(0)
			if l.renew(e, ls, now) {
				waiting = append(waiting, done)
			}
		}
	}
	var deadline time.Time
	l.awaitAll(waiting, &deadline)
}

// Refund gives cost tokens back to what this gateway holds of the key, at most
// one burst, and those of a key that it does not know any more to Redis, in the
// background. A cost of 0 or less does nothing. The limit is for a key that is
// not known.
func (l *Limiter) Refund(key string, limit limiter.Limit, cost int64) {
	if cost <= 0 {
		return
	}
	for {
		e, ok := l.entryOf(limiter.Claim{Key: key, Limit: limit, Cost: 1}, true)
		if e == nil || l.lost(e.lease.Load()) {
			if ok {
				l.shares.Refund(key, cost)
			}
			return
		}
		now, ls := l.clock(), e.lease.Load()
		if ls.born == never {
			e.giveLater(cost)
			l.renew(e, ls, now)
			return
		}
		if e.refund(now, cost) {
			return
		}
	}
}

// Charge takes cost tokens whether there or not, for work whose cost is known
// only when it is done. What this gateway does not hold is a debt, of one burst
// at most, that Redis learns of in the background. A cost of 0 or less does
// nothing. The limit is for a key that is not known.
func (l *Limiter) Charge(key string, limit limiter.Limit, cost int64) {
	if cost <= 0 {
		return
	}
	for {
		e, ok := l.entryOf(limiter.Claim{Key: key, Limit: limit, Cost: 1}, true)
		if e == nil || l.lost(e.lease.Load()) {
			if ok {
				l.shares.Charge(key, l.share(e, limiter.Claim{Key: key, Limit: limit, Cost: 1}), cost)
			}
			return
		}
		now := l.clock()
		if e.charge(now, cost) {
			if ls := e.lease.Load(); ls.spent.Load() > ls.total {
				l.renew(e, ls, now)
			}
			return
		}
	}
}

// source is where the tokens of a request came from.
type source uint8

const (
	nowhere   source = iota
	fromLease        // this gateway's lease
	fromShare        // its share of the limit, without Redis
)

// request decides one claim. The deadline is set at the first wait; once it has
// passed there are no more.
func (l *Limiter) request(c limiter.Claim, keep bool, deadline *time.Time) (limiter.Decision, source) {
	now := l.clock()
	for {
		e, ok := l.entryOf(c, keep)
		if e == nil {
			return l.unknown(c, ok)
		}
		ls := e.lease.Load()
		if takesNothing(c, ls, keep) {
			return ls.look(now, c.Cost), nowhere
		}
		v, ok := e.take(now, c.Cost)
		if ok {
			if v.total-v.spent <= v.low && now >= v.next {
				l.renew(e, v.lease, now)
			}
			return v.decision(now, true), fromLease
		}
		if v.lease == nil {
			continue
		}
		if d, from, ok := l.lacking(e, v, now, c, deadline); ok {
			return d, from
		}
	}
}

// entryOf finds or makes the claim's entry, with the claim's limit unless it is
// to be kept. It returns nil if there is none; ok if the limit is valid.
func (l *Limiter) entryOf(c limiter.Claim, keep bool) (e *entry, ok bool) {
	e = l.table.find(c.Key)
	if e != nil && (keep || e.lease.Load().plan.Limit == c.Limit) {
		return e, true
	}
	plan, err := l.plans.of(c.Limit)
	switch {
	case err != nil:
		return nil, c.Limit.Validate() == nil
	case c.Cost <= 0 || c.Cost > c.Limit.Burst: // changes nothing
		return e, true
	case e == nil:
		return l.table.make(c.Key, plan, l.seed), true
	}
	e.change(plan, l.clock())
	return e, true
}

// takesNothing reports a cost of 0 or one that can never be met.
func takesNothing(c limiter.Claim, ls *lease, keep bool) bool {
	return c.Cost <= 0 || c.Cost > ls.plan.Limit.Burst || !keep && c.Cost > c.Limit.Burst
}

// unknown decides for a key without an entry: one that is only looked at, has
// no limit that can be shared, or finds the table full.
func (l *Limiter) unknown(c limiter.Claim, valid bool) (limiter.Decision, source) {
	burst := c.Limit.Burst
	switch {
	case !valid:
		return refused, nowhere
	case c.Cost < 0 || c.Cost > burst:
		return limiter.Decision{Remaining: burst, RetryAfter: -1}, nowhere
	case c.Cost == 0:
		return limiter.Decision{Allowed: true, Remaining: burst}, nowhere
	}
	return l.local(nil, c, true), fromShare
}

// lost reports whether Redis cannot be counted on for this lease.
func (l *Limiter) lost(ls *lease) bool { return ls.fault || l.link.down.Load() }

// lacking decides a claim that the lease cannot meet now. False means that the
// entry is gone.
func (l *Limiter) lacking(e *entry, v view, now time.Duration, c limiter.Claim, deadline *time.Time) (limiter.Decision, source, bool) {
	for {
		e.lacks(v.lease, c.Cost)
		if l.lost(v.lease) {
			l.renew(e, v.lease, now)
			return l.local(e, c, true), fromShare, true
		}
		if !l.worthWaiting(e, v, now, c.Cost) {
			l.renew(e, v.lease, now)
			return v.refusal(now, c.Cost), nowhere, true
		}
		done := e.enlist(c.Cost)
		if !l.renew(e, v.lease, now) {
			return v.refusal(now, c.Cost), nowhere, true
		}
		if !l.await(done, deadline) {
			return l.local(e, c, true), fromShare, true
		}
		now = l.clock()
		var ok bool
		if v, ok = e.take(now, c.Cost); ok {
			return v.decision(now, true), fromLease, true
		}
		if v.lease == nil {
			return limiter.Decision{}, nowhere, false
		}
	}
}

// worthWaiting reports whether Redis may have the tokens that the lease lacks:
// it has not been asked for a while, or held more than was wanted.
func (l *Limiter) worthWaiting(e *entry, v view, now time.Duration, cost int64) bool {
	return (v.plenty || now-v.born >= idle) && v.total-v.spent < cost && l.wait > 0 &&
		(now >= v.next || e.busy.Load())
}

// awaitAll waits for the ends of several renewals, no longer than for one.
func (l *Limiter) awaitAll(waiting []<-chan struct{}, deadline *time.Time) bool {
	for _, done := range waiting {
		if !l.await(done, deadline) {
			return false
		}
	}
	return true
}

// await waits for the end of a renewal until the deadline, which the first wait
// of a request sets.
func (l *Limiter) await(done <-chan struct{}, deadline *time.Time) bool {
	if deadline.IsZero() {
		*deadline = time.Now().Add(l.wait)
		l.count.waited.Add(1)
	}
	timer := time.NewTimer(time.Until(*deadline))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		l.count.timedOut.Add(1)
		return false
	}
}
