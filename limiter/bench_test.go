package limiter

import (
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

var (
	admitting = Limit{Tokens: 1e9, Period: time.Second, Burst: math.MaxInt32}
	refusing  = Limit{Tokens: 1, Period: 24 * time.Hour, Burst: 1}
)

// BenchmarkTokenBucket is one bucket: the verdict alone and the decision.
func BenchmarkTokenBucket(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit Limit
	}{{"admit", admitting}, {"refuse", refusing}} {
		b.Run("allow/"+c.name, func(b *testing.B) {
			bucket := NewBucket(c.limit)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bucket.Allow()
				}
			})
		})
		b.Run("take/"+c.name, func(b *testing.B) {
			bucket := NewBucket(c.limit)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bucket.Take(1)
				}
			})
		})
	}
}

// benchKeys gives every goroutine of the benchmark its own walk over n keys.
func benchKeys(b *testing.B, l *Limiter, limit Limit, n int) {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "5e9d9544a1dcd60001d0ed20" + strconv.Itoa(i)
		l.Take(keys[i], limit, 1)
	}
	var walker atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		// A step coprime to n visits all keys in an order that defeats the cache.
		step := 2*int(walker.Add(1)) + 100_003
		for i := 0; pb.Next(); i += step {
			l.Take(keys[uint(i)%uint(n)], limit, 1)
		}
	})
}

func BenchmarkRateLimitAdmit(b *testing.B)  { benchKeys(b, New(), admitting, 64) }
func BenchmarkRateLimitRefuse(b *testing.B) { benchKeys(b, New(), refusing, 64) }

func BenchmarkRateLimitHotKey(b *testing.B) {
	b.Run("admit", func(b *testing.B) { benchKeys(b, New(), admitting, 1) })
	b.Run("refuse", func(b *testing.B) { benchKeys(b, New(), refusing, 1) })
}

func BenchmarkRateLimitManyKeys(b *testing.B) {
	for _, n := range []int{1 << 16, 1 << 20} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchKeys(b, New(WithMaxKeys(2*n)), admitting, n) })
	}
}

func BenchmarkRateLimitCoarseClock(b *testing.B) {
	benchKeys(b, New(WithClock(CoarseClock(0))), admitting, 64)
}

func BenchmarkRateLimitTakeAll(b *testing.B) {
	l := New()
	hour := Limit{Tokens: 1e12, Period: time.Hour, Burst: 1e12}
	b.ReportAllocs()
	for range b.N {
		l.TakeAll(Claim{"key/s", admitting, 1}, Claim{"key/h", hour, 1})
	}
}

// BenchmarkRateLimitNewKeys creates a key each time, at the cap: every one
// evicts a bucket that is full again.
func BenchmarkRateLimitNewKeys(b *testing.B) {
	l := New(WithMaxKeys(1 << 16))
	b.ReportAllocs()
	for i := range b.N {
		l.Take(strconv.Itoa(i), admitting, 1)
	}
}
