package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"tokenbucket.internal/cluster/shared"
)

// An entry is what this gateway knows of one key.
//
// Taking needs no lock: it is a compare-and-swap on the lease's count. Whoever
// replaces the lease holds mu and freezes the old count first, so that a take
// either counts on the old lease before it is carried over or sees the new one.
type entry struct {
	key  string
	hash uint64

	lease   atomic.Pointer[lease]
	short   atomic.Int64 // the most tokens that a request lacked since the last renewal; 0: none did
	refused atomic.Int64 // tokens that requests lacked since then, up to a few times the lease
	busy    atomic.Bool  // a renewal is queued or in flight
	split   atomic.Bool  // the key lives on its local share
	most    atomic.Int64 // the largest cost that the local share was asked for

	mu       sync.Mutex
	gone     bool          // no longer in the table; its lease is frozen for good
	done     chan struct{} // closed at the end of a renewal; nil if nobody waits
	waiting  int64         // tokens that requests wait for
	giving   int64         // tokens that the next renewal gives back
	plan     *shared.Plan  // of the renewal in flight
	ask      shared.Ask    // of the renewal in flight
	debt     int64         // of its charge, what was spent beyond the lease
	sent     time.Duration // when it went out
	pace     time.Duration // when all quick renewals may be made again
	doubt    time.Duration // how long the next refusal is believed
	lead     time.Duration // from a renewal until its first token can be spent
	demand   float64       // tokens a second
	observed float64       // seconds of it
	target   int64         // tokens that the last renewal aimed at
	lacked   int64         // what the shared bucket lacked then, in units,
	at       int64         // and Redis's clock
	growing  bool          // it aimed at less than the demand
	limited  bool          // it did not get all it wanted
	alone    bool          // nobody else took from the bucket in between
	jitter   uint64        // state of its random numbers

	// Of the sweeper alone.
	seen      *lease
	seenSpent int64
	seenAt    time.Duration
}

func newEntry(key string, hash uint64, plan *shared.Plan, seed uint64) *entry {
	e := &entry{key: key, hash: hash, pace: never, doubt: doubt / 2, jitter: seedOf(key) ^ seed | 1}
	e.lease.Store(&lease{plan: plan, low: always, keep: always, next: never, born: never, fullAt: never})
	return e
}

// A view is a lease as one request found it.
type view struct {
	*lease
	spent int64
	ready int64 // tokens that could be spent until then, spent ones included
}

// take takes cost tokens of the lease if they can be spent now. The view is that
// after it, and without a lease if the entry is gone.
func (e *entry) take(now time.Duration, cost int64) (v view, ok bool) {
	for {
		v.lease = e.lease.Load()
		if v.spent = v.lease.spent.Load(); v.spent == frozen {
			if e.replaced() {
				return view{}, false
			}
			continue
		}
		if v.ready = v.usable(now); v.spent+cost > v.ready {
			return v, false
		}
		stale := v.stale(cost)
		if v.lease.spent.CompareAndSwap(v.spent, v.spent+stale+cost) {
			if v.spent += stale + cost; stale > 0 {
				v.lapsed.Add(stale)
			}
			return v, true
		}
	}
}

// replaced waits for whoever replaces the lease and reports whether the entry
// is gone.
func (e *entry) replaced() (gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gone
}

// spend changes the count of tokens spent by what change makes of it and of the
// lease, and returns false if the entry is gone.
func (e *entry) spend(change func(ls *lease, spent int64) int64) bool {
	for {
		ls := e.lease.Load()
		spent := ls.spent.Load()
		if spent == frozen {
			if e.replaced() {
				return false
			}
			continue
		}
		if ls.spent.CompareAndSwap(spent, change(ls, spent)) {
			return true
		}
	}
}

// refund gives tokens back to the lease, at most a burst that can be spent.
func (e *entry) refund(now time.Duration, cost int64) bool {
	return e.spend(func(ls *lease, spent int64) int64 {
		room := ls.plan.Limit.Burst - (ls.usable(now) - spent)
		return spent - min(cost, max(0, room))
	})
}

// giveLater has the next renewal give tokens back.
func (e *entry) giveLater(cost int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.giving += cost
}

// charge takes tokens that the lease need not hold. How deep the debt can be is
// for the shared bucket to say; of a key that is not known no more than a burst
// is taken, as in package limiter.
func (e *entry) charge(now time.Duration, cost int64) bool {
	return e.spend(func(ls *lease, spent int64) int64 {
		burst := ls.plan.Limit.Burst
		if ls.born == never {
			cost = min(cost, burst)
		}
		room := 2*burst + (ls.usable(now) - spent)
		return spent + min(cost, max(0, room))
	})
}

// lacks notes that a request for so many tokens was not met. In a flood of
// refusals only the first few times the lease's tokens write.
func (e *entry) lacks(ls *lease, cost int64) {
	if e.refused.Load() < 4*max(0, ls.total)+64 {
		e.refused.Add(cost)
	}
	for {
		short := e.short.Load()
		if short >= cost || e.short.CompareAndSwap(short, cost) {
			return
		}
	}
}

// enlist joins those who wait for the end of the renewal that comes next or is
// in flight.
func (e *entry) enlist(cost int64) (done chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
	}
	e.waiting += cost
	return e.done
}

// change gives the key another limit. What can be spent now stays, at most the
// new burst; what was lent in advance at the old limit is not used.
func (e *entry) change(plan *shared.Plan, now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.lease.Load()
	if e.gone || old.plan.Limit == plan.Limit {
		return
	}
	left := old.usable(now) - old.spent.Swap(frozen)
	held := max(0, old.plan.Limit.Burst-old.plan.Tokens(old.fullAt-now))
	ls := &lease{plan: plan, base: min(left, plan.Limit.Burst), low: always, keep: always, next: e.earliest(), born: old.born, plenty: old.plenty, fault: old.fault}
	ls.total = ls.base
	ls.fullAt = after(now, plan.Span(plan.Limit.Burst-min(held, plan.Limit.Burst)))
	e.replace(ls)
}

// empty takes what the lease holds out of it, for the next renewal to give back,
// which it leaves to the caller. False means that there is nothing to do: a
// renewal is in flight, the lease holds nothing, or the shared bucket is full by
// now anyway unless others took from it.
func (e *entry) empty(now time.Duration) bool {
	if !e.busy.CompareAndSwap(false, true) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.lease.Load()
	left := old.total - old.spent.Load()
	if e.gone || left <= 0 {
		e.finish()
		return false
	}
	left = old.total - old.spent.Swap(frozen)
	owed := min(0, left)
	e.replace(&lease{
		plan: old.plan, base: owed, total: owed, low: always, keep: always, next: old.next,
		born: old.born, fullAt: old.fullAt - old.plan.Span(left), plenty: old.plenty, fault: old.fault,
	})
	if left <= 0 || now >= old.fullAt {
		e.finish()
		return false
	}
	e.giving += left
	return true
}

// leave makes the entry of an empty lease unusable, so that it can be
// forgotten.
func (e *entry) leave() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	ls := e.lease.Load()
	if e.gone || e.giving > 0 || e.busy.Load() || !ls.spent.CompareAndSwap(ls.total, frozen) {
		return false
	}
	e.gone = true
	return true
}

// replace puts another lease in the place of a frozen one. The caller holds mu.
func (e *entry) replace(ls *lease) { e.lease.Store(ls) }

// finish ends a renewal. The caller holds mu.
func (e *entry) finish() {
	e.busy.Store(false)
	if e.done != nil {
		close(e.done)
		e.done = nil
	}
}

// random is a number from 0 to below n, from a sequence that the key and the
// gateway's id fix (xorshift64*).
func (e *entry) random(n time.Duration) time.Duration {
	e.jitter ^= e.jitter >> 12
	e.jitter ^= e.jitter << 25
	e.jitter ^= e.jitter >> 27
	return time.Duration(e.jitter * 0x2545f4914f6cdd1d >> 1 % uint64(n))
}
