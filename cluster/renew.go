package cluster

import (
	"math"
	"time"

	"tokenbucket.internal/cluster/shared"
)

const (
	// interval is the time between the renewals of a key while it wants more
	// than it gets. They may follow each other faster while a lease grows, but
	// are never more than perSecond in a second.
	interval  = 95 * time.Millisecond
	spread    = 20 * time.Millisecond // random, so that gateways take turns
	perSecond = 10
	// lapse is how long a renewal has to keep the shared bucket from
	// overflowing: the time until the next, and more.
	lapse = 150 * time.Millisecond
	// idle is how long a lease may lie unused, and how old knowledge of the
	// shared bucket may be before a request had better ask.
	idle = time.Second
	// retry is the pause after a renewal that failed.
	retry = 500 * time.Millisecond
	// firstLease bounds the lease of a key whose demand is not known yet.
	firstLease = 100
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
	e.sends[e.send] = now
	e.send = (e.send + 1) % perSecond

	left := ls.total - spent
	e.debt = max(0, -left)
	left = max(0, left)
	short, need := e.short.Swap(0), e.waiting
	e.waiting = 0
	a := shared.Ask{Share: e.quarters(ls, now), Lapse: lapse, Need: need, Charge: e.debt + charge, Back: e.giving}
	if e.giving == 0 || need > 0 {
		target := e.aim(ls, spent+e.refused.Swap(0), now)
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

// aim is how many tokens the lease should hold: what is asked for until the
// next renewal but one, and where the burst is large up to a second's worth
// from a quarter of it.
func (e *entry) aim(ls *lease, asked int64, now time.Duration) int64 {
	burst := ls.plan.Limit.Burst
	first := min(max(burst/4, 1), firstLease)
	known := now-ls.born < idle
	if elapsed := max(now-ls.born, time.Millisecond); ls.born != never {
		e.observe(float64(max(0, asked)), elapsed.Seconds())
	}
	// What is granted now can be spent when it is earned, and what comes with
	// the next renewal an interval later. Twice the deviation of a Poisson
	// process is for chance.
	flow := e.demand * (e.lead + interval + spread).Seconds()
	flow += 0.5 * math.Sqrt(flow)
	target := int64(max(1, flow, min(e.demand, float64(burst)/4)))
	last := max(e.target, first)
	if !known {
		target = max(target, first)
	}
	most := burst + ls.plan.Tokens(shared.Ahead)
	e.target = min(target, growth*last, most)
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

// settle ends a renewal with Redis's answer, which arrived no later than now.
func (e *entry) settle(now time.Duration, g shared.Grant, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		e.finish()
		return
	}
	old := e.lease.Load()
	spent := old.spent.Swap(frozen)
	ls := &lease{plan: old.plan, born: now, low: always, next: e.earliest(), fullAt: old.fullAt}
	ls.inherit(old, spent, now)
	if err != nil {
		ls.fault = true
		ls.next = max(ls.next, now+retry+e.random(retry/2))
	} else {
		e.grant(ls, g, now)
	}
	e.replace(ls)
	e.finish()
}

// earliest is when the pace allows the next renewal.
func (e *entry) earliest() time.Duration { return e.sends[e.send] + time.Second }

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
	pace := time.Duration(0)
	if g.Tokens < e.ask.Want {
		pace = interval
	}
	ls.add(g, now, pace)
	lacks := ls.plan.Lacks(g)
	if e.ask.Back == 0 && e.ask.Charge == 0 {
		e.alone = e.plan.Refilled(e.lacked, g.At-e.at) == g.Lacked
	}
	e.lacked, e.at = lacks, g.At
	ls.fullAt = after(now, ls.plan.Time(lacks))
	if lead := ls.plan.Earned(g, 1) + now - e.sent; e.lead == 0 {
		e.lead = lead
	} else {
		e.lead += (lead - e.lead) / 8
	}
	if e.limited = g.Tokens < e.ask.Want; e.limited {
		ls.next = max(ls.next, e.sent+interval+e.random(spread))
		if g.Tokens == 0 {
			ls.next = max(ls.next, after(now, ls.plan.Offered(lacks)+e.random(interval/4)))
		}
		return
	}
	ls.plenty = ls.plan.Free(lacks) > 0
	switch {
	case !ls.plenty:
		// Others want it all: small leases, often.
		ls.next = max(ls.next, e.sent+interval+e.random(spread))
		ls.low = e.target - max(1, int64(e.demand*interval.Seconds()/2))
	case e.target <= 1:
		// A key that is asked for rarely takes each token when it is wanted.
		ls.low = -1
	default:
		ls.low = e.target / 2
	}
}
