package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/juju/ratelimit"
	sethvargo "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"tokenbucket.internal/limiter"
)

// A peer is a limiter that does the work: ours or another.
type peer struct {
	name  string
	about string
	// bounds is what keeps its memory finite: a number of keys, the age of
	// keys, or "" for nothing.
	bounds string
	// blocks is set if it waits where others refuse.
	blocks bool
	// bucket makes one bucket; nil if it has only buckets for keys.
	bucket func(limiter.Limit) job
	// table makes a bucket for each key; nil if it has only single buckets.
	// It keeps max keys at most, if it can; 0 is for as many as come.
	table func(l limiter.Limit, max int) table
}

// A job does the operations [from, to) and counts those that were admitted.
// The loop is inside, so that one bucket is called without indirection.
type job func(from, to int) (admitted int)

type table struct {
	take  func(key string) bool
	close func() // nil if nothing has to end
}

const (
	ours   = "ours" // the first of the peers, and the one that the ratios are to
	coarse = "coarse"
	floor  = "floor"

	byKeys = "keys"
	byAge  = "age"
)

func peers() []peer {
	return []peer{
		{name: ours, about: "this package: Bucket.Allow, Limiter.Take", bounds: byKeys, bucket: ourBucket, table: ourTable},
		{name: coarse, about: "this package with limiter.CoarseClock", bounds: byKeys, bucket: coarseBucket, table: coarseTable},
		{name: floor, about: "no limiter: a reading of limiter.Monotonic and one swap of a word, the least that an exact one does; a load if it refuses", bucket: floorBucket},
		{name: "x/time", about: "golang.org/x/time/rate", bucket: xtimeBucket},
		{name: "juju", about: "github.com/juju/ratelimit", bucket: jujuBucket},
		{name: "uber", about: "go.uber.org/ratelimit; it never refuses, it waits, so only what it admits at once is compared", blocks: true, bucket: uberBucket},
		{name: "throttled", about: "github.com/throttled/throttled/v2, memstore", bounds: byKeys, table: throttledTable},
		{name: "sethvargo", about: "github.com/sethvargo/go-limiter, memorystore; windows, not buckets", bounds: byAge, table: sethvargoTable},
		{name: "ulule", about: "github.com/ulule/limiter/v3, memory store; windows, not buckets", bounds: byAge, table: ululeTable},
		{name: "sync.Map", about: "golang.org/x/time/rate limiters in a sync.Map", table: syncMapTable},
		{name: "mutex map", about: "golang.org/x/time/rate limiters in a map with a mutex", table: mutexMapTable},
		{name: "LRU", about: "golang.org/x/time/rate limiters in github.com/hashicorp/golang-lru/v2", bounds: byKeys, table: lruTable},
	}
}

func ourBucket(l limiter.Limit) job {
	b := limiter.NewBucket(l)
	return func(from, to int) (admitted int) {
		for range to - from {
			if b.Allow() {
				admitted++
			}
		}
		return admitted
	}
}

func coarseBucket(l limiter.Limit) job {
	b, clock := limiter.NewBucket(l), limiter.CoarseClock(0)
	return func(from, to int) (admitted int) {
		for range to - from {
			if b.AllowAt(clock()) {
				admitted++
			}
		}
		return admitted
	}
}

func floorBucket(l limiter.Limit) job {
	var word atomic.Int64
	return func(from, to int) (admitted int) {
		for range to - from {
			now, was := int64(limiter.Monotonic()), word.Load()
			if l == refuses {
				continue
			}
			word.CompareAndSwap(was, max(was, now))
			admitted++
		}
		return admitted
	}
}

func xtimeBucket(l limiter.Limit) job {
	b := xtime(l)
	return func(from, to int) (admitted int) {
		for range to - from {
			if b.Allow() {
				admitted++
			}
		}
		return admitted
	}
}

func jujuBucket(l limiter.Limit) job {
	b := ratelimit.NewBucketWithQuantum(interval(l), l.Burst, 1)
	return func(from, to int) (admitted int) {
		for range to - from {
			admitted += int(b.TakeAvailable(1))
		}
		return admitted
	}
}

func uberBucket(l limiter.Limit) job {
	b := uber.New(int(l.Tokens), uber.Per(l.Period))
	return func(from, to int) (admitted int) {
		for range to - from {
			b.Take()
		}
		return to - from
	}
}

// plenty is a bound that nothing here reaches.
const plenty = 1 << 24

func ourTable(l limiter.Limit, max int) table { return limiterTable(l, max, limiter.Monotonic) }

func coarseTable(l limiter.Limit, max int) table {
	return limiterTable(l, max, limiter.CoarseClock(0))
}

func limiterTable(l limiter.Limit, max int, clock func() time.Duration) table {
	if max == 0 {
		max = plenty
	}
	lim := limiter.New(limiter.WithMaxKeys(max), limiter.WithClock(clock))
	return table{take: func(key string) bool { return lim.Take(key, l, 1).Allowed }}
}

func throttledTable(l limiter.Limit, max int) table {
	store, err := memstore.NewCtx(max)
	must(err)
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(l.Tokens), l.Period), MaxBurst: int(l.Burst - 1)}
	lim, err := throttled.NewGCRARateLimiterCtx(store, quota)
	must(err)
	// Under contention its swap fails ten times, which is an error.
	lim.SetMaxCASAttemptsLimit(1 << 30)
	ctx := context.Background()
	return table{take: func(key string) bool {
		limited, _, err := lim.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}}
}

func sethvargoTable(l limiter.Limit, _ int) table {
	store, err := sethvargo.New(&sethvargo.Config{Tokens: uint64(l.Burst), Interval: l.Period})
	must(err)
	ctx := context.Background()
	return table{
		take: func(key string) bool {
			_, _, _, ok, err := store.Take(ctx, key)
			return ok && err == nil
		},
		close: func() { must(store.Close(ctx)) },
	}
}

func ululeTable(l limiter.Limit, _ int) table {
	// Its sweep of all keys, by default every 30 s, would fall into the time of
	// others.
	store := memory.NewStoreWithOptions(ulule.StoreOptions{Prefix: ulule.DefaultPrefix, CleanUpInterval: time.Hour})
	lim := ulule.New(store, ulule.Rate{Limit: l.Burst, Period: l.Period})
	ctx := context.Background()
	return table{take: func(key string) bool {
		c, err := lim.Get(ctx, key)
		return err == nil && !c.Reached
	}}
}

func xtime(l limiter.Limit) *rate.Limiter {
	return rate.NewLimiter(rate.Every(interval(l)), int(l.Burst))
}

func interval(l limiter.Limit) time.Duration { return l.Period / time.Duration(l.Tokens) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}
