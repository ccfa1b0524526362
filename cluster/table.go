package cluster

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"tokenbucket.internal/cluster/shared"
)

// A table finds entries without a lock. Its shards are open-addressing tables
// of pointers with linear probing; what is dropped leaves a mark until the
// shard is laid anew.
type table struct {
	seed   maphash.Seed
	live   atomic.Int64 // entries
	max    int64        // of them; a few more when several are made at once
	shards [shards]shard
}

const shards = 128 // a power of two

type shard struct {
	slots atomic.Pointer[[]atomic.Pointer[entry]]

	mu         sync.Mutex
	used, live int // places that are or were used; entries
	_          [32]byte
}

// dropped is in the place of an entry that is gone.
var dropped = new(entry)

const minSlots = 8

func newTable(maxKeys int) *table {
	t := &table{seed: maphash.MakeSeed(), max: int64(maxKeys)}
	for i := range t.shards {
		slots := make([]atomic.Pointer[entry], minSlots)
		t.shards[i].slots.Store(&slots)
	}
	return t
}

func (t *table) locate(key string) (hash uint64, s *shard) {
	hash = maphash.String(t.seed, key)
	return hash, &t.shards[hash%shards]
}

func (t *table) find(key string) *entry {
	hash, s := t.locate(key)
	return s.find(hash, key)
}

func (s *shard) find(hash uint64, key string) *entry {
	slots := *s.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := hash / shards & mask; ; i = (i + 1) & mask {
		e := slots[i].Load()
		if e == nil || e.hash == hash && e.key == key {
			return e
		}
	}
}

// make finds the key's entry or makes it. It returns nil if the table is full.
func (t *table) make(key string, plan *shared.Plan, seed uint64) *entry {
	hash, s := t.locate(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(hash, key); e != nil {
		return e
	}
	if t.live.Load() >= t.max {
		return nil
	}
	if slots := *s.slots.Load(); 4*(s.used+1) > 3*len(slots) {
		s.rebuild(slots)
	}
	e := newEntry(key, hash, plan, seed)
	put(*s.slots.Load(), e)
	s.used++
	s.live++
	t.live.Add(1)
	return e
}

// drop forgets an entry.
func (t *table) drop(e *entry) {
	s := &t.shards[e.hash%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := *s.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := e.hash / shards & mask; ; i = (i + 1) & mask {
		switch slots[i].Load() {
		case nil:
			return
		case e:
			slots[i].Store(dropped)
			s.live--
			t.live.Add(-1)
			return
		}
	}
}

func (s *shard) rebuild(old []atomic.Pointer[entry]) {
	size := minSlots
	for size < 2*(s.live+1) {
		size *= 2
	}
	slots := make([]atomic.Pointer[entry], size)
	for i := range old {
		if e := old[i].Load(); e != nil && e != dropped {
			put(slots, e)
		}
	}
	s.used = s.live
	s.slots.Store(&slots)
}

func put(slots []atomic.Pointer[entry], e *entry) {
	mask := uint64(len(slots) - 1)
	i := e.hash / shards & mask
	for slots[i].Load() != nil {
		i = (i + 1) & mask
	}
	slots[i].Store(e)
}

// each calls f for all entries, without a lock.
func (t *table) each(f func(*entry)) {
	for i := range t.shards {
		slots := *t.shards[i].slots.Load()
		for j := range slots {
			if e := slots[j].Load(); e != nil && e != dropped {
				f(e)
			}
		}
	}
}
