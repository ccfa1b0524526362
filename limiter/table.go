package limiter

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// An entry is one key's bucket. It holds no pointer, so the garbage collector
// does not look into the table.
//
// Which key and which limit an entry is for never changes once it is
// published. When it has to go - the key's limit changed, the bucket is full
// and its place is wanted, the table is laid anew - its word is swapped for
// retired, for good. Whoever finds a retired word looks further and in the end
// under the shard's lock. So no compare-and-swap can ever succeed on a word
// that meanwhile means something else, and no charge is lost.
type entry struct {
	lo   atomic.Uint64 // 0: never used; stored last
	hi   atomic.Uint64
	tat  atomic.Int64
	rate atomic.Uint32 // index in rates
	_    uint32
}

// A slab is an open-addressing table with linear probing. Places are used
// once; it is replaced by a new one when three quarters of them are.
type slab struct{ entries []entry }

const minSlab = 8

// never is before any time.
const never = time.Duration(math.MinInt64)

func (s *slab) find(k id) *entry {
	n := uint64(len(s.entries))
	home, _ := bits.Mul64(k.hi, n) // any number of places, not only powers of two
	for i := home; ; {
		e := &s.entries[i]
		switch e.lo.Load() {
		case 0:
			return nil
		case k.lo:
			if e.hi.Load() == k.hi && e.tat.Load() != retired {
				return e
			}
		}
		if i++; i == n {
			i = 0
		}
	}
}

func (s *slab) put(k id, tat int64, rate uint32) {
	n := uint64(len(s.entries))
	i, _ := bits.Mul64(k.hi, n)
	for s.entries[i].lo.Load() != 0 {
		if i++; i == n {
			i = 0
		}
	}
	e := &s.entries[i]
	e.hi.Store(k.hi)
	e.tat.Store(tat)
	e.rate.Store(rate)
	e.lo.Store(k.lo)
}

// A shard is a part of the table with a lock of its own for all that is not
// the plain take of a known key.
type shard struct {
	slab atomic.Pointer[slab]

	mu       sync.Mutex
	used     int           // places of the slab that are or were used
	live     int           // entries that are not retired
	max      int           // of live
	hand     int           // where the search for a full bucket goes on
	evicted  time.Duration // the latest time at which a full bucket was dropped
	dropped  uint64        // how many were
	crowded  bool          // room was wanted since the slab was laid out
	overflow overflow
	spilled  uint64   // decisions that it made
	_        [40]byte // shards do not share cache lines
}

// evictWindow is how many entries one new key looks at for a full bucket.
const evictWindow = 64

// room makes a place for one more entry, if it can.
func (s *shard) room(rs *rates, now time.Duration) bool {
	if s.live >= s.max && !s.evict(rs, now) {
		return false
	}
	s.place(rs, now)
	return true
}

// place makes sure that the slab has an unused place.
func (s *shard) place(rs *rates, now time.Duration) {
	if 4*(s.used+1) > 3*len(s.slab.Load().entries) {
		s.rebuild(rs, now)
	}
}

// evict retires the full buckets among the next entries. A full bucket is
// like a new one, so forgetting it gives nothing away.
func (s *shard) evict(rs *rates, now time.Duration) bool {
	s.crowded = true
	entries := s.slab.Load().entries
	found := false
	for range min(evictWindow, len(entries)) {
		if s.hand++; s.hand >= len(entries) {
			s.hand = 0
		}
		e := &entries[s.hand]
		tat := e.tat.Load()
		if e.lo.Load() == 0 || tat == retired || !rs.at(e.rate.Load()).full(tat, now) {
			continue
		}
		if e.tat.CompareAndSwap(tat, retired) {
			s.forget(rs, e, now)
			found = true
		}
	}
	return found
}

func (s *shard) forget(rs *rates, e *entry, now time.Duration) {
	rs.release(e.rate.Load())
	s.live--
	s.dropped++
	s.evicted = max(s.evicted, now)
}

// linger is how long a full bucket is kept when the table is laid anew: a key
// that is in use is often full when it comes, and should still be known.
const linger = time.Minute

// rebuild moves the buckets in use to a new slab, twice as large as they need.
// Where keys crowd, those that are full go at once and the slab is as large as
// it may be: with less to move, and less often, a new key costs a third.
func (s *shard) rebuild(rs *rates, now time.Duration) {
	old := s.slab.Load().entries
	idle := now
	if !s.crowded {
		idle = max(now, never+linger) - linger
	}
	moved := make([]int, 0, s.live)
	for i := range old {
		e := &old[i]
		tat := e.tat.Load()
		if e.lo.Load() == 0 || tat == retired {
			continue
		}
		if rs.at(e.rate.Load()).full(tat, idle) && e.tat.CompareAndSwap(tat, retired) {
			s.forget(rs, e, idle)
			continue
		}
		moved = append(moved, i)
	}
	room := len(moved)
	if s.crowded {
		room = s.max
	}
	next := newSlab(room)
	for _, i := range moved {
		e := &old[i]
		next.put(id{e.hi.Load(), e.lo.Load()}, e.tat.Swap(retired), e.rate.Load())
	}
	s.used, s.hand, s.crowded = len(moved), 0, false
	s.slab.Store(next)
}

func newSlab(live int) *slab {
	return &slab{entries: make([]entry, max(minSlab, 2*live))}
}

// overflow is what keys without a place share: a bucket for each limit, so that
// no key is charged at another's rate. Those that are full are forgotten.
type overflow map[Limit]*shared

type shared struct {
	rate *rate
	tat  atomic.Int64
}

// maxShared bounds an overflow. Beyond it, keys without a place are refused.
const maxShared = 64

// spill charges the bucket that the keys of this limit share.
func (s *shard) spill(r *rate, now time.Duration, cost int64) Decision {
	s.spilled++
	o := s.overflow[r.limit]
	if o == nil {
		for limit, old := range s.overflow {
			if old.rate.full(old.tat.Load(), now) {
				delete(s.overflow, limit)
			}
		}
		if len(s.overflow) >= maxShared {
			return Decision{RetryAfter: r.until(r.units(now)+r.interval, now)}
		}
		if s.overflow == nil {
			s.overflow = make(overflow)
		}
		o = &shared{rate: r}
		o.tat.Store(fresh)
		s.overflow[r.limit] = o
	}
	d, _ := r.takeWord(&o.tat, now, cost, true)
	return d
}

// debt is the state of a new bucket of this limit. The key may have been
// dropped when its bucket was full, so it is full not at any time but as of
// then; and it may have taken from the shared bucket, so it is no fuller than
// that.
func (s *shard) debt(r *rate) int64 {
	tat := int64(fresh)
	if s.evicted > never {
		tat = r.units(s.evicted)
	}
	if o := s.overflow[r.limit]; o != nil {
		tat = max(tat, o.tat.Load())
	}
	return tat
}
