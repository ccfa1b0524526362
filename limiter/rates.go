package limiter

import (
	"sync"
	"sync/atomic"
)

// rates interns compiled limits, so that a table entry names its limit in
// four bytes and without a pointer. A limit that no entry names is forgotten
// and its place used again.
//
// Reading is safe without a lock: an entry is retired before its limit is
// released, so whoever reads a reused place reads a retired word after it.
type rates struct {
	list atomic.Pointer[[]atomic.Pointer[rate]]

	mu      sync.Mutex
	byLimit map[Limit]*rate
	free    []uint32
}

func newRates() *rates {
	rs := &rates{byLimit: make(map[Limit]*rate)}
	rs.list.Store(new([]atomic.Pointer[rate]))
	return rs
}

func (rs *rates) at(index uint32) *rate { return (*rs.list.Load())[index].Load() }

// find returns the compiled limit without naming it.
func (rs *rates) find(l Limit) (*rate, error) {
	rs.mu.Lock()
	r := rs.byLimit[l]
	rs.mu.Unlock()
	if r != nil {
		return r, nil
	}
	return compile(l)
}

// acquire counts one more entry that names r's limit and returns where.
func (rs *rates) acquire(r *rate) uint32 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if known := rs.byLimit[r.limit]; known != nil {
		known.refs++
		return known.index
	}
	if len(rs.free) == 0 {
		rs.grow()
	}
	last := len(rs.free) - 1
	r.index, rs.free = rs.free[last], rs.free[:last]
	r.refs = 1
	rs.byLimit[r.limit] = r
	(*rs.list.Load())[r.index].Store(r)
	return r.index
}

func (rs *rates) release(index uint32) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.at(index)
	if r.refs--; r.refs == 0 {
		delete(rs.byLimit, r.limit)
		rs.free = append(rs.free, index)
	}
}

func (rs *rates) grow() {
	old := *rs.list.Load()
	list := make([]atomic.Pointer[rate], max(8, 2*len(old)))
	for i := range old {
		list[i].Store(old[i].Load())
	}
	for i := len(list) - 1; i >= len(old); i-- {
		rs.free = append(rs.free, uint32(i))
	}
	rs.list.Store(&list)
}
