package limiter

import (
	"strconv"
	"testing"
	"time"
)

// fillAt takes a token of each of n new keys.
func fillAt(l *Limiter, now time.Duration, n int) {
	first := l.Len()
	for i := range n {
		l.TakeAt(now, strconv.Itoa(first+i), perSecond, 1)
	}
}

func TestOneNewKeyDropsFewOthers(t *testing.T) {
	l := New(WithMaxKeys(1000))
	fillAt(l, 0, 1000)
	l.TakeAt(5*sec, "new", perSecond, 1) // all others are full
	if s := l.Stats(); s.Evicted == 0 || s.Evicted > evictWindow {
		t.Errorf("%d were dropped for one", s.Evicted)
	}
}

// A new slab leaves out keys that were full for a minute, and no others.
func TestFullKeysLingerForAMinute(t *testing.T) {
	for now, kept := range map[time.Duration]int{
		sec + time.Minute - 1: 4, // full after a second
		sec + time.Minute:     0,
	} {
		l := New(WithShards(1))
		fillAt(l, 0, 4)
		l.TakeAt(now, "a", perSecond, 1)
		l.TakeAt(now, "b", perSecond, 1)
		if l.Len() != 4+2 {
			t.Fatalf("dropped before the slab was full: %d keys", l.Len())
		}
		l.TakeAt(now, "c", perSecond, 1)
		if n := l.Len() - 3; n != kept {
			t.Errorf("at %v %d of 4 keys are kept, want %d", now, n, kept)
		}
	}
}

// Where room is wanted, a new slab leaves out all full keys and is as large as
// it may be; the one after it is as any other.
func TestCrowdedTable(t *testing.T) {
	const most = 1000
	l := New(WithMaxKeys(most))
	fillAt(l, 0, most)
	slab := &l.shards[0].slab
	before, recent := slab.Load(), 0
	for ; slab.Load() == before; recent++ {
		l.TakeAt(5*sec, "new"+strconv.Itoa(recent), perSecond, 1) // all of the first are full
	}
	if n, places := l.Len(), len(slab.Load().entries); n != recent || places != 2*most {
		t.Errorf("%d keys in %d places, want the %d new ones in %d", n, places, recent, 2*most)
	}
	before = slab.Load()
	for i := int64(0); slab.Load() == before; i++ { // each change of limit uses a place
		l.TakeAt(7*sec, "new0", Limit{1, sec, 100 + i%2}, 1)
	}
	if n, places := l.Len(), len(slab.Load().entries); n != recent || places > 2*recent {
		t.Errorf("%d keys in %d places, want the %d new ones in twice as many", n, places, recent)
	}
}

// Many limits in use at once have a place each, and no place is lost.
func TestManyLimits(t *testing.T) {
	const n = 64
	l := New()
	limit := func(i int) Limit { return Limit{Tokens: 1, Period: sec, Burst: int64(i + 10)} }
	for i := range n {
		l.TakeAt(0, strconv.Itoa(i), limit(i), 1)
	}
	for i := range n {
		if d := l.TakeKnownAt(0, strconv.Itoa(i), perSecond, 1); d.Remaining != int64(i+10-2) {
			t.Errorf("limit %d: %+v", i, d)
		}
	}
	if got := len(*l.rates.list.Load()); got != n {
		t.Errorf("%d places for %d limits", got, n)
	}
}
