package cluster_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"tokenbucket.internal/ci/cluster/rig"
	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// A distant is a gateway whose Redis answers later than a request waits, with
// clocks that can be set forward.
type distant struct {
	*cluster.Limiter
	server *miniredis.Miniredis
	epoch  time.Time
	ahead  atomic.Int64
}

func newDistant(t *testing.T, nodes int) *distant {
	t.Helper()
	d := &distant{server: miniredis.RunT(t), epoch: time.Now()}
	var network *rig.Proxy
	d.Limiter, network = proxied(t, d.server.Addr(), func(o *cluster.Options) {
		o.Nodes = nodes
		o.Clock = func() time.Duration { return limiter.Monotonic() + time.Duration(d.ahead.Load()) }
	})
	network.Delay(15 * time.Millisecond)
	return d
}

// rest sets the clocks forward, so many times, and lets the sweeper work each
// time: it gives leases back and forgets keys.
func (d *distant) rest(times int, span time.Duration) {
	for range times {
		time.Sleep(550 * time.Millisecond)
		d.server.SetTime(d.epoch.Add(time.Duration(d.ahead.Add(int64(span)))))
	}
}

// Who comes rarely does not find a full share each time.
func TestLateAnswersAddNoBursts(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			d, limit := newDistant(t, nodes), limitOf(t, "100/h burst 100")
			admitted := 0
			for range 3 {
				admitted += crowded(d.Limiter, limit, 100)
				d.rest(8, 12*time.Second) // less than three tokens
			}
			if admitted > 108 || admitted < 50 {
				t.Errorf("%d admitted of a burst of 100; %+v", admitted, d.Stats())
			}
		})
	}
}

// crowded is how many of so many requests at once are admitted.
func crowded(l *cluster.Limiter, limit limiter.Limit, n int) int {
	var admitted atomic.Int64
	var crowd sync.WaitGroup
	for range n {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			if l.Take(id, limit, 1).Allowed {
				admitted.Add(1)
			}
		}()
	}
	crowd.Wait()
	return int(admitted.Load())
}

// A full bucket is not refused because the share of its burst is less than one
// token.
func TestLateAnswersNeverRefuseAll(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1/s burst 1", "10/s burst 2"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			d, limit := newDistant(t, 3), limitOf(t, text)
			for n := range 5 {
				if a := d.Take(id, limit, 1); !a.Allowed {
					t.Errorf("request %d: %+v", n, a)
				}
				d.rest(2, 1350*time.Millisecond)
			}
		})
	}
}
