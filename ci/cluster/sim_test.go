package cluster_test

import (
	"context"
	"fmt"
	"math/rand"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// A sim is several gateways on one Redis in a time of its own: it moves only
// when the test says so, and only when no renewal is on its way but those that
// the network still carries.
type sim struct {
	t        *testing.T
	server   *miniredis.Miniredis
	now      atomic.Int64 // nanoseconds
	epoch    time.Time    // Redis's clock at 0
	gateways []*gateway
	closed   atomic.Bool
}

type gateway struct {
	*cluster.Limiter
	sim    *sim
	client *redis.Client
	offset time.Duration // of its clock
	rtt    time.Duration
	due    atomic.Int64 // when what the network carries arrives; 0: nothing
}

func newSim(t *testing.T, n int, rtt time.Duration, change func(i int, o *cluster.Options)) *sim {
	s := &sim{t: t, server: miniredis.RunT(t), epoch: time.UnixMicro(1_750_000_000_123_456)}
	s.server.SetTime(s.epoch)
	for i := range n {
		s.join(i, rtt, change)
	}
	return s
}

func (s *sim) join(i int, rtt time.Duration, change func(i int, o *cluster.Options)) *gateway {
	g := &gateway{sim: s, rtt: rtt, offset: time.Duration(i) * 1000 * time.Hour}
	g.client = redis.NewClient(&redis.Options{Addr: s.server.Addr(), MaxRetries: -1, ReadTimeout: time.Minute})
	g.client.AddHook(g)
	o := cluster.Options{
		Client: g.client, Clock: g.clock, Wait: 10 * time.Second, ID: fmt.Sprint("gateway ", i), Nodes: 3, Patience: time.Minute,
	}
	if rtt > 0 {
		o.Wait = -1
	}
	if change != nil {
		change(i, &o)
	}
	g.Limiter = cluster.New(o)
	s.gateways = append(s.gateways, g)
	s.t.Cleanup(func() { s.closed.Store(true); g.Close(); _ = g.client.Close() })
	for !g.Stats().Up {
		time.Sleep(time.Millisecond)
	}
	return g
}

func (g *gateway) clock() time.Duration { return time.Duration(g.sim.now.Load()) + g.offset }

func (g *gateway) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (g *gateway) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook is the network: a renewal reaches Redis half a round
// trip later and its answer the gateway after the other half.
func (g *gateway) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if g.rtt == 0 {
			return next(ctx, cmds)
		}
		ctx = context.WithoutCancel(ctx)
		g.travel()
		err := next(ctx, cmds)
		g.travel()
		return err
	}
}

func (g *gateway) travel() {
	due := g.sim.now.Load() + int64(g.rtt/2)
	g.due.Store(due)
	for g.sim.now.Load() < due && !g.sim.closed.Load() {
		time.Sleep(10 * time.Microsecond)
	}
	g.due.Store(0)
}

// settle waits until every renewal is done or on the network.
func (s *sim) settle() {
	for _, g := range s.gateways {
		for g.Stats().Pending > 0 && g.due.Load() <= s.now.Load() {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// to moves the time on, and stops wherever the network delivers something.
func (s *sim) to(now time.Duration) {
	for {
		next := int64(now)
		for _, g := range s.gateways {
			if due := g.due.Load(); due > s.now.Load() {
				next = min(next, due)
			}
		}
		s.server.SetTime(s.epoch.Add(time.Duration(next)))
		s.now.Store(next)
		s.settle()
		if next == int64(now) {
			return
		}
	}
}

// A load is what each gateway is asked for, in requests a second.
type load struct {
	key     string
	limit   limiter.Limit
	offered []float64
	random  *rand.Rand // nil: evenly; else at random times, a Poisson process
	next    []time.Duration
	at      []time.Duration // of the requests admitted, by all
	by      []int           // by each gateway
	one     *limiter.Bucket // that all requests would have had to pass otherwise
	passed  int             // by it
}

const id = "0123456789abcdef"

func newLoad(limit limiter.Limit, random *rand.Rand, offered ...float64) *load {
	l := &load{key: id, limit: limit, offered: offered, random: random, next: make([]time.Duration, len(offered)), by: make([]int, len(offered)), one: limiter.NewBucket(limit)}
	for i, rate := range offered {
		l.next[i] = time.Duration(float64(i) / float64(len(offered)) / rate * 1e9)
	}
	return l
}

// run offers requests until the end.
func (s *sim) run(l *load, until time.Duration) {
	for {
		first := -1
		for i := range l.offered {
			if l.offered[i] > 0 && (first < 0 || l.next[i] < l.next[first]) {
				first = i
			}
		}
		if first < 0 || l.next[first] >= until {
			break
		}
		now := l.next[first]
		s.to(now)
		s.ask(l, first, now)
		s.settle()
		gap := 1 / l.offered[first]
		if l.random != nil {
			gap *= l.random.ExpFloat64()
		}
		l.next[first] = now + time.Duration(gap*1e9)
	}
	s.to(until)
}

// ask is one request to a gateway.
func (s *sim) ask(l *load, gateway int, now time.Duration) {
	if l.one.AllowAt(now) {
		l.passed++
	}
	if s.gateways[gateway].Take(l.key, l.limit, 1).Allowed {
		l.at = append(l.at, now)
		l.by[gateway]++
	}
}

// use is what was admitted to what the limit allows.
func (l *load) use(span time.Duration) float64 {
	return float64(len(l.at)) / l.allowed(span)
}

func (l *load) allowed(span time.Duration) float64 {
	return float64(l.limit.Burst) + float64(l.limit.Tokens)*float64(span)/float64(l.limit.Period)
}

// over is by how much the number of requests admitted since the start ever
// exceeded what the limit allows since then.
func (l *load) over() float64 {
	worst := -1e18
	for i, at := range l.at {
		worst = max(worst, float64(i+1)-l.allowed(at))
	}
	return worst
}

// peak is the most that was admitted in any span, to what the limit allows in
// one.
func (l *load) peak(span time.Duration) float64 {
	most, j := 0, 0
	for i := range l.at {
		for l.at[i]-l.at[j] > span {
			j++
		}
		most = max(most, i-j+1)
	}
	return float64(most) / l.allowed(span)
}

// over is checked to a microsecond, which is what Redis's clock resolves.
func (l *load) exceeds() bool {
	return l.over() > 1e-6*float64(l.limit.Tokens)*1e9/float64(l.limit.Period)+1e-9
}

func (s *sim) renewals() (most int64) {
	for _, g := range s.gateways {
		most = max(most, g.Stats().Renewals)
	}
	return most
}
