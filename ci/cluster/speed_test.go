package cluster_test

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

type taker interface {
	Take(key string, l limiter.Limit, cost int64) limiter.Decision
}

var (
	plentiful = limiter.Limit{Tokens: 1e9, Period: time.Second, Burst: 1 << 31}
	scarce    = limiter.Limit{Tokens: 1, Period: time.Hour, Burst: 1}
)

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], uint64(i)*0x9e3779b97f4a7c15)
		keys[i] = string(b[:])
	}
	return keys
}

// clustered is a Limiter on a miniredis, in real time.
func clustered(t testing.TB, change func(*cluster.Options)) (*cluster.Limiter, *miniredis.Miniredis) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	o := cluster.Options{Client: client, Wait: time.Second, ID: "gateway"}
	if change != nil {
		change(&o)
	}
	l := cluster.New(o)
	t.Cleanup(func() { l.Close(); _ = client.Close() })
	for !l.Stats().Up {
		time.Sleep(time.Millisecond)
	}
	return l, server
}

// Local and cluster beside each other: one key or 10 000, admitted or refused,
// on one goroutine or as many as there are cores.
func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		name  string
		keys  int
		limit limiter.Limit
	}{{"admit", 1, plentiful}, {"refuse", 1, scarce}, {"admit10k", 10_000, plentiful}, {"refuse10k", 10_000, scarce}} {
		keys := keysOf(c.keys)
		run := func(b *testing.B, l taker) {
			for range 3 { // learn the demand
				for _, key := range keys {
					l.Take(key, c.limit, 1)
				}
				time.Sleep(200 * time.Millisecond)
			}
			b.Run("one", func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					l.Take(keys[i%len(keys)], c.limit, 1)
				}
			})
			b.Run("all", func(b *testing.B) {
				b.ReportAllocs()
				var start atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					for i := int(start.Add(7919)); pb.Next(); i++ {
						l.Take(keys[i%len(keys)], c.limit, 1)
					}
				})
			})
		}
		b.Run(c.name+"/local", func(b *testing.B) { run(b, limiter.New()) })
		b.Run(c.name+"/cluster", func(b *testing.B) {
			l, _ := clustered(b, nil)
			run(b, l)
		})
	}
}
