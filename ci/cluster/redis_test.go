package cluster_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/ci/cluster/rig"
	"tokenbucket.internal/cluster"
	"tokenbucket.internal/cluster/shared"
	"tokenbucket.internal/limiter"
)

// realRedis is a server process; the test is skipped where none is installed.
func realRedis(t *testing.T, args ...string) *rig.Redis {
	t.Helper()
	if _, err := rig.Server(); err != nil {
		t.Skip("no redis-server or valkey-server is installed")
	}
	r, err := rig.StartRedis(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// joined is a gateway in real time.
func joined(t *testing.T, addr, id string, change func(*cluster.Options)) *cluster.Limiter {
	t.Helper()
	return started(t, "redis://"+addr, cluster.Options{ID: id}, change)
}

// fleet is so many of them.
func fleet(t *testing.T, addr string, n int, change func(*cluster.Options)) (gateways []*cluster.Limiter) {
	t.Helper()
	for i := range n {
		gateways = append(gateways, joined(t, addr, fmt.Sprint(i), change))
	}
	return gateways
}

// A crowd asks gateways at a rate each, every millisecond what is due, and
// keeps when requests were admitted and how long the longest took.
type crowd struct {
	mu      sync.Mutex
	at      []time.Duration
	by      []int
	longest time.Duration
	start   time.Time
	stop    chan struct{}
	ended   sync.WaitGroup
}

func newCrowd(n int) *crowd {
	return &crowd{by: make([]int, n), start: time.Now(), stop: make(chan struct{})}
}

func (c *crowd) ask(i int, l *cluster.Limiter, limit limiter.Limit, rate float64) {
	c.ended.Add(1)
	go func() {
		defer c.ended.Done()
		begin, asked := time.Now(), 0.
		for ticker := time.NewTicker(time.Millisecond); ; {
			select {
			case <-c.stop:
				ticker.Stop()
				return
			case <-ticker.C:
			}
			for due := time.Since(begin).Seconds() * rate; asked < due; asked++ {
				before := time.Now()
				allowed := l.Take(id, limit, 1).Allowed
				c.note(i, allowed, time.Since(before))
			}
		}
	}()
}

func (c *crowd) note(i int, allowed bool, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, took)
	if allowed {
		c.at = append(c.at, time.Since(c.start))
		c.by[i]++
	}
}

// between counts the requests admitted in a time since the start.
func (c *crowd) between(from, to time.Duration) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.at {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

func (c *crowd) end() {
	close(c.stop)
	c.ended.Wait()
}

func (c *crowd) to(d time.Duration) { time.Sleep(time.Until(c.start.Add(d))) }

// The script does in Redis what it does in the other tests' miniredis.
func TestScriptOnRedis(t *testing.T) {
	r := realRedis(t)
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer func() { _ = client.Close() }()
	random := rand.New(rand.NewSource(9))
	for n := range 200 {
		limit := randomLimit(random)
		p := compile(t, limit)
		var m *model
		for range 10 {
			a := shared.Ask{Want: 1 + random.Int63n(limit.Burst), Share: 4}
			g, err := shared.Read(client.Eval(context.Background(), shared.Script, []string{fmt.Sprint("ratelimit:{", n, "}")}, p.Args(a)...).Result())
			if err != nil {
				t.Fatal(err)
			}
			if m == nil {
				m = &model{limit: limit, held: rat(limit.Burst), at: g.At}
			}
			m.advance(g.At)
			free := m.free()
			if rat(g.Tokens).Cmp(free) > 0 {
				t.Fatalf("%v: granted %d of %s", limit, g.Tokens, free.FloatString(6))
			}
			loss := new(big.Rat).Mul(rat(limit.Burst), big.NewRat(1, 100_000))
			if min(a.Want, floor(free))-g.Tokens > 1+floor(loss) {
				t.Fatalf("%v: granted %d of %s", limit, g.Tokens, free.FloatString(6))
			}
			m.held.Sub(m.held, rat(g.Tokens))
		}
	}
}

// Three gateways at five times the limit, for a few seconds of real time.
func TestThreeGateways(t *testing.T) {
	r := realRedis(t)
	limit := limiter.Limit{Tokens: 1000, Period: second, Burst: 100}
	c := newCrowd(3)
	gateways := fleet(t, r.Addr, 3, nil)
	for i, g := range gateways {
		c.ask(i, g, limit, 5000./3)
	}
	time.Sleep(4 * second)
	c.end()
	span := time.Since(c.start)
	n, most := float64(len(c.at)), 100+1000*span.Seconds()
	t.Logf("%.0f of %.0f, by gateway %v, longest wait %v", n, most, c.by, c.longest)
	if n > most || n < 0.97*most-100 { // it starts before the first request
		t.Errorf("%.0f of %.0f", n, most)
	}
	for i, g := range gateways {
		if st := g.Stats(); float64(st.Renewals)/span.Seconds() > 10.5 || st.Nodes != 3 || st.Faults > 0 {
			t.Errorf("gateway %d: %+v", i, st)
		}
		if 6*c.by[i] < len(c.at) || 3*c.by[i] > 2*len(c.at) {
			t.Errorf("gateway %d got %d of %d", i, c.by[i], len(c.at))
		}
	}
}

// Redis is killed under load and comes back empty.
func TestRedisKilledAndRestarted(t *testing.T) {
	r := realRedis(t)
	limit := limiter.Limit{Tokens: 1000, Period: second, Burst: 100}
	c := newCrowd(3)
	var lines logged
	gateways := fleet(t, r.Addr, 3, func(o *cluster.Options) { o.Log = lines.add })
	for _, g := range gateways { // all know of each other
		eventually(t, "the count of gateways", 3*second, func() bool { return g.Stats().Nodes == 3 })
	}
	c.start = time.Now()
	for i, g := range gateways {
		c.ask(i, g, limit, 5000./3)
	}
	c.to(1500 * time.Millisecond)
	r.Kill()
	c.to(4500 * time.Millisecond)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	back := time.Since(c.start)
	c.to(back + 5*second)
	c.end()
	during, after := c.between(1700*time.Millisecond, 4500*time.Millisecond), c.between(back+2*second, back+5*second)
	all := c.between(0, back+5*second)
	t.Logf("%d in 2.8 s without Redis, %d in the 3 s from 2 s after its return, %d in all, longest wait %v\n%s",
		during, after, all, c.longest, strings.Join(lines.all(), "\n"))
	if during > 2800+300 || during < 1400 {
		t.Errorf("%d in 2.8 s without Redis", during)
	}
	if after < 2910 || after > 3150 {
		t.Errorf("%d in 3 s after its return", after)
	}
	if most := 100 + 1000*(back+5*second).Seconds() + 300; float64(all) > most {
		t.Errorf("%d in all, more than the limit and a burst of each gateway", all)
	}
	if c.longest > cluster.DefaultWait+100*time.Millisecond {
		t.Errorf("a request waited %v", c.longest)
	}
	if n := len(lines.all()); n != 9 {
		t.Errorf("%d log lines for 3 gateways up, down and up again", n)
	}
}

// 3/s over five gateways: never all refused, never above the limit.
func TestFiveGatewaysAtThreeASecond(t *testing.T) {
	r := realRedis(t)
	limit := limiter.Limit{Tokens: 3, Period: second, Burst: 3}
	c := newCrowd(5)
	gateways := fleet(t, r.Addr, 5, nil)
	c.start = time.Now()
	for i, g := range gateways {
		c.ask(i, g, limit, 20)
	}
	c.to(5 * second)
	c.end()
	t.Logf("%d of %d, by gateway %v", len(c.at), 3+15, c.by)
	if n := len(c.at); n > 18 || n < 16 {
		t.Errorf("%d of 18", n)
	}
	for s := range 5 {
		if n := c.between(time.Duration(s)*second, time.Duration(s+1)*second); n == 0 {
			t.Errorf("all refused in second %d", s)
		}
	}
}

// The limit is changed under load, a gateway leaves and another joins.
func TestChangesUnderLoad(t *testing.T) {
	r := realRedis(t)
	low, high := limiter.Limit{Tokens: 200, Period: second, Burst: 20}, limiter.Limit{Tokens: 1000, Period: second, Burst: 100}
	gateways := []*cluster.Limiter{joined(t, r.Addr, "a", nil), joined(t, r.Addr, "b", nil)}
	c := newCrowd(2)
	for i, g := range gateways {
		c.ask(i, g, low, 1000)
	}
	c.to(2 * second)
	c.end()
	if n := len(c.at); n > 420 || n < 380 {
		t.Errorf("%d of 420", n)
	}
	c = newCrowd(3)
	for i, g := range gateways {
		c.ask(i, g, high, 2500)
	}
	c.to(second)
	late := joined(t, r.Addr, "c", nil)
	c.ask(2, late, high, 2500)
	c.to(2 * second)
	gateways[0].Close() // leaves; its requests are decided by its share
	eventually(t, "leaving", 2*second, func() bool { return gateways[1].Stats().Nodes == 2 })
	c.to(4 * second)
	c.end()
	first, second, last := c.between(0, time.Second), c.between(time.Second, 2*time.Second), c.between(2*time.Second, 4*time.Second)
	t.Logf("%d, then %d with a third gateway (%d), then %d", first, second, c.by[2], last)
	// What was lent at the low limit stays lent for up to 250 ms.
	if first < 750 || first > 1060 || second < 940 || second > 1060 || c.by[2] < 300 {
		t.Errorf("%d and %d of 1000, %d by the one that joined", first, second, c.by[2])
	}
	if last > 2000+2000/2+150 { // the one that left has half of the limit for itself
		t.Errorf("%d after one left", last)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	r := realRedis(t)
	runtime.GC()
	before := runtime.NumGoroutine()
	for i := range 3 {
		client, err := cluster.Dial("redis://" + r.Addr)
		if err != nil {
			t.Fatal(err)
		}
		l := cluster.New(cluster.Options{Client: client})
		eventually(t, "the first answer", 3*second, func() bool { return l.Stats().Up })
		for _, key := range keysOf(500) {
			l.Take(key, limiter.Limit{Tokens: 1, Period: time.Hour, Burst: 100}, 1)
		}
		if i == 1 {
			r.Kill()
			eventually(t, "giving Redis up", 3*second, func() bool {
				l.Take(keysOf(1)[0], limiter.Limit{Tokens: 1, Period: time.Hour, Burst: 100}, 1)
				return !l.Stats().Up
			})
		}
		began := time.Now()
		l.Close()
		if d := time.Since(began); d > 1500*time.Millisecond {
			t.Errorf("Close took %v", d)
		}
		_ = client.Close()
		if d := l.Take("after", limiter.Limit{Tokens: 10, Period: second, Burst: 10}, 1); !d.Allowed {
			t.Errorf("after Close: %+v", d)
		}
		if i == 0 {
			left := redis.NewClient(&redis.Options{Addr: r.Addr})
			if n := left.ZCard(context.Background(), "ratelimit:{gateways}").Val(); n != 0 {
				t.Errorf("%d gateways are left", n)
			}
			word := left.Get(context.Background(), left.Keys(context.Background(), "ratelimit:{A*").Val()[0]).Val()
			var at, used, scale, interval int64
			_, _ = fmt.Sscan(word, &at, &used, &scale, &interval)
			if used > 2*interval {
				t.Errorf("leases were not given back: %q", word)
			}
			_ = left.Close()
		}
		if i == 1 {
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the end of all goroutines", 4*second, func() bool { return runtime.NumGoroutine() <= before })
}
