package cluster_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"tokenbucket.internal/limiter"
)

// Loads of other shapes than a steady stream, three times what the limit allows
// or less, beside one bucket that all requests would have had to pass.

// Clients that send in batches, each gateway's at another time.
func TestBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ burst, every, n int }{{100, 200, 200}, {100, 150, 80}, {20, 100, 100}, {300, 200, 200}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			s := newSim(t, 3, 2*time.Millisecond, nil)
			l := newLoad(limiter.Limit{Tokens: 1000, Period: time.Second, Burst: int64(c.burst)}, nil, 1, 1, 1)
			for ms := range 20_000 {
				now := time.Duration(ms) * time.Millisecond
				s.to(now)
				for i := range 3 {
					if (ms+i*c.every/3)%c.every == 0 {
						for range c.n {
							s.ask(l, i, now)
						}
					}
				}
				s.settle()
			}
			part := float64(len(l.at)) / float64(l.passed)
			t.Logf("%.3f of one bucket's %d, most in 1 s %.3f, by gateway %v", part, l.passed, l.peak(time.Second), l.by)
			if part < 0.93 || l.exceeds() {
				t.Errorf("%.3f of one bucket's %d, %.2f over", part, l.passed, l.over())
			}
		})
	}
}

// Requests that cost several tokens find them together.
func TestCostsAboveTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ burst, cost int64 }{{100, 10}, {100, 40}, {100, 100}, {40, 20}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			s := newSim(t, 3, 2*time.Millisecond, nil)
			limit := limiter.Limit{Tokens: 1000, Period: time.Second, Burst: c.burst}
			one, random := limiter.NewBucket(limit), rand.New(rand.NewSource(4))
			passed, admitted := int64(0), int64(0)
			for at := 0.; at < 20; at += random.ExpFloat64() * float64(c.cost) / 2000 {
				now := time.Duration(at * 1e9)
				s.to(now)
				if one.TakeAt(now, c.cost).Allowed {
					passed += c.cost
				}
				if s.gateways[random.Intn(3)].Take(id, limit, c.cost).Allowed {
					admitted += c.cost
				}
				s.settle()
			}
			part := float64(admitted) / float64(passed)
			t.Logf("%.3f of what one bucket admits", part)
			if most := c.burst + 20_000; part < 0.93 || admitted > most {
				t.Errorf("%.3f of what one bucket admits, %d of %d", part, admitted, most)
			}
		})
	}
}

// A burst that does not come back is spent to the last token, at any pace.
func TestBurstOfASlowLimitIsSpentWhole(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 3 * time.Second} {
		for _, gateways := range []int{1, 3} {
			s := newSim(t, gateways, 0, nil)
			limit, admitted := limitOf(t, "1/d burst 8"), 0
			for n := range 100 {
				admitted += take(s.gateways[n%gateways], id, limit, 1)
				s.to(time.Duration(s.now.Load()) + pause)
			}
			if admitted != 8 {
				t.Errorf("%d gateways, every %v: %d of 8", gateways, pause, admitted)
			}
		}
	}
}

// What is given back can be spent, also by a gateway that was refused before.
func TestRefundOutlastsARefusal(t *testing.T) {
	s := newSim(t, 1, 0, nil)
	g, limit := s.gateways[0], limitOf(t, "1/d burst 100")
	if d := g.Take(id, limit, 100); !d.Allowed {
		t.Fatalf("%+v", d)
	}
	s.to(2 * second)
	if d := g.Take(id, limit, 1); d.Allowed {
		t.Errorf("%+v", d)
	}
	g.Refund(id, limit, 90)
	n := 0
	for range 200 {
		n += take(g, id, limit, 1)
		s.to(time.Duration(s.now.Load()) + 20*time.Millisecond)
	}
	if n != 90 {
		t.Errorf("%d of 90", n)
	}
}

// Refunds of a key that was forgotten come while the first is on its way.
func TestRefundsInFlight(t *testing.T) {
	s := newSim(t, 1, 10*time.Millisecond, nil)
	g, limit := s.gateways[0], limitOf(t, "1/d burst 100")
	for range 3 {
		g.Refund(id, limit, 5)
		s.settle()
		s.to(time.Duration(s.now.Load()) + 2*time.Millisecond)
	}
	for range 5 {
		s.to(time.Duration(s.now.Load()) + second)
	}
	if st := g.Stats(); st.Returned != 15 {
		t.Errorf("%+v", st)
	}
}

// A key that used its share is kept for some minutes, not for the day that its
// bucket takes to be full.
func TestKeysThatUsedTheirShareAreForgotten(t *testing.T) {
	t.Parallel()
	s := newSim(t, 1, 0, nil)
	g, limit := s.gateways[0], limitOf(t, "1/d burst 10")
	down(t, g.Limiter, s.server, "LOADING")
	for _, key := range keysOf(50) {
		g.Take(key, limit, 1)
	}
	s.server.SetError("")
	eventually(t, "recovery", 3*second, func() bool { return g.Stats().Up })
	keys := g.Len()
	for range 12 { // it takes the sweeper some looks
		time.Sleep(600 * time.Millisecond)
		s.to(time.Duration(s.now.Load()) + 5*time.Minute)
	}
	if n := g.Len(); keys < 50 || n > 0 {
		t.Errorf("%d of %d keys after an hour", n, keys)
	}
}
