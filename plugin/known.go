package plugin

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A grant is what was learned of a credential that the gateway accepted. Only
// when it was looked at and whether requests still get through change.
type grant struct {
	who      id        // the session's identity
	from     *settings // of the API, when it was learned
	inputs   id        // of what the plan was made from
	watched  []string  // fields of the metadata that it was made from, besides
	plan     *plan
	label    string // for the log; only of a plan that has a shadow
	lookedAt atomic.Int64
	unsure   atomic.Int64 // since when passes are not confirmed by an authentication; sure if they are
}

const sure = math.MinInt64

// passed notes that a request was let on to authentication.
func (g *grant) passed(now time.Duration) { g.unsure.CompareAndSwap(sure, int64(now)) }

// confirmed notes that one got through it.
func (g *grant) confirmed() {
	if g.unsure.Load() != sure { // not to write for each request of many at once
		g.unsure.Store(sure)
	}
}

// dead reports that for a refresh no request has got through: the credential is
// revoked, and must not drain a bucket that others share.
func (g *grant) dead(now time.Duration) bool {
	since := g.unsure.Load()
	return since != sure && now-time.Duration(since) >= g.from.refresh
}

// due reports, to one request in every refresh, that the session should be
// looked at again.
func (g *grant) due(now time.Duration) bool {
	last := g.lookedAt.Load()
	return now-time.Duration(last) >= g.from.refresh && g.lookedAt.CompareAndSwap(last, int64(now))
}

// known holds a grant for each known credential of each API, by its id; never
// the credential itself. Forgetting one costs its next request no more than
// being authenticated before it is limited.
type known struct {
	shards [256]struct {
		sync.RWMutex
		grants map[id]*grant
		_      [32]byte
	}
	max int // of each shard
}

func newKnown(most int) *known {
	k := &known{}
	k.max = max(1, most/len(k.shards))
	for i := range k.shards {
		k.shards[i].grants = make(map[id]*grant)
	}
	return k
}

func (k *known) find(c id) *grant {
	s := &k.shards[c.lo%uint64(len(k.shards))]
	s.RLock()
	g := s.grants[c]
	s.RUnlock()
	return g
}

func (k *known) put(c id, g *grant) {
	s := &k.shards[c.lo%uint64(len(k.shards))]
	s.Lock()
	defer s.Unlock()
	if _, replaces := s.grants[c]; !replaces && len(s.grants) >= k.max {
		for any := range s.grants {
			delete(s.grants, any)
			break
		}
	}
	s.grants[c] = g
}

func (k *known) forget(c id) {
	s := &k.shards[c.lo%uint64(len(k.shards))]
	s.Lock()
	delete(s.grants, c)
	s.Unlock()
}
