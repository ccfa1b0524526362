package limiter

import (
	"math"
	"math/rand"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// step is one request in a story that a test tells.
type step struct {
	now   time.Duration
	cost  int64
	allow bool
	left  int64
	retry time.Duration
}

func play(t *testing.T, take func(now time.Duration, cost int64) Decision, steps []step) {
	t.Helper()
	for i, s := range steps {
		d := take(s.now, s.cost)
		if d.Allowed != s.allow || d.Remaining != s.left || d.RetryAfter != s.retry {
			t.Fatalf("step %d %+v: got %+v", i, s, d)
		}
	}
}

const sec = time.Second

func TestBucketStory(t *testing.T) {
	b := NewBucket(Limit{Tokens: 1, Period: sec, Burst: 3})
	play(t, b.TakeAt, []step{
		{0, 1, true, 2, 0},
		{0, 2, true, 0, 0},
		{0, 1, false, 0, sec},
		{0, 3, false, 0, 3 * sec},
		{sec / 2, 1, false, 0, sec / 2},
		{sec, 1, true, 0, 0},
		{sec, 0, true, 0, 0},
		{sec, -1, false, 0, -1},
		{sec, 4, false, 0, -1},
		{9 * sec, 0, true, 3, 0},
	})
}

func TestLongIdleDoesNotOverflow(t *testing.T) { // L1
	day := 24 * time.Hour
	b := NewBucket(Limit{Tokens: 1, Period: day, Burst: math.MaxInt32})
	for _, now := range []time.Duration{0, day, year, 100 * year, 100*year + 1, math.MaxInt64} {
		d := b.TakeAt(now, 1)
		if !d.Allowed || d.Remaining < 0 || d.Remaining > math.MaxInt32 {
			t.Errorf("after %v: %+v", now, d)
		}
	}
	if d := b.TakeAt(math.MaxInt64, math.MaxInt32-1); !d.Allowed {
		t.Errorf("the burst is gone: %+v", d)
	}
}

func TestPollingDoesNotLoseFractions(t *testing.T) { // L2
	for _, burst := range []int64{1, 5} {
		b := NewBucket(Limit{Tokens: 1, Period: sec, Burst: burst})
		admitted := int64(0)
		for now := time.Duration(0); now <= 100*sec; now += time.Millisecond {
			if b.AllowAt(now) {
				admitted++
			}
		}
		if admitted != burst+100 {
			t.Errorf("burst %d: admitted %d, want %d", burst, admitted, burst+100)
		}
	}
}

func TestIdleGivesNoMoreThanBurst(t *testing.T) { // L3
	b := NewBucket(Limit{Tokens: 1000, Period: sec, Burst: 7})
	b.TakeAt(0, 7)
	if d := b.TakeAt(time.Hour, 0); d.Remaining != 7 || d.ResetAfter != 0 {
		t.Fatalf("after an hour: %+v", d)
	}
	for i := range 8 {
		if got := b.AllowAt(time.Hour); got != (i < 7) {
			t.Errorf("request %d: %v", i, got)
		}
	}
}

// contend calls f from many goroutines at once and adds up what it returns.
func contend(goroutines, times int, f func() int64) int64 {
	var sum atomic.Int64
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-begin
			for range times {
				sum.Add(f())
			}
		}()
	}
	close(begin)
	wg.Wait()
	return sum.Load()
}

func one(allowed bool) int64 {
	if allowed {
		return 1
	}
	return 0
}

func TestFrozenClockAdmitsExactlyBurst(t *testing.T) { // L4
	for _, l := range []Limit{
		{100, sec, 1000},
		{1, year, math.MaxInt32}, // coarse units
		{999_999_937, sec, 1000},
	} {
		b := NewBucket(l)
		now := 1234567891 * time.Nanosecond
		b.TakeAt(now, max(0, l.Burst-1000))
		if n := contend(64, 100, func() int64 { return one(b.AllowAt(now)) }); n != 1000 {
			t.Errorf("%v: admitted %d, want 1000", l, n)
		}
	}
}

func TestClockSetBack(t *testing.T) { // L5
	b := NewBucket(Limit{Tokens: 1, Period: sec, Burst: 2})
	play(t, b.TakeAt, []step{
		{time.Hour, 2, true, 0, 0},
		{0, 1, false, 0, time.Hour + sec},
		{-time.Hour, 1, false, 0, 2*time.Hour + sec},
		{time.Hour, 1, false, 0, sec},
		{time.Hour + sec, 1, true, 0, 0},
		{time.Hour + 3*sec, 0, true, 2, 0},
	})
}

func TestRetryAfterIsExact(t *testing.T) { // L8, invariant 7
	r := rand.New(rand.NewSource(8))
	for range 5000 {
		l := randomLimit(r)
		b := NewBucket(l)
		now := randomTime(r, l)
		b.TakeAt(now, l.Burst)
		cost := 1 + r.Int63n(l.Burst)
		d := b.TakeAt(now, cost)
		if d.Allowed || d.RetryAfter <= 0 {
			t.Fatalf("%v at %v: %+v after the burst", l, now, d)
		}
		if c, _ := compile(l); d.RetryAfter >= c.horizon-now { // the clock stops before
			continue
		}
		if early := b.TakeAt(now+d.RetryAfter-1, cost); early.Allowed {
			t.Fatalf("%v at %v: allowed before %v", l, now, d.RetryAfter)
		}
		if late := b.TakeAt(now+d.RetryAfter, cost); !late.Allowed {
			t.Fatalf("%v at %v: refused after %v: %+v", l, now, d.RetryAfter, late)
		}
	}
}

func TestCostAboveBurstIsNever(t *testing.T) { // L8
	b := NewBucket(Limit{Tokens: 10, Period: sec, Burst: 5})
	for _, cost := range []int64{6, math.MaxInt64, -1, math.MinInt64} {
		if d := b.TakeAt(0, cost); d.Allowed || d.RetryAfter >= 0 || d.Remaining != 5 {
			t.Errorf("cost %d: %+v", cost, d)
		}
	}
}

func TestBurstOneAdmitsOnePerPeriod(t *testing.T) { // L10
	b := NewBucket(Limit{Tokens: 1, Period: sec, Burst: 1})
	for i := range time.Duration(50) {
		if !b.AllowAt(i*sec) || b.AllowAt(i*sec) || b.AllowAt((i+1)*sec-1) {
			t.Fatalf("not exactly one in second %d", i)
		}
	}
}

func TestExtremeRates(t *testing.T) { // L13
	yearly := NewBucket(Limit{Tokens: 1, Period: year, Burst: 1})
	for i := range time.Duration(100) {
		if !yearly.AllowAt(i*year) || yearly.AllowAt((i+1)*year-1) {
			t.Fatalf("1 a year is not exact in year %d", i)
		}
	}
	fast := NewBucket(Limit{Tokens: 1e9, Period: sec, Burst: 10})
	fast.TakeAt(0, 10)
	for now := range time.Duration(1000) {
		if d := fast.TakeAt(now, 0); d.Remaining > int64(now) {
			t.Fatalf("1e9/s gave %d tokens in %v", d.Remaining, now)
		}
	}
	if err := (Limit{Tokens: 2e9, Period: sec, Burst: 1}).Validate(); err == nil {
		t.Error("2e9/s is valid")
	}
}

func TestSaturatedBucketLosesAlmostNothing(t *testing.T) { // invariant 2
	const n = 1_000_000
	for _, c := range []struct {
		rate int64
		loss float64
	}{{7, 1e-5}, {7919, 1e-5}, {99_991, 1e-5}, {1_000_003, 1e-3}, {9_999_991, 1e-3}} {
		b := NewBucket(Limit{Tokens: c.rate, Period: sec, Burst: 10})
		b.TakeAt(0, 10)
		now := time.Duration(0)
		for range n {
			now += b.TakeAt(now, 1).RetryAfter
			if !b.AllowAt(now) {
				t.Fatalf("%d/s: refused at its own time", c.rate)
			}
		}
		due := float64(now) * float64(c.rate) / 1e9
		if lost := due - n; lost > 1+c.loss*due || lost < 0 {
			t.Errorf("%d/s: lost %.1f of %.1f", c.rate, lost, due)
		}
	}
}

func TestRefusalWritesNothing(t *testing.T) { // invariant 6
	b := NewBucket(Limit{Tokens: 1, Period: time.Hour, Burst: 3})
	b.TakeAt(0, 2)
	before := b.tat.Load()
	for _, cost := range []int64{2, 3, 4, 0, -1} {
		b.TakeAt(1, cost)
	}
	if b.tat.Load() != before {
		t.Error("a refusal moved the bucket")
	}
}

func TestRefundNeverExceedsBurst(t *testing.T) { // invariant 6
	b := NewBucket(Limit{Tokens: 1, Period: sec, Burst: 3})
	b.TakeAt(0, 3)
	b.RefundAt(0, 1)
	b.RefundAt(0, -5)
	b.RefundAt(0, 0)
	play(t, b.TakeAt, []step{{0, 0, true, 1, 0}})
	b.RefundAt(0, math.MaxInt64)
	b.RefundAt(-time.Hour, 7)
	play(t, b.TakeAt, []step{{0, 3, true, 0, 0}, {0, 1, false, 0, sec}})
}

func TestInvalidBucketRefusesEverything(t *testing.T) {
	for _, b := range []*Bucket{new(Bucket), NewBucket(Limit{}), NewBucket(Limit{2e9, sec, 1}), NewBucket(Limit{1, sec, -1})} {
		b.Refund(1)
		if d := b.Take(0); d != (Decision{RetryAfter: -1}) || b.Take(1).Allowed || b.Allow() {
			t.Errorf("%+v: %+v", b.rate.limit, d)
		}
	}
}

func TestNoAllocation(t *testing.T) { // invariant 9
	b := NewBucket(Limit{Tokens: 100, Period: sec, Burst: 100})
	l := New()
	limit := Limit{Tokens: 100, Period: sec, Burst: 100}
	hour := Limit{Tokens: 100, Period: time.Hour, Burst: 100}
	l.TakeAll(Claim{"a", limit, 1}, Claim{"b", hour, 1})
	for name, f := range map[string]func(){
		"Bucket.Allow": func() { b.Allow() },
		"Bucket.Take":  func() { b.Take(1) },
		"Limiter.Take": func() { l.Take("a", limit, 1) },
		"TakeAll":      func() { l.TakeAll(Claim{"a", limit, 1}, Claim{"b", hour, 1}) },
		"Refund":       func() { l.Refund("a", 1) },
		"Peek":         func() { l.Peek("unknown", limit) },
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func TestNoGoroutine(t *testing.T) { // invariant 9
	before := runtime.NumGoroutine()
	l := New()
	for range 100 {
		l.Take("a", Limit{Tokens: 1, Period: sec, Burst: 1}, 1)
		NewBucket(Limit{Tokens: 1, Period: sec, Burst: 1}).Allow()
	}
	CoarseClock(0) // asked for, but not read
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}
