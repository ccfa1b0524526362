package cluster_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"tokenbucket.internal/limiter"
)

// The load: a limit of 1000/s over three gateways, five times that
// offered for 30 s.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for _, burst := range []int64{100, 10, 1} {
		for _, shape := range []struct {
			name    string
			offered []float64
		}{
			{"even", []float64{5000. / 3, 5000. / 3, 5000. / 3}},
			{"skewed", []float64{4500, 250, 250}},
			{"alone", []float64{5000, 0, 0}},
		} {
			for _, rtt := range []time.Duration{0, 2 * time.Millisecond} {
				t.Run(fmt.Sprintf("burst %d %s rtt %v", burst, shape.name, rtt), func(t *testing.T) {
					simulate(t, burst, shape.offered, nil, rtt, 1.05)
				})
			}
		}
	}
}

// Requests at random times, and a Redis that is far away. What chance makes of
// the light gateways' demand is seen in the span of a second: one deviation of
// their requests is 22, or 2 % of the limit.
func TestSimulationAtRandom(t *testing.T) {
	t.Parallel()
	for _, burst := range []int64{100, 10, 1} {
		for _, rtt := range []time.Duration{2 * time.Millisecond, 40 * time.Millisecond} {
			t.Run(fmt.Sprintf("burst %d rtt %v", burst, rtt), func(t *testing.T) {
				simulate(t, burst, []float64{4500, 250, 250}, rand.New(rand.NewSource(7)), rtt, 1.07)
			})
		}
	}
}

// All clients stand still for a while and then send what they missed: what lay
// unused meanwhile lapses, as most of it would in one bucket.
func TestSimulationWithPauses(t *testing.T) {
	t.Parallel()
	const pause = 100 * time.Millisecond
	for _, burst := range []int64{100, 10, 1} {
		for _, offered := range [][]float64{{5000. / 3, 5000. / 3, 5000. / 3}, {4500, 250, 250}} {
			t.Run(fmt.Sprintf("burst %d %.0f", burst, offered), func(t *testing.T) {
				s := newSim(t, len(offered), 2*time.Millisecond, nil)
				l := newLoad(limiter.Limit{Tokens: 1000, Period: time.Second, Burst: burst}, nil, offered...)
				for second := range 20 {
					begin := time.Duration(second) * time.Second
					s.run(l, begin+time.Second-pause)
					s.to(begin + time.Second)
					for i := range l.next { // those that were due arrive now, one after the other
						for ; l.next[i] < begin+time.Second; l.next[i] += time.Duration(1e9 / offered[i]) {
							s.ask(l, i, begin+time.Second)
						}
					}
				}
				part, peak := float64(len(l.at))/float64(l.passed), l.peak(time.Second)
				t.Logf("%.3f of what one bucket admits, most in 1 s %.3f, by gateway %v", part, peak, l.by)
				if part < 0.95 || peak > 1.07 || l.exceeds() {
					t.Errorf("%.3f of what one bucket admits, %.3f in 1 s, %.2f over", part, peak, l.over())
				}
			})
		}
	}
}

func simulate(t *testing.T, burst int64, offered []float64, random *rand.Rand, rtt time.Duration, peak float64) {
	const span = 30 * time.Second
	s := newSim(t, len(offered), rtt, nil)
	l := newLoad(limiter.Limit{Tokens: 1000, Period: time.Second, Burst: burst}, random, offered...)
	s.run(l, span)
	renewals := float64(s.renewals()) / span.Seconds()
	t.Logf("use %.2f %%, most in 1 s %.3f, by gateway %v, renewals %.2f/s", 100*l.use(span), l.peak(time.Second), l.by, renewals)
	if l.exceeds() {
		t.Errorf("%.2f requests more than burst + rate * time", l.over())
	}
	if use := l.use(span); use < 0.97 || use > 1 {
		t.Errorf("use %.4f", use)
	}
	if p := l.peak(time.Second); p > peak {
		t.Errorf("%.3f of burst + rate * 1 s in 1 s", p)
	}
	if renewals > 10 {
		t.Errorf("%.2f renewals a second", renewals)
	}
	for i, n := range l.by {
		if fair := len(l.at) / len(offered); offered[i] == offered[0] && offered[0] < 5000 && (2*n < fair || n > 2*fair) && i > 0 {
			t.Errorf("gateway %d got %d, its equal share is %d", i, n, fair)
		}
		if st := s.gateways[i].Stats(); st.Failed+st.Local+st.Faults > 0 {
			t.Errorf("gateway %d: %+v", i, st)
		}
	}
}

// Rates below one token for each gateway and renewal.
func TestSimulationOfLowRates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit    limiter.Limit
		gateways int
		offered  float64 // to each gateway, a second
		span     time.Duration
		use      float64
	}{
		{limiter.Limit{Tokens: 3, Period: time.Second, Burst: 3}, 5, 10, 5 * time.Minute, 0.97},
		{limiter.Limit{Tokens: 3, Period: time.Second, Burst: 1}, 5, 10, 5 * time.Minute, 0.95},
		{limiter.Limit{Tokens: 3, Period: time.Second, Burst: 3}, 5, 0.5, 5 * time.Minute, 0.8}, // 2.5/s in all
		{limiter.Limit{Tokens: 20, Period: time.Second, Burst: 2}, 5, 10, time.Minute, 0.95},
		{limiter.Limit{Tokens: 1, Period: time.Minute, Burst: 1}, 3, 10, 30 * time.Minute, 0.97},
		{limiter.Limit{Tokens: 1, Period: time.Minute, Burst: 5}, 3, 0.02, 60 * time.Minute, 0.9},
	} {
		t.Run(fmt.Sprintf("%v over %d at %v", c.limit, c.gateways, c.offered), func(t *testing.T) {
			s := newSim(t, c.gateways, 0, nil)
			offered := make([]float64, c.gateways)
			for i := range offered {
				offered[i] = c.offered
			}
			l := newLoad(c.limit, rand.New(rand.NewSource(3)), offered...)
			s.run(l, c.span)
			use := float64(len(l.at)) / float64(l.passed)
			t.Logf("%.3f of what one bucket admits, by gateway %v, renewals %.2f/s", use, l.by, float64(s.renewals())/c.span.Seconds())
			if l.exceeds() {
				t.Errorf("%.2f requests more than burst + rate * time", l.over())
			}
			if use < c.use {
				t.Errorf("%.3f of what one bucket admits", use)
			}
			if n := float64(s.renewals()) / c.span.Seconds(); n > 10 {
				t.Errorf("%.2f renewals a second", n)
			}
			for i, n := range l.by {
				if n == 0 {
					t.Errorf("gateway %d admitted nothing", i)
				}
			}
		})
	}
}

// Below the limit nearly everything is admitted: leases of gateways that do not
// need them are not missed elsewhere.
func TestSimulationBelowTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		burst   int64
		offered []float64
		refused float64 // beyond those that one bucket would refuse
	}{
		{100, []float64{100, 100, 100}, 0.001},
		{100, []float64{800, 50, 50}, 0.01},
		{100, []float64{300, 300, 300}, 0.01},
		{10, []float64{100, 100, 100}, 0.03},
		{1000, []float64{5, 3, 0.5}, 0.001},
		{100, []float64{900, 0, 0}, 0.005},
	} {
		t.Run(fmt.Sprintf("burst %d at %v", c.burst, c.offered), func(t *testing.T) {
			const span = 20 * time.Second
			s := newSim(t, 3, 0, nil)
			l := newLoad(limiter.Limit{Tokens: 1000, Period: time.Second, Burst: c.burst}, rand.New(rand.NewSource(5)), c.offered...)
			s.run(l, span)
			missed := 1 - float64(len(l.at))/float64(l.passed)
			renewals := float64(s.renewals()) / span.Seconds()
			t.Logf("%.3f %% fewer than one bucket admits, by gateway %v, renewals %.2f/s", 100*missed, l.by, renewals)
			if missed > c.refused {
				t.Errorf("%.3f %% fewer than one bucket admits", 100*missed)
			}
			if renewals > 10 || l.exceeds() {
				t.Errorf("%.2f renewals a second, %.2f over", renewals, l.over())
			}
		})
	}
}
