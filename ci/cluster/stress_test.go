package cluster_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// Everything at once on a few buckets: no more is admitted than the bursts, and
// in the end all of them.
func TestNothingIsAdmittedTwice(t *testing.T) {
	server := miniredis.RunT(t)
	limits := []limiter.Limit{{Tokens: 1, Period: time.Hour, Burst: 3000}, {Tokens: 2, Period: 2 * time.Hour, Burst: 3000}}
	var used [3]atomic.Int64
	var ended sync.WaitGroup
	var gateways []*cluster.Limiter
	for i := range 3 {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
		// The machine may stand still for a while: that is no fault here.
		l := cluster.New(cluster.Options{Client: client, ID: fmt.Sprint(i), Patience: time.Minute, Wait: 10 * time.Second})
		defer func() { l.Close(); _ = client.Close() }()
		eventually(t, "the first answer", 3*second, func() bool { return l.Stats().Up })
		gateways = append(gateways, l)
	}
	stop := time.Now().Add(1500 * time.Millisecond)
	for i, l := range gateways {
		for worker := range 4 {
			ended.Add(1)
			go func() {
				defer ended.Done()
				for n := worker; time.Now().Before(stop); n++ {
					// The same limit in two spellings: a change that changes nothing.
					limit := limits[(n/100+i)%2]
					use(l, limit, n, &used)
					time.Sleep(20 * time.Microsecond)
				}
			}()
		}
	}
	ended.Wait()
	// Leases of one gateway are given back to the others when they lie idle.
	eventually(t, "the use of all tokens", 15*second, func() bool {
		done := 0
		for k := range used {
			for _, l := range gateways {
				used[k].Add(int64(take(l, key(k), limits[0], 10)))
			}
			if used[k].Load() >= 3000 {
				done++
			}
		}
		return done == len(used)
	})
	for k := range used {
		if n := used[k].Load(); n > 3000 {
			t.Errorf("bucket %d: %d of 3000", k, n)
		}
	}
	for i, l := range gateways {
		if st := l.Stats(); st.Panics+st.Faults+st.Local > 0 {
			t.Errorf("gateway %d: %+v", i, st)
		}
	}
}

func key(k int) string { return fmt.Sprint("bucket ", k) }

// use makes one of several requests and keeps the books.
func use(l *cluster.Limiter, limit limiter.Limit, n int, used *[3]atomic.Int64) {
	switch n % 5 {
	case 0, 1:
		if l.Take(key(n%3), limit, 1).Allowed {
			used[n%3].Add(1)
		}
	case 2:
		if l.Take(key(n%3), limit, 5).Allowed {
			used[n%3].Add(2)
			l.Refund(key(n%3), limit, 3)
		}
	case 3:
		if d, _ := l.Decide([]limiter.Claim{{Key: key(0), Limit: limit, Cost: 1}, {Key: key(1), Limit: limit, Cost: 2}}); d.Allowed {
			used[0].Add(1)
			used[1].Add(2)
		}
	default:
		l.TakeKnown(key(n%3), limit, 0)
	}
}
