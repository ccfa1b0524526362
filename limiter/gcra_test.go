package limiter

import (
	"math"
	"math/big"
	"math/rand"
	"sync/atomic"
	"testing"
	"time"
)

const (
	tenYears     = 87_660 * time.Hour
	hundredYears = 876_600 * time.Hour
)

// anyLimit is valid or not, of any size.
func anyLimit(r *rand.Rand) Limit {
	size := func() int64 { return r.Int63() >> r.Intn(63) }
	return Limit{size(), time.Duration(size()), size()}
}

func sum(terms ...int64) *big.Int {
	s := new(big.Int)
	for _, t := range terms {
		s.Add(s, big.NewInt(t))
	}
	return s
}

func product(factors ...int64) *big.Int {
	p := big.NewInt(1)
	for _, f := range factors {
		p.Mul(p, big.NewInt(f))
	}
	return p
}

// TestUnitsFitTheWord checks what take relies on: no state of a bucket
// overflows, and its interval is never too short.
func TestUnitsFitTheWord(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 100_000 {
		l := anyLimit(r)
		c, err := compile(l)
		if sane := l.Tokens > 0 && l.Period > 0 && l.Burst > 0 && l.Tokens <= int64(l.Period); err != nil {
			if sane && l.Burst <= math.MaxInt32 {
				t.Fatalf("%+v: %v", l, err)
			}
			continue
		}
		span := tenYears
		if int64(l.Period)/l.Tokens >= int64(time.Minute) {
			span = hundredYears
		}
		// Units of an interval are (interval * tokens * grain) / (period * scale).
		units, exact := product(c.interval, l.Tokens, c.grain), product(int64(l.Period), c.scale)
		one := product(l.Tokens, c.grain)
		over := new(big.Int).Sub(units, exact) // by which the interval is too long, in one-th units
		switch {
		case c.grain == 1 && (over.Sign() < 0 || over.Cmp(one) >= 0),
			c.grain == 1 && over.Sign() != 0 && uint64(c.interval) < resolution(uint64(l.Period)/uint64(l.Tokens)):
			t.Fatalf("%+v: the interval is off by %v/%v units: %+v", l, over, one, c)
		case c.grain > 1 && (over.Cmp(one) < 0 || over.Cmp(new(big.Int).Lsh(one, 1)) > 0 || c.interval < 1e6):
			t.Fatalf("%+v: the interval is off by %v/%v coarse units: %+v", l, over, one, c)
		case c.grain < 1 || c.scale < 1 || c.grain > 1 && c.scale > 1,
			product(l.Burst, c.interval).Cmp(big.NewInt(c.capacity)) != 0,
			c.horizon < span,
			sum(c.units(math.MaxInt64), c.capacity, 1).Cmp(big.NewInt(retired)) > 0,
			c.units(math.MinInt64) < -c.units(math.MaxInt64)-1:
			t.Fatalf("%+v does not fit: %+v", l, c)
		}
		if further := int64(c.horizon) + 1; c.horizon < math.MaxInt64 &&
			sum(c.capacity, new(big.Int).Div(product(further, c.scale), big.NewInt(c.grain)).Int64(), 1).Cmp(big.NewInt(retired)) <= 0 {
			t.Fatalf("%+v: the horizon could be further: %+v", l, c)
		}
		if less := c.grain - 2; less > 0 && product(l.Burst, int64(l.Period)/l.Tokens/less+3).Cmp(big.NewInt(retired)) < 0 {
			t.Fatalf("%+v: finer grains fit: %+v", l, c)
		}
	}
}

// TestUnitsAtTheBorders pins the choice of units where it changes.
func TestUnitsAtTheBorders(t *testing.T) {
	const sevenMinutes = 7 * time.Minute
	// The largest burst for which a century and twice its time fit.
	twice := int64((math.MaxInt64 - 4 - 2*hundredYears) / (2*time.Minute + 1))
	for _, c := range []struct {
		limit Limit
		scale int64 // 0: coarse; -1: refused
	}{
		{Limit{1, math.MaxInt64 - 3 - hundredYears, 1}, 1},
		{Limit{1, math.MaxInt64 - 2 - hundredYears, 1}, 0},
		{Limit{1, 1, 1}, 1},
		{Limit{999_999_937, sec, 1}, 29},
		{Limit{7, sevenMinutes - 1, 1}, 7},
		{Limit{7, sevenMinutes + 1, 1}, 2},
		{Limit{7, sevenMinutes + 1, twice}, 2},
		{Limit{7, sevenMinutes + 1, twice + 2}, 1},
		{Limit{1e9, sec, 5e18}, -1},
		{Limit{2, 199_999, 5e13}, 1},
		{Limit{2, 199_997, 5e13}, -1},
		{Limit{1, math.MaxInt64, 3e9}, 0},
	} {
		scale := int64(-1)
		if r, err := compile(c.limit); err == nil && r.grain > 1 {
			scale = 0
		} else if err == nil {
			scale = r.scale
		}
		if scale != c.scale {
			t.Errorf("%+v: scale %d, want %d", c.limit, scale, c.scale)
		}
	}
	r, _ := compile(Limit{2, 199_999, 5e13})
	if r.interval != 100_000 {
		t.Errorf("the interval is %d units", r.interval)
	}
	var least *rate // with the largest burst there is
	for step := int64(1 << 50); step > 0; step /= 2 {
		burst := step
		if least != nil {
			burst += least.limit.Burst
		}
		if r, err := compile(Limit{1, math.MaxInt64, burst}); err == nil {
			least = r
		}
	}
	if least.interval != 1_000_000 || least.grain == 1 {
		t.Errorf("the coarsest interval is %d units: %+v", least.interval, least)
	}
}

func TestResolution(t *testing.T) {
	for interval, want := range map[uint64]uint64{1: 1, 99: 1, 100: 1_000, 9_999: 1_000, 10_000: 100_000, 1 << 60: 100_000} {
		if got := resolution(interval); got != want {
			t.Errorf("of %d: %d, want %d", interval, got, want)
		}
	}
}

func TestMulDiv(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	check := func(a, b, c uint64) {
		t.Helper()
		num, den := new(big.Int).SetUint64(a), new(big.Int).SetUint64(c)
		num.Mul(num, new(big.Int).SetUint64(b))
		down := new(big.Int).Div(num, den)
		up := new(big.Int).Div(num.Add(num, den).Sub(num, big.NewInt(1)), den)
		for _, c := range []struct {
			got  uint64
			want *big.Int
		}{{mulDiv(a, b, c), down}, {mulDivUp(a, b, c), up}} {
			if want := c.want; want.IsUint64() && want.Uint64() != c.got || !want.IsUint64() && c.got != math.MaxUint64 {
				t.Fatalf("%d * %d / %d: got %d, want %v", a, b, den, c.got, want)
			}
		}
	}
	for range 10_000 {
		check(r.Uint64()>>r.Intn(64), r.Uint64()>>r.Intn(64), r.Uint64()>>r.Intn(64)|1)
	}
	check(1<<63, 4, 2) // the quotient is 2^64
	check(math.MaxUint64, math.MaxUint64, math.MaxUint64)
	check(0, 1, 1)
}

// TestUnitsAndBack compares the conversions with exact arithmetic, on both
// sides of the horizon.
func TestUnitsAndBack(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 50_000 {
		c, err := compile(anyLimit(r))
		if err != nil {
			continue
		}
		now := time.Duration(r.Uint64()) >> r.Intn(64)
		for _, now := range []time.Duration{now, c.horizon, -c.horizon, c.horizon - 1, math.MaxInt64, math.MinInt64} {
			clock := min(max(now, -c.horizon), c.horizon)
			want := new(big.Int).Div(product(int64(clock), c.scale), big.NewInt(c.grain)) // Euclid: rounds down
			at := c.units(now)
			if !want.IsInt64() || at != want.Int64() {
				t.Fatalf("%+v: %d are %d units, want %v", c, now, at, want)
			}
			if d := c.until(at, now); d != 0 {
				t.Fatalf("%+v: %v until now, %d", c, d, now)
			}
			u := at + min(c.capacity, r.Int63()>>r.Intn(63))
			d := c.until(u, now)
			if d < math.MaxInt64-max(clock, 0) && (clock+d < c.horizon && c.units(clock+d) < u || d > 0 && c.units(clock+d-1) >= u) {
				t.Fatalf("%+v: %d units are not reached at %d + %d", c, u, now, d)
			}
		}
	}
	c := &rate{grain: 7, scale: 1, horizon: math.MaxInt64}
	const last = math.MaxInt64 / 7
	for u, want := range map[int64]time.Duration{last: 7 * last, last + 1: math.MaxInt64} {
		if d := c.until(u, 0); d != want {
			t.Errorf("%v until %d units of 7 ns, want %v", d, u, want)
		}
	}
	c = &rate{grain: 1, scale: 1, horizon: math.MaxInt64 - 1}
	if d := c.until(5, math.MinInt64); d != math.MaxInt64 {
		t.Errorf("%v until more than a duration holds", d)
	}
}

// TestConvert compares a change of limit with exact arithmetic.
func TestConvert(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	two := Limit{1, time.Hour, 1_950_000} // coarse, with the finest grain
	if c, _ := compile(two); c.grain != 2 {
		t.Fatalf("%+v", c)
	}
	seen := make(map[int64]int)
	for range 50_000 {
		from, err := compile(anyLimit(r))
		to, err2 := compile(anyLimit(r))
		if r.Intn(4) == 0 {
			to, err2 = compile(two)
		}
		if err != nil || err2 != nil {
			continue
		}
		now := time.Duration(r.Uint64()) >> r.Intn(64)
		tat := from.units(now) + r.Int63n(from.capacity)
		if r.Intn(4) == 0 {
			tat = retired - 1 - r.Int63()>>r.Intn(63)
		}
		held := sum(from.capacity, from.units(now))
		held.Sub(held, big.NewInt(max(tat, from.units(now))))
		held.Mul(held, big.NewInt(to.interval)).Div(held, big.NewInt(from.interval)) // rounds down, debts too
		if held.Cmp(big.NewInt(to.capacity)) > 0 {
			held.SetInt64(to.capacity)
		}
		if part := new(big.Int).Mod(held, big.NewInt(to.interval)); held.Sign() > 0 && to.grain > 1 && part.Sign() != 0 {
			held.Sub(held, big.NewInt(1))
			seen[min(to.grain, 3)]++
		}
		want := sum(to.units(now), to.capacity)
		if want.Sub(want, held); want.Cmp(big.NewInt(retired)) >= 0 {
			want.SetInt64(retired - 1)
			seen[0]++
		}
		if got := from.convert(tat, to, now); big.NewInt(got).Cmp(want) != 0 {
			t.Fatalf("%+v to %+v at %d: %d becomes %d, want %v", from, to, now, tat, got, want)
		}
	}
	if seen[0] < 100 || seen[2] < 100 || seen[3] < 100 {
		t.Errorf("too few cases: %v", seen)
	}
}

// TestWords is what the callers of the word's methods rely on.
func TestWords(t *testing.T) {
	r, _ := compile(Limit{1, sec, 10})
	var w atomic.Int64
	for _, cost := range []int64{-1, 0, 1, 5, 11} {
		w.Store(retired)
		if _, ok := r.takeWord(&w, 0, cost, true); ok || r.refundWord(&w, 0, cost) || r.chargeWord(&w, 0, cost) || w.Load() != retired {
			t.Errorf("cost %d: a retired word was used", cost)
		}
		for _, tat := range []int64{fresh, 0, int64(9 * sec), int64(10 * sec), int64(30 * sec)} {
			w.Store(tat)
			if _, ok := r.takeWord(&w, 0, cost, false); !ok || w.Load() != tat {
				t.Errorf("cost %d: looking at %d: %v, then %d", cost, tat, ok, w.Load())
			}
			if _, ok := r.takeWord(&w, 0, cost, true); !ok || !r.refundWord(&w, 0, cost) || !r.chargeWord(&w, 0, max(0, cost)) {
				t.Errorf("cost %d: the word at %d was not used", cost, tat)
			}
		}
	}
}

// A charge goes down to one burst of debt, and stays below retired.
func TestChargeAtTheEndOfTheWord(t *testing.T) {
	var w atomic.Int64
	charge := func(r *rate, tat int64, now time.Duration, cost int64) int64 {
		w.Store(tat)
		r.chargeWord(&w, now, cost)
		return w.Load()
	}
	r, _ := compile(Limit{1, sec, 10})
	if tat := charge(r, 0, 0, 99); tat != int64(20*sec) {
		t.Errorf("charged to %d", tat)
	}
	if tat := charge(r, int64(25*sec), 0, 1); tat != int64(25*sec) {
		t.Errorf("below the debt, charged to %d", tat)
	}
	r = &rate{limit: Limit{Burst: 4}, interval: 1 << 61, capacity: math.MaxInt64, scale: 1, grain: 1, horizon: math.MaxInt64}
	if tat := charge(r, retired-5, 1, 4); tat != retired-1 {
		t.Errorf("charged to %d before retired", retired-tat)
	}
	r, _ = compile(Limit{1e9, sec, 4e18})
	if tat := charge(r, 0, 0, 1); tat != 1 {
		t.Errorf("one token of a huge burst is charged as %d", tat)
	}
}
