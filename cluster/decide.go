package cluster

import (
	"time"

	"tokenbucket.internal/limiter"
)

// Decide takes what all claims ask for, or nothing, and tells which of them the
// decision is of; -1 without claims. If it is allowed, that is the claim with
// the fewest tokens left, and if not, the one that has to wait longest.
//
// Claims that lack a lease are asked for at the same time, so all of them
// together wait no longer than one.
func (l *Limiter) Decide(claims []limiter.Claim) (limiter.Decision, int) {
	return l.decide(claims, false)
}

// DecideKnown is Decide at the limits that this gateway knows the keys by, as
// for TakeKnown.
func (l *Limiter) DecideKnown(claims []limiter.Claim) (limiter.Decision, int) {
	return l.decide(claims, true)
}

func (l *Limiter) decide(claims []limiter.Claim, keep bool) (limiter.Decision, int) {
	var deadline time.Time
	switch len(claims) {
	case 0:
		return limiter.Decision{Allowed: true}, -1
	case 1:
		d, _ := l.request(claims[0], keep, &deadline)
		return d, 0
	}
	all, which := l.lookAll(claims, keep, &deadline)
	if !all.Allowed {
		return all, which
	}
	var few [8]source
	from := few[:0]
	for i, c := range claims {
		d, s := l.request(c, keep, &deadline)
		if !d.Allowed {
			l.giveBack(claims[:i], from)
			return d, i
		}
		from = append(from, s)
		if i == 0 || limiter.Tighter(d, all) {
			all, which = d, i
		}
	}
	return all, which
}

// lookAll decides the claims without taking anything. It waits once for those
// whose lease lacks tokens.
func (l *Limiter) lookAll(claims []limiter.Claim, keep bool, deadline *time.Time) (limiter.Decision, int) {
	all, which, waiting := l.lookOnce(claims, keep, true)
	if waiting == nil {
		return all, which
	}
	if !l.awaitAll(waiting, deadline) {
		return limiter.Decision{Allowed: true}, which // taking will tell
	}
	all, which, _ = l.lookOnce(claims, keep, false)
	return all, which
}

func (l *Limiter) lookOnce(claims []limiter.Claim, keep, wait bool) (all limiter.Decision, which int, waiting []<-chan struct{}) {
	now := l.clock()
	for i, c := range claims {
		d, done := l.lookAt(c, keep, now, wait)
		if done != nil {
			waiting = append(waiting, done)
		}
		if i == 0 || limiter.Tighter(d, all) {
			all, which = d, i
		}
	}
	return all, which, waiting
}

// lookAt decides one claim without taking anything. If the tokens may be had
// from Redis and it may wait, it starts a renewal and returns what to wait for.
func (l *Limiter) lookAt(c limiter.Claim, keep bool, now time.Duration, wait bool) (limiter.Decision, <-chan struct{}) {
	e, ok := l.entryOf(c, keep)
	if e == nil {
		if !ok || c.Cost <= 0 || c.Cost > c.Limit.Burst {
			d, _ := l.unknown(c, ok)
			return d, nil
		}
		return l.local(nil, c, false), nil
	}
	ls := e.lease.Load()
	v := view{ls, ls.spent.Load(), ls.usable(now)}
	switch {
	case v.spent == frozen: // taking will tell
		return limiter.Decision{Allowed: true, Remaining: c.Limit.Burst}, nil
	case takesNothing(c, ls, keep):
		return ls.look(now, c.Cost), nil
	case v.spent+c.Cost <= v.ready:
		v.spent += c.Cost
		return v.decision(now, true), nil
	}
	e.lacks(ls, c.Cost)
	if l.lost(ls) {
		l.renew(e, ls, now)
		return l.local(e, c, false), nil
	}
	if wait && l.worthWaiting(e, v, now, c.Cost) {
		done := e.enlist(c.Cost)
		if l.renew(e, ls, now) {
			return v.refusal(now, c.Cost), done
		}
	}
	l.renew(e, ls, now)
	return v.refusal(now, c.Cost), nil
}

// giveBack returns what was taken for claims that are not all met.
func (l *Limiter) giveBack(claims []limiter.Claim, from []source) {
	for i, c := range claims {
		switch from[i] {
		case fromLease:
			if e := l.table.find(c.Key); e != nil {
				e.refund(l.clock(), c.Cost)
			}
		case fromShare:
			l.shares.Refund(c.Key, c.Cost)
		}
	}
}
