package cluster

import "time"

const (
	// sweepEvery is how often each key is looked at.
	sweepEvery = 500 * time.Millisecond
	// forget is how long a key without a lease is kept, and remember how long one
	// that used its share, unless its bucket is full before: a new one would start
	// with a full share.
	forget   = 10 * time.Second
	remember = 10 * time.Minute
)

// sweep looks for leases that lie unused and for keys that nobody asks for.
func (l *Limiter) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			now := l.clock()
			l.table.each(func(e *entry) { l.tend(e, now) })
		}
	}
}

func (l *Limiter) tend(e *entry, now time.Duration) {
	ls := e.lease.Load()
	spent := ls.spent.Load()
	left := ls.total - spent
	switch {
	case spent == frozen || e.busy.Load():
	case ls != e.seen || spent != e.seenSpent:
		if ls == e.seen && now-ls.born >= idle && left > 4*(spent+4) {
			l.renew(e, ls, now) // in use, but far too large
		}
		e.seen, e.seenSpent, e.seenAt = ls, spent, now
	case left < 0 || e.split.Load() && l.divided(e):
		l.renew(e, ls, now) // to charge it
	case left > 0 && now-e.seenAt >= idle && !l.link.down.Load():
		if e.empty(now) {
			l.enqueue(e)
		}
	case left == 0 && now-e.seenAt >= forget && (e.most.Load() == 0 || now >= ls.fullAt || now-e.seenAt >= remember):
		if e.leave() {
			l.table.drop(e)
		} else {
			l.renew(e, ls, now) // something is to be given back
		}
	}
}
