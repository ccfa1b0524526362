package limiter

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/rand"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

var perSecond = Limit{Tokens: 1, Period: sec, Burst: 100}

func TestKeysAreIndependent(t *testing.T) {
	l := New()
	limit := Limit{Tokens: 1, Period: sec, Burst: 2}
	for range 5 {
		l.TakeAt(0, "a", limit, 1)
	}
	if d := l.TakeAt(0, "b", limit, 2); !d.Allowed {
		t.Errorf("b pays for a: %+v", d)
	}
	if l.Len() != 2 {
		t.Errorf("Len = %d", l.Len())
	}
}

func TestConcurrentCreationGivesOneBucket(t *testing.T) { // invariant 4
	l := New(WithMaxKeys(64))
	for i := range 200 {
		key := strconv.Itoa(i)
		now := time.Duration(i) * time.Hour
		limit := Limit{Tokens: 1, Period: sec, Burst: 50}
		if n := contend(16, 10, func() int64 { return one(l.TakeAt(now, key, limit, 1).Allowed) }); n != 50 {
			t.Fatalf("key %d: admitted %d, want 50", i, n)
		}
	}
}

// The real clock runs on while keys are created, dropped for others and
// created again: a new key still has its whole burst.
func TestNewKeyHasItsBurstWhileOthersAreDropped(t *testing.T) {
	l := New(WithMaxKeys(1))
	limit := Limit{Tokens: 1e9, Period: sec, Burst: 3}
	var next atomic.Int64
	refused := contend(4, 2000, func() int64 {
		return one(!l.Take(strconv.FormatInt(next.Add(1), 10), limit, 3).Allowed)
	})
	if over := l.Stats().Overflow; refused > int64(over) {
		t.Errorf("%d new keys were refused, %d of them for want of room", refused, over)
	}
}

func TestTableAtItsCapKeepsDepletedKeys(t *testing.T) { // L6
	l := New(WithMaxKeys(2))
	l.TakeAt(0, "drained", perSecond, 100)
	l.TakeAt(0, "other", perSecond, 50)
	now := 3500 * time.Millisecond
	for i := range 50 {
		l.TakeAt(now, fmt.Sprint("new", i), perSecond, 1)
	}
	admitted := 0
	for range 100 {
		if l.TakeAt(now, "drained", perSecond, 1).Allowed {
			admitted++
		}
	}
	if admitted != 3 {
		t.Errorf("admitted %d, want 3", admitted)
	}
}

func TestOverflowIsSharedAndCounted(t *testing.T) { // invariant 8
	l := New(WithMaxKeys(1))
	limit := Limit{Tokens: 1, Period: sec, Burst: 4}
	l.TakeAt(0, "resident", limit, 1)
	for i := range 6 {
		if d := l.TakeAt(0, strconv.Itoa(i), limit, 1); d.Allowed != (i < 4) {
			t.Errorf("newcomer %d: %+v", i, d)
		}
	}
	if s := l.Stats(); s.Overflow != 6 || s.Keys != 1 || s.Evicted != 0 {
		t.Errorf("%+v", s)
	}
	if d := l.TakeAt(4*sec, "later", limit, 1); !d.Allowed || l.Stats().Evicted != 1 || l.Len() != 1 {
		t.Errorf("the full bucket did not make room: %+v %+v", d, l.Stats())
	}
}

func TestOverflowKeepsLimitsApart(t *testing.T) {
	l := New(WithMaxKeys(1))
	slow, fast := Limit{1, sec, 1}, Limit{1000, sec, 1000}
	l.TakeAt(0, "resident", Limit{1, year, 10}, 10)
	admitted := map[string]int64{}
	for now := time.Duration(0); now < 10*sec; now += 10 * time.Millisecond {
		admitted["slow"] += one(l.TakeAt(now, "slow", slow, 1).Allowed)
		admitted["fast"] += one(l.TakeAt(now, "fast", fast, 1).Allowed)
	}
	if admitted["slow"] != 10 || admitted["fast"] != 1000 {
		t.Errorf("%v", admitted)
	}
	for i := range int64(2 * maxShared) {
		if d := l.TakeAt(0, "k", Limit{1, year, 2 + i}, 1); d.RetryAfter < 0 || !d.Allowed && d.RetryAfter == 0 {
			t.Fatalf("%+v", d)
		}
	}
	if n := len(l.shards[0].overflow); n > maxShared {
		t.Errorf("%d shared buckets", n)
	}
}

func TestKeyThatGetsAPlaceHasNoSecondBurst(t *testing.T) {
	l := New(WithMaxKeys(1))
	limit := Limit{1, time.Minute, 100}
	l.TakeAt(0, "resident", Limit{1, sec, 1}, 1)
	admitted := int64(0)
	for now := time.Duration(0); now < 3*sec; now += 10 * time.Millisecond { // the resident is full at 1 s
		admitted += one(l.TakeAt(now, "k", limit, 1).Allowed)
	}
	if admitted != 100 {
		t.Errorf("admitted %d, want 100", admitted)
	}
}

func TestTakeKnownKeepsTheLimit(t *testing.T) {
	l := New()
	low, high := Limit{1, sec, 1}, Limit{100, sec, 100}
	if d := l.TakeKnownAt(0, "k", high, 10); !d.Allowed || d.Remaining != 90 {
		t.Errorf("an unknown key: %+v", d)
	}
	if d := l.TakeKnownAt(0, "k", low, 50); !d.Allowed || d.Remaining != 40 {
		t.Errorf("a known key: %+v", d)
	}
	if d := l.TakeKnown("new", Limit{}, 1); d.Allowed {
		t.Errorf("an invalid limit: %+v", d)
	}
}

func TestManyRandomKeysStayBelowTheCap(t *testing.T) { // L7
	n, limit := 10_000_000, 100_000
	if testing.Short() || raceEnabled {
		n, limit = n/500, limit/50
	}
	l := New(WithMaxKeys(limit))
	drained := Limit{Tokens: 1, Period: time.Hour, Burst: 5}
	l.TakeAt(0, "drained", drained, 5)
	r := rand.New(rand.NewSource(7))
	brief := Limit{Tokens: 1000, Period: sec, Burst: 10}
	for i := range n {
		l.TakeAt(time.Duration(i)*time.Microsecond, strconv.FormatUint(r.Uint64(), 36), brief, 1)
		if i%(n/100) == 0 && l.Len() > limit {
			t.Fatalf("%d keys", l.Len())
		}
	}
	if d := l.TakeAt(10*sec, "drained", drained, 1); d.Allowed {
		t.Error("the depleted key was refilled")
	}
	if l.Len() > limit {
		t.Errorf("%d keys", l.Len())
	}
}

func TestDroppingKeysAddsNoTokensWhenTheClockGoesBack(t *testing.T) { // invariants 3 and 8
	l := New(WithMaxKeys(1))
	l.TakeAt(0, "a", perSecond, 100)
	l.TakeAt(time.Hour, "b", perSecond, 1) // a is full by then, and dropped
	l.TakeAt(2*time.Hour, "c", perSecond, 1)
	if d := l.TakeAt(0, "a", perSecond, 1); d.Allowed {
		t.Errorf("a was drained at this time: %+v", d)
	}
	if d := l.TakeAt(2*time.Hour, "a", perSecond, 100); !d.Allowed {
		t.Errorf("locked out after the clock came back: %+v", d)
	}
}

func TestCollidingHashes(t *testing.T) { // L11, invariant 10
	seed := maphash.MakeSeed()
	for name, h := range map[string]hasher{
		"low":  func(key string) id { return id{maphash.String(seed, key), 42} },
		"high": func(key string) id { return id{42, maphash.String(seed, key)} },
		"zero": func(key string) id { return id{maphash.String(seed, key), 0} },
	} {
		l := New(WithShards(4), withHash(h))
		limit := Limit{Tokens: 1, Period: sec, Burst: 3}
		for i := range 100 {
			for j := range 4 {
				if d := l.TakeAt(0, strconv.Itoa(i), limit, 1); d.Allowed != (j < 3) {
					t.Fatalf("%s: key %d request %d: %+v", name, i, j, d)
				}
			}
		}
		if l.Len() != 100 {
			t.Errorf("%s: Len = %d", name, l.Len())
		}
	}
}

func TestChangeOfLimitKeepsTokens(t *testing.T) { // L12, invariant 5
	l := New()
	limits := []Limit{
		{10, sec, 100},
		{10, sec, 5},
		{1000, sec, 1000},
		{1, time.Hour, 10},
		{3, time.Minute, math.MaxInt32},
		{1, year, math.MaxInt32},
	}
	for _, from := range limits {
		for _, to := range limits {
			if from == to {
				continue
			}
			key := fmt.Sprint(from, to)
			l.TakeAt(0, key, from, max(1, from.Burst-8))
			held := l.PeekAt(0, key, from).Remaining
			want := min(held, to.Burst)
			if d := l.PeekAt(0, key, to); d.Remaining != want {
				t.Errorf("%v to %v: peek says %d, want %d", from, to, d.Remaining, want)
			}
			if d := l.TakeAt(0, key, to, 1); !d.Allowed || d.Remaining != want-1 {
				t.Errorf("%v to %v with %d tokens: %+v", from, to, held, d)
			}
		}
	}
}

func TestRaiseDoesNotRefill(t *testing.T) {
	l := New()
	low, high := Limit{1, sec, 5}, Limit{100, sec, 500}
	l.TakeAt(0, "k", low, 5)
	play(t, func(now time.Duration, cost int64) Decision { return l.TakeAt(now, "k", high, cost) }, []step{
		{0, 1, false, 0, 10 * time.Millisecond},
		{10*time.Millisecond - 1, 1, false, 0, 1},
		{10 * time.Millisecond, 1, true, 0, 0},
		{sec, 99, true, 0, 0},
	})
}

// Two limits in turn for one key, from many goroutines, with a frozen clock:
// however often the entry is replaced, no token appears.
func TestFlippingLimitsAddsNoTokens(t *testing.T) {
	l := New(WithShards(1))
	a, b := Limit{1, sec, 1000}, Limit{1, time.Minute, 2000}
	l.TakeAt(0, "k", a, 1)
	var turn atomic.Int64
	n := contend(8, 500, func() int64 {
		limit := a
		if turn.Add(1)%2 == 0 {
			limit = b
		}
		return one(l.TakeAt(0, "k", limit, 1).Allowed)
	})
	if n != 999 {
		t.Errorf("admitted %d, want 999", n)
	}
	if rs := l.rates; len(rs.byLimit) != 1 {
		t.Errorf("%d limits are kept for one key", len(rs.byLimit))
	}
}

func TestForgottenLimitsAreReused(t *testing.T) {
	l := New(WithMaxKeys(100))
	for i := range 10_000 {
		limit := Limit{Tokens: int64(i + 1), Period: time.Minute, Burst: 10}
		l.TakeAt(time.Duration(i)*time.Hour, strconv.Itoa(i), limit, 1)
	}
	if n := len(*l.rates.list.Load()); n > 128 {
		t.Errorf("%d places for the limits of 100 keys", n)
	}
}

func TestInvalidLimitIsRefused(t *testing.T) {
	l := New()
	l.TakeAt(0, "known", perSecond, 1)
	for _, limit := range []Limit{{}, {-1, sec, 1}, {2e9, sec, 1}, {1, sec, math.MinInt64}} {
		for _, key := range []string{"known", "unknown"} {
			for _, cost := range []int64{0, 1, -1} {
				if d := l.TakeAt(0, key, limit, cost); d.Allowed || d.RetryAfter >= 0 {
					t.Errorf("%v %s: %+v", limit, key, d)
				}
			}
		}
	}
	if d := l.PeekAt(0, "known", perSecond); d.Remaining != 99 || l.Len() != 1 {
		t.Errorf("the known key was touched: %+v", d)
	}
}

func TestLookingCreatesNothing(t *testing.T) {
	l := New()
	l.PeekAt(0, "a", perSecond)
	l.TakeAt(0, "b", perSecond, 0)
	l.TakeAt(0, "c", perSecond, 101)
	l.RefundAt(0, "d", 5)
	if l.Len() != 0 {
		t.Errorf("Len = %d", l.Len())
	}
	if d := l.PeekAt(0, "a", perSecond); !d.Allowed || d.Remaining != 100 || d.ResetAfter != 0 {
		t.Errorf("%+v", d)
	}
}

func TestRefund(t *testing.T) {
	l := New()
	l.TakeAt(0, "k", perSecond, 10)
	l.RefundAt(0, "k", 3)
	if d := l.PeekAt(0, "k", perSecond); d.Remaining != 93 {
		t.Errorf("%+v", d)
	}
	l.RefundAt(0, "k", math.MaxInt64)
	if d := l.PeekAt(0, "k", perSecond); d.Remaining != 100 {
		t.Errorf("%+v", d)
	}
}

// Keys come, go and fill the table while others are charged; every key's own
// tokens are exact.
func TestChargeMayLeaveADebtOfOneBurst(t *testing.T) {
	l := New()
	left := func(now time.Duration, remaining int64, retry time.Duration) {
		t.Helper()
		d := l.PeekAt(now, "k", tenASecond)
		if one := l.TakeAt(now, "k", tenASecond, 1); d.Remaining != remaining || one.RetryAfter != retry {
			t.Errorf("at %v: %+v, then %+v; want %d left and a wait of %v", now, d, one, remaining, retry)
		}
	}
	l.ChargeAt(0, "k", tenASecond, 0)
	l.ChargeAt(0, "k", Limit{}, 1)
	if l.Len() != 0 {
		t.Error("nothing was charged, and the key is known")
	}
	l.ChargeAt(0, "k", tenASecond, 99) // a new key pays a burst at most
	left(0, 0, 100*time.Millisecond)
	l.ChargeAt(0, "k", tenASecond, 3)
	left(0, 0, 400*time.Millisecond)
	l.ChargeAt(0, "k", tenASecond, math.MaxInt64)
	left(0, 0, 1100*time.Millisecond)
	left(1100*time.Millisecond, 1, 0)
	l.ChargeAt(1100*time.Millisecond, "k", tenASecond, 5)
	l.RefundAt(1100*time.Millisecond, "k", 5)
	left(1100*time.Millisecond, 0, 100*time.Millisecond)
	fast := Limit{Tokens: 1, Period: year, Burst: math.MaxInt32} // near the end of the word
	l.ChargeAt(90*year, "slow", fast, math.MaxInt32)
	l.ChargeAt(90*year, "slow", fast, math.MaxInt64)
	if d := l.TakeAt(90*year, "slow", fast, 1); d.Allowed || d.RetryAfter <= 0 {
		t.Errorf("%+v", d)
	}
}

func TestTableGrowsUnderLoad(t *testing.T) {
	l := New(WithShards(1))
	limit := Limit{Tokens: 1, Period: time.Hour, Burst: 8}
	var next atomic.Int64
	admitted := contend(4, 20_000, func() int64 {
		return one(l.TakeAt(0, strconv.FormatInt(next.Add(1)%4000, 10), limit, 1).Allowed)
	})
	if admitted != 4000*8 || l.Len() != 4000 {
		t.Errorf("admitted %d of %d keys", admitted, l.Len())
	}
}

func TestIdleKeysAreForgotten(t *testing.T) {
	l := New(WithShards(1), WithMaxKeys(1<<20))
	for day := range time.Duration(20) {
		for i := range 1000 {
			l.TakeAt(day*24*time.Hour, fmt.Sprint(day, "/", i), perSecond, 1)
		}
	}
	if n := l.Len(); n > 3000 {
		t.Errorf("%d keys are kept, 1000 are in use", n)
	}
}

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(entry{}); n != 32 {
		t.Errorf("an entry has %d bytes", n)
	}
	if n := unsafe.Sizeof(shard{}); n%64 != 0 {
		t.Errorf("a shard has %d bytes: neighbours share a cache line", n)
	}
}

func TestMemoryPerKey(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory counts too")
	}
	n := 1_000_000
	if testing.Short() {
		n /= 10
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	l := New(WithMaxKeys(2 * n))
	for i := range n {
		l.TakeAt(0, strconv.Itoa(i), perSecond, 1)
	}
	perKey := float64(heap()-before) / float64(n)
	t.Logf("%.1f bytes a key", perKey)
	if perKey > 64 || l.Len() != n {
		t.Errorf("%.1f bytes for each of %d keys", perKey, l.Len())
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		opts   []Option
		shards int
	}{
		{nil, DefaultShards},
		{[]Option{WithShards(0), WithMaxKeys(-1), WithClock(nil)}, DefaultShards},
		{[]Option{WithShards(5)}, 8},
		{[]Option{WithShards(1)}, 1},
		{[]Option{WithShards(math.MaxInt)}, 1024}, // as many as a million keys need
		{[]Option{WithMaxKeys(10)}, 1},
		{[]Option{WithShards(2), WithMaxKeys(2 * 1024)}, 2},
		{[]Option{WithShards(2), WithMaxKeys(2*1024 - 1)}, 1},
		{[]Option{WithShards(math.MaxInt), WithMaxKeys(1 << 27)}, 65536},
	} {
		l := New(c.opts...)
		if len(l.shards) != c.shards {
			t.Errorf("%d shards, want %d", len(l.shards), c.shards)
		}
		if d := l.Take("k", perSecond, 1); !d.Allowed {
			t.Errorf("%+v", d)
		}
	}
	l := New(WithClock(func() time.Duration { return 7 * sec }))
	l.Take("k", perSecond, 100)
	if d := l.TakeAt(8*sec, "k", perSecond, 1); !d.Allowed {
		t.Errorf("the given clock is not used: %+v", d)
	}
}
