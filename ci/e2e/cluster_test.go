package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

// A fleet is some gateways that share their limits through one Redis.
type fleet struct {
	t       *testing.T
	redis   *rig.Redis
	api     string
	clients []*client
}

func newFleet(t *testing.T, gateways int, api string, env ...string) *fleet {
	t.Helper()
	redis, err := theRig.StartRedis(context.Background())
	if errors.Is(err, rig.ErrNoRedis) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	f := &fleet{t: t, redis: redis, api: api}
	for range gateways {
		f.join(env...)
	}
	return f
}

// join starts one more gateway.
func (f *fleet) join(env ...string) *client {
	f.t.Helper()
	g := own(f.t, rig.Options{
		APIs: []rig.API{{ID: f.api, RateLimit: rig.Object{"status_path": "/rate-limit"}}},
		Env:  append([]string{"TYK_RATELIMIT_CLUSTER=redis", "TYK_RATELIMIT_REDIS_URL=" + f.redis.URL}, env...),
	})
	c := clientOf(f.t, g, f.api)
	f.clients = append(f.clients, c)
	return c
}

// key makes the same key on every gateway.
func (f *fleet) key(id, limit string) string {
	f.t.Helper()
	for _, c := range f.clients {
		if err := c.g.CreateKeyAs(context.Background(), id, rig.Key{APIs: []string{f.api}, Metadata: limits(limit)}); err != nil {
			f.t.Fatal(err)
		}
	}
	return id
}

// load sends a steady stream to each gateway, so many a second, and returns what
// each answered.
func (f *fleet) load(key string, length time.Duration, each ...int) []replies {
	out := make([]replies, len(each))
	var all sync.WaitGroup
	for i, n := range each {
		all.Add(1)
		go func() {
			defer all.Done()
			out[i] = f.clients[i].steady(key, time.Second/time.Duration(n), length)
		}()
	}
	all.Wait()
	return out
}

func joined(all []replies) (rs replies) {
	for _, part := range all {
		rs = append(rs, part...)
	}
	return rs
}

// within wants the share of burst + rate * time that was admitted to be least or
// more, and no more than is guaranteed over a span that begins at any time: a
// burst besides, for what was leased before it, and for requests that Redis did
// not answer in time. The exact figures are those of ci/cluster, whose clock no
// busy machine disturbs.
func (rs replies) within(t *testing.T, rate float64, burst int, least float64) {
	t.Helper()
	shortest, longest, _ := rs.spans(rate)
	most := float64(2*burst) + rate*longest.Seconds()
	atLeast := least * (float64(burst) + rate*shortest.Seconds())
	if got := float64(rs.admitted()); got > most || got < atLeast {
		t.Errorf("%v of %d admitted in %v, want %.0f to %.0f", got, len(rs), longest.Round(time.Millisecond), atLeast, most)
	}
}

func TestOneLimitOverThreeGateways(t *testing.T) {
	f := newFleet(t, 3, "cluster")
	for name, c := range map[string]struct {
		limit string
		rate  float64
		burst int
		each  []int
	}{
		"even":        {"100/s burst 20", 100, 20, []int{100, 100, 100}},
		"skewed":      {"100/s burst 20", 100, 20, []int{200, 20, 20}},
		"small burst": {"50/s burst 5", 50, 5, []int{60, 60, 60}},
		"slow":        {"3/s burst 3", 3, 3, []int{10, 10, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			key := f.key("cluster-key-"+name, c.limit)
			before, err := f.redis.Commands()
			if err != nil {
				t.Fatal(err)
			}
			all := f.load(key, 4*time.Second, c.each...)
			rs := joined(all)
			rs.within(t, c.rate, c.burst, 0.8)
			after, err := f.redis.Commands()
			if err != nil {
				t.Fatal(err)
			}
			// Ten renewals a second for each gateway, each a script of few commands.
			if n := after - before; n > 3*4*10*8 {
				t.Errorf("%d commands in Redis", n)
			}
			for i, part := range all {
				if part.admitted() == 0 {
					t.Errorf("gateway %d refused everything", i)
				}
			}
		})
	}
}

func TestGatewaysJoinAndLeave(t *testing.T) {
	f := newFleet(t, 1, "cluster-join")
	key := f.key("cluster-join-key", "60/s burst 10")
	joined(f.load(key, 2*time.Second, 120)).within(t, 60, 10, 0.8)
	f.join()
	f.key(key, "60/s burst 10")
	f.load(key, time.Second, 60, 60) // the new one decides by itself until Redis has answered
	joined(f.load(key, 2*time.Second, 60, 60)).within(t, 60, 10, 0.7)
	f.clients[0].g.Close()
	f.clients = f.clients[1:]
	joined(f.load(key, 3*time.Second, 120)).within(t, 60, 10, 0.7)
}

func TestLimitOfAFleetIsChangedInMidFlight(t *testing.T) {
	f := newFleet(t, 2, "cluster-change")
	key := f.key("cluster-change-key", "20/s burst 5")
	joined(f.load(key, 2*time.Second, 60, 60)).within(t, 20, 5, 0.8)
	for _, c := range f.clients {
		c.update(key, limits("100/s burst 5"))
	}
	for _, c := range f.clients {
		until(t, learnLimit, func() error {
			if r := c.get(key); r.Header.Get("RateLimit-Policy") != `"default";q=100;w=1` {
				return fmt.Errorf("the raised limit is not in force: %v", r)
			}
			return nil
		})
	}
	f.load(key, time.Second, 80, 80) // the shared bucket learns with a renewal
	joined(f.load(key, 3*time.Second, 80, 80)).within(t, 100, 5, 0.8)
}

// A gateway that did not serve a key tells what the others have left of it.
func TestStatusOnAnotherGateway(t *testing.T) {
	f := newFleet(t, 2, "cluster-status")
	key := f.key("cluster-status-key", "1/h burst 20")
	if n := f.load(key, 2*time.Second, 40)[0].admitted(); n != 20 {
		t.Fatalf("%d admitted of 20", n)
	}
	r := f.clients[1].send(rig.Request{Path: "rate-limit", Key: key})
	if r.Status != http.StatusOK || !strings.Contains(r.Body, `"remaining": 0`) {
		t.Errorf("%v", r)
	}
}

// Without a URL it is the gateways' own Redis, which on real ones holds the keys.
func TestGatewaysShareThroughTheirOwnRedis(t *testing.T) {
	f := newFleet(t, 0, "cluster-own")
	for range 2 {
		g := own(t, rig.Options{
			APIs: []rig.API{{ID: f.api}}, Env: []string{"TYK_RATELIMIT_CLUSTER=redis"}, Conf: rig.Object{"storage": f.redis.Storage()},
		})
		f.clients = append(f.clients, clientOf(t, g, f.api))
	}
	f.load(f.key("cluster-own-key", "1/h burst 40"), time.Second, 5, 5) // until both are connected
	other := f.key("cluster-own-other", "1/h burst 30")
	if n := joined(f.load(other, 2*time.Second, 50, 50)).admitted(); n < 24 || n > 30 {
		t.Errorf("%d admitted, want 30", n)
	}
}

// Without Redis each gateway enforces its share: never nothing, never all.
func TestRedisDiesUnderLoad(t *testing.T) {
	const gateways, rate, burst = 3, 90, 15
	f := newFleet(t, gateways, "cluster-fault")
	key := f.key("cluster-fault-key", fmt.Sprintf("%d/s burst %d", rate, burst))
	even := func(length time.Duration) replies { return joined(f.load(key, length, 60, 60, 60)) }
	even(2*time.Second).within(t, rate, burst, 0.8)
	for name, fault := range map[string][2]func(){
		"killed": {f.redis.Kill, func() {
			if err := f.redis.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
		}},
		"cut": {func() { f.redis.Lose(true) }, func() { f.redis.Lose(false) }},
	} {
		fault[0]()
		down := even(4 * time.Second)
		_, longest, _ := down.spans(rate)
		most := float64(2*gateways*burst) + rate*longest.Seconds() // a burst each, and what was leased
		if n := float64(down.admitted()); n > most || n < 0.5*rate*3 {
			t.Errorf("%s: %v admitted in %v, want %v to %.0f", name, n, longest, 0.5*rate*3, most)
		}
		for _, r := range down {
			if r.Received.Sub(r.Sent) > 2*time.Second {
				t.Errorf("%s: a request waited %v", name, r.Received.Sub(r.Sent))
				break
			}
		}
		fault[1]()
		even(3 * time.Second) // recovers in two
		even(3*time.Second).within(t, rate, burst, 0.7)
		for i, c := range f.clients {
			if lines := c.g.Log.Lines("cluster"); len(lines) == 0 || len(lines) > 12 {
				t.Errorf("%s: gateway %d: %d lines in the log: %q", name, i, len(lines), lines)
			}
		}
	}
}
