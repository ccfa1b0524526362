package limiter

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A Limiter keeps a bucket for each key. All methods may be called
// concurrently. A known key costs no lock and no allocation; a new one takes
// the lock of its shard.
//
// Keys are kept as 128-bit hashes with random seeds, never as they are.
type Limiter struct {
	shards []shard
	mask   uint64
	rates  *rates
	hash   hasher
	clock  func() time.Duration
}

// The defaults of [New].
const (
	DefaultShards  = 256
	DefaultMaxKeys = 1 << 20
)

type options struct {
	shards, maxKeys int
	clock           func() time.Duration
	hash            hasher
}

// An Option changes how [New] sets a Limiter up.
type Option func(*options)

// WithShards sets the number of shards, rounded up to a power of two, at most
// 65536. With few keys allowed there are fewer, so that a shard has room for
// at least 1024. Values below 1 mean [DefaultShards].
func WithShards(n int) Option { return func(o *options) { o.shards = n } }

// WithMaxKeys sets how many keys are kept, at 43 to 64 bytes each. Values
// below 1 mean [DefaultMaxKeys]. Keys whose bucket is full again are dropped
// when their place is wanted. Where none is, a new key is charged to a bucket
// that it shares with all such keys of its shard and limit.
func WithMaxKeys(n int) Option { return func(o *options) { o.maxKeys = n } }

// WithClock sets the clock: a monotonic one, since any start. Nil means
// [Monotonic].
func WithClock(clock func() time.Duration) Option { return func(o *options) { o.clock = clock } }

func withHash(h hasher) Option { return func(o *options) { o.hash = h } }

// New makes a Limiter. It starts nothing and needs no closing.
func New(opts ...Option) *Limiter {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.shards < 1 {
		o.shards = DefaultShards
	}
	if o.maxKeys < 1 {
		o.maxKeys = DefaultMaxKeys
	}
	if o.clock == nil {
		o.clock = Monotonic
	}
	if o.hash == nil {
		o.hash = newHasher()
	}
	n := 1 << bits.Len(uint(min(o.shards, 1<<16)-1))
	for n > 1 && o.maxKeys/n < 1024 {
		n /= 2
	}
	l := &Limiter{shards: make([]shard, n), mask: uint64(n - 1), rates: newRates(), hash: o.hash, clock: o.clock}
	for i := range l.shards {
		s := &l.shards[i]
		s.slab.Store(newSlab(0))
		s.evicted = never
		s.max = o.maxKeys / n
		if i < o.maxKeys%n {
			s.max++
		}
	}
	return l
}

// Take takes cost tokens from the key's bucket if it holds them. A key that
// is not known starts with a full bucket. A key whose limit has changed keeps
// the tokens it has, at most the new burst. A cost of 0 only looks; a negative
// one, one above the burst and an invalid limit are refused with a RetryAfter
// below 0. A refusal takes nothing and, but for a change of limit, writes
// nothing.
func (l *Limiter) Take(key string, limit Limit, cost int64) Decision {
	return l.request(l.clock(), Claim{key, limit, cost}, take)
}

// TakeAt is Take at the time now.
func (l *Limiter) TakeAt(now time.Duration, key string, limit Limit, cost int64) Decision {
	return l.request(now, Claim{key, limit, cost}, take|exact)
}

// TakeKnown is Take at the limit that the key's bucket has, whatever the given
// one is; that is for a key that is not known. It never changes a limit.
func (l *Limiter) TakeKnown(key string, limit Limit, cost int64) Decision {
	return l.request(l.clock(), Claim{key, limit, cost}, take|keep)
}

// TakeKnownAt is TakeKnown at the time now.
func (l *Limiter) TakeKnownAt(now time.Duration, key string, limit Limit, cost int64) Decision {
	return l.request(now, Claim{key, limit, cost}, take|keep|exact)
}

// Peek looks at the key's bucket: it is Take with a cost of 0. A key that is
// not known is not made known.
func (l *Limiter) Peek(key string, limit Limit) Decision {
	return l.Take(key, limit, 0)
}

// PeekAt is Peek at the time now.
func (l *Limiter) PeekAt(now time.Duration, key string, limit Limit) Decision {
	return l.TakeAt(now, key, limit, 0)
}

// Refund gives cost tokens back to the key's bucket, at most until it is
// full. For a cost of 0 or less and for a key that is not known, whose bucket
// is full, it does nothing.
func (l *Limiter) Refund(key string, cost int64) { l.RefundAt(l.clock(), key, cost) }

// RefundAt is Refund at the time now.
func (l *Limiter) RefundAt(now time.Duration, key string, cost int64) {
	k, s := l.locate(key)
	if e := s.slab.Load().find(k); e != nil && l.rates.at(e.rate.Load()).refundWord(&e.tat, now, cost) {
		return
	}
	// Without the lock, a known key is not found while its entry is replaced.
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.slab.Load().find(k); e != nil {
		l.rates.at(e.rate.Load()).refundWord(&e.tat, now, cost)
	}
}

// Charge takes cost tokens whether the key's bucket holds them or not, for
// work whose cost is known only when it is done. What the bucket does not hold
// is a debt, of one burst at most, that has to refill before anything is
// allowed again. A cost of 0 or less does nothing. The limit is for a key that
// is not known; of such a one, no more than a burst is taken.
func (l *Limiter) Charge(key string, limit Limit, cost int64) {
	l.ChargeAt(l.clock(), key, limit, cost)
}

// ChargeAt is Charge at the time now.
func (l *Limiter) ChargeAt(now time.Duration, key string, limit Limit, cost int64) {
	if cost <= 0 {
		return
	}
	k, s := l.locate(key)
	if e := s.slab.Load().find(k); e != nil && l.rates.at(e.rate.Load()).chargeWord(&e.tat, now, cost) {
		return
	}
	r, err := l.rates.find(limit)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.slab.Load().find(k); e != nil {
		l.rates.at(e.rate.Load()).chargeWord(&e.tat, now, cost)
		return
	}
	l.create(s, k, r, now, min(cost, limit.Burst), true)
}

// Len is the number of keys that are kept now.
func (l *Limiter) Len() int { return l.Stats().Keys }

// Stats counts what the table did since it was made.
type Stats struct {
	Keys     int    // kept now
	Evicted  uint64 // full buckets dropped
	Overflow uint64 // decisions by a shared overflow bucket
}

// Stats adds up the shards, one after the other.
func (l *Limiter) Stats() Stats {
	var sum Stats
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		sum.Keys += s.live
		sum.Evicted += s.dropped
		sum.Overflow += s.spilled
		s.mu.Unlock()
	}
	return sum
}

func (l *Limiter) locate(key string) (id, *shard) {
	k := l.hash(key)
	s := &l.shards[k.lo&l.mask]
	if k.lo == 0 { // marks an unused place
		k.lo = ^l.mask
	}
	return k, s
}

// how a claim is decided.
type how uint8

const (
	take  how = 1 << iota // not only looked at
	exact                 // now is used as it is; any other may be read again after a lock
	keep                  // a known key keeps its limit
)

// request decides one claim.
func (l *Limiter) request(now time.Duration, c Claim, mode how) Decision {
	k, s := l.locate(c.Key)
	if e := s.slab.Load().find(k); e != nil {
		if r := l.rates.at(e.rate.Load()); r.limit == c.Limit || mode&keep != 0 {
			if d, ok := r.takeWord(&e.tat, now, c.Cost, mode&take != 0); ok {
				return d
			}
		}
	}
	r, err := l.rates.find(c.Limit)
	if err != nil {
		return refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if mode&exact == 0 {
		// Others may have dropped buckets that were full a moment after now.
		now = max(now, l.clock())
	}
	e := s.slab.Load().find(k)
	if e == nil {
		return l.create(s, k, r, now, c.Cost, mode&take != 0)
	}
	if known := l.rates.at(e.rate.Load()); known.limit == c.Limit || mode&keep != 0 {
		d, _ := known.takeWord(&e.tat, now, c.Cost, mode&take != 0)
		return d
	}
	return l.change(s, k, e, r, now, c.Cost, mode&take != 0)
}

// create decides for a key that is not known and makes it known if the
// decision takes something. The caller holds the shard's lock.
func (l *Limiter) create(s *shard, k id, r *rate, now time.Duration, cost int64, write bool) Decision {
	var w atomic.Int64
	w.Store(s.debt(r))
	d, _ := r.takeWord(&w, now, cost, true)
	if !write || cost <= 0 || cost > r.limit.Burst {
		return d
	}
	if !d.Allowed && s.overflow[r.limit] == nil {
		return d
	}
	if !s.room(l.rates, now) {
		return s.spill(r, now, cost)
	}
	if !d.Allowed {
		return d
	}
	s.slab.Load().put(k, w.Load(), l.rates.acquire(r))
	s.used++
	s.live++
	return d
}

// change decides for a key that is known with another limit. Its entry is
// replaced even if the decision is a refusal: from now on the bucket refills at
// the new rate. The caller holds the shard's lock.
func (l *Limiter) change(s *shard, k id, e *entry, r *rate, now time.Duration, cost int64, write bool) Decision {
	old := l.rates.at(e.rate.Load())
	var w atomic.Int64
	if !write || cost <= 0 || cost > r.limit.Burst {
		w.Store(old.convert(e.tat.Load(), r, now))
		d, _ := r.takeWord(&w, now, cost, true)
		return d
	}
	// From here on no other goroutine can take from the old entry.
	w.Store(old.convert(e.tat.Swap(retired), r, now))
	d, _ := r.takeWord(&w, now, cost, true)
	l.rates.release(e.rate.Load())
	s.live--
	s.place(l.rates, now)
	s.slab.Load().put(k, w.Load(), l.rates.acquire(r))
	s.used++
	s.live++
	return d
}
