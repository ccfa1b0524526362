package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/ci/cluster/rig"
	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// down makes Redis answer everything with an error and waits until it is given
// up.
func down(t *testing.T, l *cluster.Limiter, server *miniredis.Miniredis, err string) {
	t.Helper()
	server.SetError(err)
	probe := limiter.Limit{Tokens: 1, Period: time.Hour, Burst: 1}
	eventually(t, "giving Redis up", 3*second, func() bool {
		l.Take(fmt.Sprint("probe ", time.Now()), probe, 1)
		return !l.Stats().Up
	})
}

func TestServerErrors(t *testing.T) {
	for _, answer := range []string{
		"READONLY You can't write against a read only replica.", "LOADING Redis is loading the dataset in memory",
		"CLUSTERDOWN The cluster is down", "NOAUTH Authentication required.", "MISCONF Redis is configured to save RDB snapshots",
	} {
		var lines logged
		l, server := clustered(t, func(o *cluster.Options) { o.Nodes, o.Log = 4, lines.add })
		limit := limitOf(t, "4/h burst 40")
		down(t, l, server, answer)
		if n := take(l, "new", limit, 50); n != 10 {
			t.Errorf("%.10s: %d of a share of 10", answer, n)
		}
		server.SetError("")
		began := time.Now()
		eventually(t, "recovery", 2*second, func() bool { return l.Stats().Up })
		t.Logf("%.10s: back after %v", answer, time.Since(began).Round(time.Millisecond))
		if !l.Take("another", limit, 1).Allowed {
			t.Errorf("%.10s: refused after the fault", answer)
		}
		got := lines.all()
		if len(got) != 3 || !strings.Contains(got[1], answer[:8]) || !strings.Contains(got[1], "1/4") || !strings.Contains(got[2], "again") {
			t.Errorf("%.10s: logged %q", answer, got)
		}
		if st := l.Stats(); st.Faults != 1 || st.Local == 0 || st.Panics > 0 {
			t.Errorf("%.10s: %+v", answer, st)
		}
	}
}

func TestFaultModes(t *testing.T) {
	limit := limitOf(t, "2/h burst 10")
	for mode, want := range map[cluster.Fault]int{cluster.FaultShare: 5, cluster.FaultOpen: 50, cluster.FaultClosed: 0} {
		l, server := clustered(t, func(o *cluster.Options) { o.OnRedisFault, o.Nodes = mode, 2 })
		down(t, l, server, "LOADING")
		if n := take(l, id, limit, 50); n != want {
			t.Errorf("mode %d: %d, want %d", mode, n, want)
		}
		if d := l.Take(id, limit, 1); !d.Allowed && d.RetryAfter <= 0 {
			t.Errorf("mode %d: %+v", mode, d)
		}
		if d := l.Take(id, limit, 11); d.Allowed {
			t.Errorf("mode %d: a cost above the burst: %+v", mode, d)
		}
		claims := []limiter.Claim{{Key: "a", Limit: limit, Cost: 2}, {Key: "b", Limit: limit, Cost: 5}}
		if d, _ := l.Decide(claims); d.Allowed != (want > 0) {
			t.Errorf("mode %d: %+v", mode, d)
		}
		if d, which := l.Decide(claims); d.Allowed != (want > 5) {
			t.Errorf("mode %d: %+v by %d", mode, d, which)
		}
		if mode == cluster.FaultShare {
			if d := l.Take("a", limit, 3); !d.Allowed {
				t.Errorf("a refusal took tokens: %+v", d)
			}
		}
	}
}

// A share below one token is one token in a longer time, and a cost above the
// share of the burst is still met.
func TestSharesOfLowRates(t *testing.T) {
	var s *sim
	shares := func(nodes int) *gateway {
		s = newSim(t, 1, 0, func(_ int, o *cluster.Options) { o.Nodes = nodes })
		down(t, s.gateways[0].Limiter, s.server, "LOADING")
		return s.gateways[0]
	}
	count := func(g *gateway, limit limiter.Limit, cost int64, span time.Duration) (n int) {
		for now := time.Duration(0); now < span; now += span / 1000 {
			s.now.Store(int64(now))
			if g.Take(id, limit, cost).Allowed {
				n++
			}
		}
		return n
	}
	if n := count(shares(5), limitOf(t, "3/s"), 1, 100*second); n < 59 || n > 61 {
		t.Errorf("%d of 60", n)
	}
	if n := count(shares(3), limitOf(t, "1/m"), 1, time.Hour); n < 20 || n > 21 {
		t.Errorf("%d of 20", n)
	}
	if n := count(shares(3), limitOf(t, "30/m burst 30"), 25, time.Hour); n < 23 || n > 26 {
		t.Errorf("%d of 24 at a cost of 25", n)
	}
	if n := count(shares(1000), limiter.Limit{Tokens: 1, Period: 1 << 62, Burst: 1}, 1, time.Hour); n != 1 {
		t.Errorf("%d of 1", n)
	}
}

// A fault does not come with a burst, nor does the end of one: what is known of
// the bucket goes to the share and back.
func TestFaultBringsNoBurst(t *testing.T) {
	s := newSim(t, 1, 0, func(_ int, o *cluster.Options) { o.Nodes = 2 })
	g, limit := s.gateways[0], limitOf(t, "60/h burst 100")
	allowed := take(g, id, limit, 300)
	for range 20 { // until it is drained
		s.settle()
		s.to(time.Duration(s.now.Load()) + 150*time.Millisecond)
		allowed += take(g, id, limit, 300)
	}
	if allowed != 100 {
		t.Fatalf("%d of 100", allowed)
	}
	for range 3 {
		down(t, g.Limiter, s.server, "LOADING")
		if n := take(g, id, limit, 10); n > 1 {
			t.Errorf("a fault brings %d tokens", n)
		}
		s.to(time.Duration(s.now.Load()) + 10*time.Minute) // 10 tokens refill, 5 in the share
		if n := take(g, id, limit, 50); n < 4 || n > 6 {
			t.Errorf("the share gives %d of 5", n)
		}
		s.server.SetError("")
		eventually(t, "recovery", 2*second, func() bool { return g.Stats().Up })
	}
	// All of a burst was charged for the share that was used up: what is left
	// is what refills from now on.
	n := take(g, id, limit, 200)
	for range 20 {
		s.settle()
		s.to(time.Duration(s.now.Load()) + 150*time.Millisecond)
		n += take(g, id, limit, 200)
	}
	if n > 20 {
		t.Errorf("the end of the fault brings %d tokens", n)
	}
}

// proxied is a gateway on the far side of a network.
func proxied(t *testing.T, target string, change func(*cluster.Options)) (*cluster.Limiter, *rig.Proxy) {
	t.Helper()
	p, err := rig.NewProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return started(t, "redis://"+p.Addr, cluster.Options{Nodes: 2}, change), p
}

// No request waits longer than the bound, whatever the network does, and a
// Redis that is only far away is not given up.
func TestSlowAndCutNetwork(t *testing.T) {
	server := miniredis.RunT(t)
	limit := limitOf(t, "100/s")
	for _, c := range []struct {
		name    string
		delay   time.Duration // each way
		out, in bool
		up      bool
	}{
		{"5 ms", 5 * time.Millisecond, false, false, true},
		{"50 ms", 50 * time.Millisecond, false, false, true},
		{"1 s", time.Second, false, false, false},
		{"nothing arrives", 0, true, false, false},
		{"no answer arrives", 0, false, true, false},
		{"cut", 0, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, p := proxied(t, server.Addr(), nil)
			p.Delay(c.delay)
			p.Cut(c.out, c.in)
			longest, allowed, asked := time.Duration(0), 0, 0
			for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				began := time.Now()
				if l.Take(c.name+fmt.Sprint(asked%50), limit, 1).Allowed {
					allowed++
				}
				asked++
				longest = max(longest, time.Since(began))
			}
			if longest > cluster.DefaultWait+100*time.Millisecond { // and what this machine adds
				t.Errorf("a request waited %v", longest)
			}
			if allowed < asked*9/10 {
				t.Errorf("%d of %d allowed", allowed, asked)
			}
			if st := l.Stats(); st.Up != c.up || !c.up && st.Faults == 0 {
				t.Errorf("%+v", st)
			}
			p.Delay(0)
			p.Cut(false, false)
			began := time.Now()
			eventually(t, "recovery", 2*second, func() bool { return l.Stats().Up })
			t.Logf("longest %v, back after %v", longest, time.Since(began).Round(time.Millisecond))
		})
	}
}

// While Redis is given up only the heartbeat asks it.
func TestCircuitStopsHammering(t *testing.T) {
	l, server := clustered(t, func(o *cluster.Options) { o.Nodes = 2 })
	limit := limitOf(t, "1000/s")
	keys := keysOf(100)
	down(t, l, server, "LOADING")
	before, renewals := server.CommandCount(), l.Stats().Renewals
	for end := time.Now().Add(second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, key := range keys {
			l.Take(key, limit, 1)
		}
	}
	if n := server.CommandCount() - before; n > 20 || l.Stats().Renewals != renewals {
		t.Errorf("%d commands in a second, %d renewals", n, l.Stats().Renewals-renewals)
	}
}

func TestDialErrorsShowNoPassword(t *testing.T) {
	for _, url := range []string{
		"", "localhost:6379", "http://user:secret@host", "redis://user:secret@", "redis://:secret@host:port", "redis://user:se cret@host/x/y",
		"redis://user:secret@host:6379/notanumber", "redis://user:secret%zz@host", "redis+sentinel://user:secret@host/0",
		"redis+other://user:secret@host", "redis://user:secret@host:6379?nosuch=1", "redis+cluster://user:secret@host:6379?nosuch=1",
		"redis://user:secret@host?master_name=m&read_timeout=x", "redis://user:sec/ret@host", "redis://user:sec#ret@host:1",
		"redis://user:12/sec@host:6379", "redis://user:12?sec@host:6379", "redis://user:12#sec@host:6379", "redis+cluster://user:12/sec@host:6379",
		"redis+cluster://user:12?sec@host:6379", "redis+sentinel://user:12/sec@host:6379?master_name=m",
	} {
		client, err := cluster.Dial(url)
		if err == nil {
			_ = client.Close()
			t.Errorf("%q is accepted", url)
			continue
		}
		if strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "ret@") || !strings.HasPrefix(err.Error(), "cluster: Redis URL: ") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestDial(t *testing.T) {
	for url, kind := range map[string]string{
		"redis://host": "*redis.Client", "rediss://user:p%40ss@host:6380/2": "*redis.Client", "unix:///run/redis.sock?db=1": "*redis.Client",
		"redis+cluster://host:7000": "*redis.ClusterClient", "rediss://host:7000?addr=host2:7000": "*redis.ClusterClient",
		"redis+sentinel://host/1?master_name=main&addr=host2:26379": "*redis.Client", "redis://:pass@host?master_name=main": "*redis.Client",
	} {
		client, err := cluster.Dial(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := fmt.Sprintf("%T", client); got != kind {
			t.Errorf("%s: a %s", url, got)
		}
		if c, ok := client.(*redis.Client); ok && c.Options().MaxRetries != 0 {
			t.Errorf("%s: %d retries", url, c.Options().MaxRetries)
		}
		_ = client.Close()
	}
}
