package cluster

import (
	"math"
	"time"

	"tokenbucket.internal/cluster/shared"
)

const (
	// interval is the least time between the renewals of a key on average.
	// While a lease grows, quick of them may follow each other at once.
	interval = 100 * time.Millisecond
	quick    = 4
	spread   = 10 * time.Millisecond // random on top, so that gateways take turns
	period   = interval + spread
	// lapse is how long a renewal has to keep the shared bucket from
	// overflowing: the time until the next, and more.
	lapse = 180 * time.Millisecond
	// idle is how long a lease may lie unused, and how old knowledge of the
	// shared bucket may be before a request had better ask.
	idle = time.Second
	// doubt is how long a refusal is believed if the bucket is to refill later: it
	// may only be leased, and be given back. It doubles with each refusal.
	doubt = 3 * idle / 2
	// retry is the pause after a renewal that failed.
	retry = 500 * time.Millisecond
	// firstLease bounds the lease of a key whose demand is not known yet.
	firstLease = 100 // tokens
	// growth bounds how much more than the last time a renewal aims at.
	growth = 8
)

// prepare decides what a renewal asks for, beside the charge of what the local
// share has used.
func (e *entry) prepare(now time.Duration, charge int64) shared.Ask {
	e.mu.Lock()
	defer e.mu.Unlock()
	ls := e.lease.Load()
	spent := ls.spent.Load()
	if e.plan, e.sent = ls.plan, now; e.gone {
		e.ask = shared.Ask{Share: 1}
		return e.ask
	}
	e.pace = max(e.pace, now) + interval

	left := ls.total - spent
	e.debt = max(0, -left)
	left = max(0, left)
	short, need := e.short.Swap(0), e.waiting
	e.waiting = 0
	a := shared.Ask{Share: e.quarters(ls, now), Lapse: lapse, Need: need, Charge: e.debt + charge, Back: e.giving}
	asked := spent + e.refused.Swap(0) - ls.lapsed.Load()
	if asked+short+need > 0 { // else it only looks, or gives back
		target := e.aim(ls, asked, now)
		a.Want = max(0, target-left, short-left, need)
		if over := ls.usable(now) - spent - 2*target - growth; over > 0 && short == 0 && ls.spent.CompareAndSwap(spent, spent+over) {
			a.Back += over
		}
	}
	e.giving = 0
	e.ask = a
	return a
}

// quarters is the share of the shared bucket that a renewal may take: little
// while nothing is known, and the more the less others take.
func (e *entry) quarters(ls *lease, now time.Duration) int {
	switch {
	case now-ls.born >= idle:
		return 1
	case e.alone:
		return 3
	}
	return 2
}

// aim is how many tokens the lease should hold: what is asked for until those
// of the next renewal can be spent. While the shared bucket has plenty, it is
// twice that, so that there is time to renew ahead of need, or a second's worth,
// but no more than a quarter of the burst.
func (e *entry) aim(ls *lease, asked int64, now time.Duration) int64 {
	burst := ls.plan.Limit.Burst
	if elapsed := max(now-ls.born, time.Millisecond); ls.born != never {
		e.observe(float64(max(0, asked)), elapsed.Seconds())
	}
	span := e.lead + period
	if ls.plenty {
		span += period
	}
	flow := e.demand * span.Seconds()
	flow += math.Sqrt(flow) / 2 // for chance
	target := int64(max(1, flow, min(e.demand, float64(burst)/4)))
	// The first lease is no more than refills until it is idle: of a key that is
	// asked for once, nothing has to be given back then.
	first := max(1, min(burst/4, firstLease, ls.plan.Tokens(idle)-1))
	if now-ls.born >= idle {
		target = max(target, first)
	}
	target = min(target, burst+ls.plan.Tokens(shared.Ahead))
	most := growth * max(e.target, first)
	e.growing = target > most
	e.target = min(target, most)
	return e.target
}

// observe learns the demand from the tokens asked for in so many seconds: the
// mean over a second, or since a change that is more than chance.
func (e *entry) observe(tokens, seconds float64) {
	expected := e.demand * seconds
	if math.Abs(tokens-expected) > 3*math.Sqrt(expected)+1 {
		e.observed = 0
	}
	e.observed += seconds
	e.demand += min(1, max(seconds, seconds/e.observed)) * (tokens/seconds - e.demand)
}

// settle ends a renewal with Redis's answer, which arrived no later than now. It
// reports whether there are tokens to give back.
func (e *entry) settle(now time.Duration, g shared.Grant, err error) (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		e.finish()
		return false
	}
	old := e.lease.Load()
	spent := old.spent.Swap(frozen)
	ls := &lease{plan: old.plan, born: now, low: always, keep: old.keep, next: e.earliest(), fullAt: old.fullAt}
	ls.inherit(old, spent, now)
	if err != nil {
		ls.fault = true
		ls.next = max(ls.next, now+retry+e.random(retry/2))
	} else {
		e.grant(ls, g, now)
	}
	e.replace(ls)
	e.finish()
	return e.giving > 0
}

// earliest is when the pace allows the next renewal.
func (e *entry) earliest() time.Duration { return e.pace - (quick-1)*interval }

// grant adds to the lease what a renewal brought and sets when the next is due.
func (e *entry) grant(ls *lease, g shared.Grant, now time.Duration) {
	ls.base += e.debt
	ls.total += e.debt
	if ls.plan != e.plan {
		// The limit changed meanwhile. What was lent in advance at the old one
		// is not used.
		held := min(g.Tokens, e.plan.Free(g.Lacked), max(0, ls.plan.Limit.Burst-ls.base))
		ls.base += held
		ls.total += held
		return
	}
	e.limited = g.Tokens < e.ask.Want
	pace := time.Duration(0)
	if e.limited {
		pace = period
	}
	ls.add(g, now, pace)
	e.learn(ls, g, now)
	free := ls.plan.Free(e.lacked)
	ls.plenty = free > 0
	ls.keep = always
	if e.limited {
		ls.keep = ls.keeps(now)
	}
	if free == 0 && !e.growing {
		ls.next = max(ls.next, e.sent+interval+e.random(spread))
	}
	if g.Tokens > 0 {
		e.doubt = doubt / 2
	} else if e.limited {
		e.doubt = min(2*e.doubt, time.Hour)
		// It is offered in advance, so there is time for all to have a chance.
		ls.next = max(ls.next, after(now, min(ls.plan.Offered(e.lacked), e.doubt)+e.random(shared.Ahead/2)))
	}
	use := max(1, int64(e.demand*interval.Seconds()))
	switch {
	case e.limited:
		// The sooner the better.
	case e.target <= 1:
		// A key that is asked for rarely takes each token when it is wanted.
		ls.low = -1
	case !ls.plenty:
		ls.low = e.target - (use+1)/2
	default:
		ls.low = min(e.target/2, e.target-use)
	}
}

// learn notes what a grant tells of the shared bucket.
func (e *entry) learn(ls *lease, g shared.Grant, now time.Duration) {
	if e.ask.Back == 0 && e.ask.Charge == 0 {
		e.alone = ls.plan.Refilled(e.lacked, g.At-e.at) == g.Lacked
	}
	e.lacked, e.at = ls.plan.Lacks(g), g.At
	ls.fullAt = after(now, ls.plan.Time(e.lacked))
	lead := min(ls.plan.Earned(g, 1), shared.Ahead) + now - e.sent
	if e.lead == 0 {
		e.lead = lead
	}
	e.lead += (lead - e.lead) / 8
}
