package limiter

import (
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// counting takes a token as Bucket.AllowAt does and counts the swaps that it
// lost. The word is the bucket's own, so whoever lost to others made others
// lose, in Bucket.Allow itself too; that one does not count, as it would cost.
func (b *Bucket) counting(now time.Duration, lost *int64) bool {
	r := &b.rate
	at := r.units(now)
	for {
		tat := b.tat.Load()
		next, ok := r.take(tat, at, r.interval)
		if !ok {
			return false
		}
		if b.tat.CompareAndSwap(tat, next) {
			return true
		}
		*lost++
	}
}

// TestBoundHoldsWhereSwapsFail is invariant 1 on buckets whose word is fought
// for, with the real clock: of four goroutines two call the package, the
// others count. It goes on until swaps enough were lost.
func TestBoundHoldsWhereSwapsFail(t *testing.T) {
	if testing.Short() || runtime.NumCPU() < 2 {
		t.Skip("takes a while, and two CPUs")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	const enough = 100
	limit := Limit{Tokens: 1000, Period: sec, Burst: 500_000}
	var lost atomic.Int64
	rounds := 0
	for begin := Monotonic(); lost.Load() < enough && Monotonic() < begin+30*sec; rounds++ {
		b := NewBucket(limit)
		takes := []func(lost *int64) bool{
			func(*int64) bool { return b.Allow() },
			func(*int64) bool { return b.Take(1).Allowed },
			func(lost *int64) bool { return b.counting(Monotonic(), lost) },
			func(lost *int64) bool { return b.counting(Monotonic(), lost) },
		}
		var next atomic.Int64
		start := Monotonic()
		admitted := contend(len(takes), 1, func() (n int64) {
			take := takes[next.Add(1)-1]
			var mine int64
			for range limit.Burst {
				n += one(take(&mine))
			}
			lost.Add(mine)
			return n
		})
		span := Monotonic() - start
		if may := limit.Burst + int64(span/time.Millisecond); admitted < limit.Burst || admitted > may {
			t.Fatalf("%d admitted in %v, want %d to %d", admitted, span, limit.Burst, may)
		}
	}
	t.Logf("%d swaps were lost in %d rounds", lost.Load(), rounds)
	if lost.Load() < enough {
		t.Errorf("only %d swaps were lost: no contention, so nothing is shown", lost.Load())
	}
}

// BenchmarkContention is the swaps lost for each take of one bucket, all of
// them admitted.
func BenchmarkContention(b *testing.B) {
	for _, goroutines := range []int{1, 2, 4, 8, 16} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			bucket := NewBucket(admitting)
			var lost atomic.Int64
			contend(goroutines, 1, func() int64 {
				var mine int64
				for range max(1, b.N/goroutines) {
					bucket.counting(Monotonic(), &mine)
				}
				return lost.Add(mine)
			})
			b.ReportMetric(float64(lost.Load())/float64(b.N), "lost/take")
		})
	}
}
