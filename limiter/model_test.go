package limiter

import (
	"math"
	"math/big"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"
)

// model is the limiter of the textbook, in rational numbers: a bucket's state
// is the time at which it is full, in nanoseconds. No rounding, no overflow.
type model struct {
	limit Limit
	full  *big.Rat // nil: a new bucket
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// span is the time that n tokens take.
func (l Limit) span(n int64) *big.Rat {
	return new(big.Rat).Mul(rat(n), big.NewRat(int64(l.Period), l.Tokens))
}

func (m *model) base(now time.Duration) *big.Rat {
	if m.full == nil || m.full.Cmp(rat(int64(now))) < 0 {
		return rat(int64(now))
	}
	return m.full
}

// tokens is what the bucket holds, which is below 0 after the clock went back.
func (m *model) tokens(now time.Duration) *big.Rat {
	debt := new(big.Rat).Sub(m.base(now), rat(int64(now)))
	debt.Quo(debt, m.limit.span(1))
	return debt.Sub(rat(m.limit.Burst), debt)
}

func (m *model) change(l Limit, now time.Duration) {
	held := m.tokens(now)
	if held.Cmp(rat(l.Burst)) > 0 {
		held = rat(l.Burst)
	}
	m.limit = l
	missing := new(big.Rat).Sub(rat(l.Burst), held)
	m.full = new(big.Rat).Add(rat(int64(now)), missing.Mul(missing, l.span(1)))
}

func floor(r *big.Rat) int64 {
	f := new(big.Int).Div(r.Num(), r.Denom()) // Euclid: the denominator is positive
	switch {
	case f.IsInt64():
		return f.Int64()
	case f.Sign() < 0:
		return -math.MaxInt64
	}
	return math.MaxInt64
}

func ceil(r *big.Rat) time.Duration { return time.Duration(-floor(new(big.Rat).Neg(r))) }

func (m *model) take(now time.Duration, cost int64) Decision {
	d := Decision{Allowed: cost <= 0 || m.tokens(now).Cmp(rat(cost)) >= 0}
	if cost < 0 || cost > m.limit.Burst {
		d = Decision{RetryAfter: -1}
	} else if d.Allowed && cost > 0 {
		m.full = new(big.Rat).Add(m.base(now), m.limit.span(cost))
	}
	if !d.Allowed && d.RetryAfter == 0 {
		missing := new(big.Rat).Sub(rat(cost), m.tokens(now))
		d.RetryAfter = ceil(missing.Mul(missing, m.limit.span(1)))
	}
	d.Remaining = max(0, floor(m.tokens(now)))
	d.ResetAfter = ceil(new(big.Rat).Sub(m.base(now), rat(int64(now))))
	return d
}

func (m *model) refund(now time.Duration, cost int64) {
	if m.full == nil || cost <= 0 || m.full.Cmp(rat(int64(now))) <= 0 {
		return
	}
	m.full = new(big.Rat).Sub(m.full, m.limit.span(min(cost, m.limit.Burst)))
	if m.full.Cmp(rat(int64(now))) < 0 {
		m.full = rat(int64(now))
	}
}

// charge goes down to one burst of debt.
func (m *model) charge(now time.Duration, cost int64) {
	if cost <= 0 {
		return
	}
	if m.full == nil {
		cost = min(cost, m.limit.Burst)
	}
	lowest := new(big.Rat).Add(rat(int64(now)), m.limit.span(2*m.limit.Burst))
	base := m.base(now)
	m.full = new(big.Rat).Add(base, m.limit.span(cost))
	if m.full.Cmp(lowest) > 0 {
		m.full = lowest
	}
	if m.full.Cmp(base) < 0 {
		m.full = base
	}
}

// randomLimit picks from the whole range, crowded at its ends.
func randomLimit(r *rand.Rand) Limit {
	for {
		l := Limit{Tokens: 1 + r.Int63n(1<<uint(r.Intn(31))), Burst: 1 + r.Int63n(1<<uint(r.Intn(32)))}
		l.Period = []time.Duration{time.Millisecond, sec, time.Minute, time.Hour, 24 * time.Hour, year, 97 * sec, 1}[r.Intn(8)]
		l.Burst = min(l.Burst, math.MaxInt32)
		if l.Validate() == nil {
			return l
		}
	}
}

// exactLimit has an interval that is a whole number of units.
func exactLimit(r *rand.Rand) Limit {
	for {
		l := randomLimit(r)
		if c, _ := compile(l); c.grain == 1 && c.capacity < math.MaxInt64/8 && new(big.Rat).Mul(l.span(1), rat(c.scale)).IsInt() {
			return l
		}
	}
}

func randomTime(r *rand.Rand, l Limit) time.Duration {
	span := 10 * year
	if l.Period/time.Duration(l.Tokens) >= time.Minute {
		span = 50 * year
	}
	return time.Duration(r.Int63n(int64(span)>>uint(r.Intn(60)) + 1))
}

// TestRandomSchedules plays random requests, refunds, changes of limit and
// jumps of the clock against the model: with exact limits every field of every
// decision is the same.
func TestRandomSchedules(t *testing.T) {
	seeds := int64(300)
	if testing.Short() {
		seeds /= 3
	}
	for seed := range seeds {
		r := rand.New(rand.NewSource(seed))
		l := New(WithShards(1))
		limit := exactLimit(r)
		m := &model{limit: limit}
		now := randomTime(r, limit) % (5 * year) // all limits keep 10 years
		for i := range 300 {
			switch r.Intn(20) {
			case 0:
				now -= time.Duration(r.Int63n(int64(time.Hour)))
			case 1:
				now += time.Duration(r.Int63n(int64(time.Hour)))
			case 2:
				cost := r.Int63n(limit.Burst+2) - 1
				l.RefundAt(now, "key", cost)
				m.refund(now, cost)
			case 4:
				cost := r.Int63n(min(3*limit.Burst, 1<<20)) - 1
				l.ChargeAt(now, "key", limit, cost)
				m.charge(now, cost)
				if got, want := l.PeekAt(now, "key", limit), m.take(now, 0); !same(got, want, limit, now) {
					t.Fatalf("seed %d step %d: %v charged %d at %v: got %+v, want %+v", seed, i, limit, cost, now, got, want)
				}
			case 3:
				changed := exactLimit(r)
				if m.full == nil { // not known yet
					m.limit = changed
				} else {
					m.change(changed, now)
				}
				want := m.take(now, 1)
				got := l.TakeAt(now, "key", changed, 1)
				if !same(got, want, changed, now) {
					t.Fatalf("seed %d step %d: %v to %v at %v: got %+v, want %+v", seed, i, limit, changed, now, got, want)
				}
				limit, m.full = changed, exactState(l, "key")
			default:
				now = min(now+time.Duration(r.Int63n(int64(limit.Period)/limit.Tokens+2)), 9*year)
				cost := r.Int63n(min(limit.Burst, 5)+3) - 1
				if got, want := l.TakeAt(now, "key", limit, cost), m.take(now, cost); !same(got, want, limit, now) {
					t.Fatalf("seed %d step %d: %v cost %d at %v: got %+v, want %+v", seed, i, limit, cost, now, got, want)
				}
			}
		}
	}
}

// same compares decisions. A change of limit rounds down to the new units and
// may lose a part of a nanosecond, so that waits are 1 ns longer; waits beyond
// the horizon of the limit's word are all alike.
func same(got, want Decision, l Limit, now time.Duration) bool {
	c, _ := compile(l)
	near := func(a, b time.Duration) bool {
		return a == b || a == b+1 || min(a, b) >= c.horizon-now
	}
	return got.Allowed == want.Allowed && got.Remaining == want.Remaining &&
		near(got.RetryAfter, want.RetryAfter) && near(got.ResetAfter, want.ResetAfter)
}

// exactState reads a bucket back into the model's terms.
func exactState(l *Limiter, key string) *big.Rat {
	k, s := l.locate(key)
	e := s.slab.Load().find(k)
	return big.NewRat(e.tat.Load(), l.rates.at(e.rate.Load()).scale)
}

type taken struct {
	now  time.Duration
	cost int64
}

// checkBound proves invariant 1 for every span that begins and ends with an
// admission, which are the tightest ones.
func checkBound(t *testing.T, l Limit, admitted []taken) {
	t.Helper()
	slices.SortFunc(admitted, func(a, b taken) int { return int(a.now - b.now) })
	// Over [a, b] at most burst + (b-a)/interval: so the lowest sum before a,
	// each measured against its time, bounds the sum at every later b.
	interval := l.span(1)
	behind := func(sum int64, at time.Duration) *big.Rat {
		due := new(big.Rat).Quo(rat(int64(at)), interval)
		return due.Sub(rat(sum), due)
	}
	sum := int64(0)
	var lowest *big.Rat
	for _, a := range admitted {
		if before := behind(sum, a.now); lowest == nil || before.Cmp(lowest) < 0 {
			lowest = before
		}
		sum += a.cost
		if over := new(big.Rat).Sub(behind(sum, a.now), lowest); over.Cmp(rat(l.Burst)) > 0 {
			t.Fatalf("%v: %s tokens above the rate by %v, the burst is %d", l, over.FloatString(6), a.now, l.Burst)
		}
	}
}

// TestBoundHoldsUnderConcurrency is invariant 1 with any limit, goroutines
// whose clocks disagree and jump, mixed costs and refused ones.
func TestBoundHoldsUnderConcurrency(t *testing.T) {
	for seed := range int64(40) {
		r := rand.New(rand.NewSource(seed))
		limit := randomLimit(r)
		l := New(WithShards(1))
		start := randomTime(r, limit)
		var mu sync.Mutex
		var all []taken
		var wg sync.WaitGroup
		for g := range int64(4) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				r := rand.New(rand.NewSource(seed*100 + g))
				now := start
				var mine []taken
				for range 500 {
					now += time.Duration(r.Int63n(int64(limit.Period)/limit.Tokens + 2))
					at := now - time.Duration(r.Int63n(1000))
					cost := 1 + r.Int63n(min(limit.Burst, 10))
					if r.Intn(50) == 0 {
						cost = limit.Burst
					}
					if l.TakeAt(at, "key", limit, cost).Allowed {
						mine = append(mine, taken{at, cost})
					}
				}
				mu.Lock()
				all = append(all, mine...)
				mu.Unlock()
			}()
		}
		wg.Wait()
		if len(all) == 0 {
			t.Fatalf("seed %d: nothing was admitted", seed)
		}
		checkBound(t, limit, all)
	}
}

// TestCoarseUnitsKeepTheBound is invariant 1 where the clock is rounded: asked
// at each end of a unit, no token comes early.
func TestCoarseUnitsKeepTheBound(t *testing.T) {
	limit := Limit{Tokens: 1, Period: year, Burst: math.MaxInt32}
	c, _ := compile(limit)
	if c.grain == 1 {
		t.Fatal("not a coarse limit")
	}
	for _, offset := range []time.Duration{0, 1, time.Duration(c.grain) - 1} {
		b := NewBucket(limit)
		if d := b.TakeAt(offset, limit.Burst); !d.Allowed || d.Remaining != 0 {
			t.Fatalf("the first burst: %+v", d)
		}
		admitted := []taken{{offset, limit.Burst}}
		for y := range time.Duration(50) {
			for early := time.Duration(c.grain) * 3; early >= 0; early -= time.Duration(c.grain) / 5 {
				if now := offset + (y+1)*year - early; b.AllowAt(now) {
					admitted = append(admitted, taken{now, 1})
				}
			}
		}
		if len(admitted) < 40 {
			t.Fatalf("only %d admitted in 50 years", len(admitted)-1)
		}
		checkBound(t, limit, admitted)
	}
}
