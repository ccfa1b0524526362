package limiter

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// The algorithm is the generic cell rate algorithm (ITU-T I.371, annex A) in
// its virtual scheduling form: the state of a bucket is one number, its
// theoretical arrival time, the time at which it will be full again. Taking a
// token moves that time one interval further from now; a take that would move
// it more than burst intervals ahead is refused and writes nothing.
//
// The word counts time in units chosen for each limit, since no single unit
// serves both 1e9 tokens a second and a token a year:
//
//   - fine: 1/scale of a nanosecond. The clock converts exactly; the interval
//     is rounded up, so a bucket can only ever refill too slowly, and by the
//     choice of scale by no more than one part in 1e5.
//   - coarse: grain nanoseconds, for buckets that take centuries to fill. The
//     clock is rounded down and the interval made one whole unit longer than
//     its rounding up. Over a span D the rounded clock advances less than one
//     unit more than D does, so the n-th token past the burst is admitted no
//     earlier than n*interval-1 units after the burst began, which is at least
//     n times the true interval: the bound holds in this regime too.
type rate struct {
	limit    Limit
	interval int64         // units for one token
	capacity int64         // units for the whole burst
	scale    int64         // fine: units in a nanosecond; coarse: 1
	grain    int64         // coarse: nanoseconds in a unit; fine: 1
	horizon  time.Duration // |now| beyond this is taken as this: no refill any more
	index    uint32        // where rates keeps it
	refs     int           // entries that name it; guarded by rates.mu
}

const (
	// fresh is a bucket that was never taken from: full at any time.
	fresh = math.MinInt64
	// retired marks a word that nobody may use any more; see table.go.
	retired = math.MaxInt64

	year = 365*24*time.Hour + 6*time.Hour
)

// compile chooses the units of a limit.
func compile(l Limit) (*rate, error) {
	switch {
	case l.Tokens <= 0:
		return nil, fmt.Errorf("limiter: %d tokens: a limit needs at least 1 token per period", l.Tokens)
	case l.Period <= 0:
		return nil, fmt.Errorf("limiter: period %v: must be above 0", l.Period)
	case l.Burst < 1:
		return nil, fmt.Errorf("limiter: burst %d: must be at least 1, or nothing could ever be admitted", l.Burst)
	case l.Tokens > int64(l.Period):
		return nil, fmt.Errorf("limiter: %d tokens in %v is above 1e9 a second, one for each nanosecond of the clock", l.Tokens, l.Period)
	}
	horizon := 10 * year
	if int64(l.Period)/l.Tokens >= int64(time.Minute) {
		horizon = 100 * year
	}
	r := &rate{limit: l, scale: 1, grain: 1}
	if !r.fine(horizon) && !r.coarse() {
		return nil, fmt.Errorf("limiter: burst %d is more than a 64-bit word can count at %d tokens in %v; lower the burst", l.Burst, l.Tokens, l.Period)
	}
	r.capacity = l.Burst * r.interval
	room := retired - 1 - r.capacity // no word of a live bucket ever equals retired
	r.horizon = time.Duration(min(mulDiv(uint64(room), uint64(r.grain), uint64(r.scale)), math.MaxInt64))
	return r, nil
}

// fine picks the largest scale for which the horizon and a full burst fit in
// the word, or the one that makes the interval exact.
func (r *rate) fine(horizon time.Duration) bool {
	tokens, period, burst := uint64(r.limit.Tokens), uint64(r.limit.Period), uint64(r.limit.Burst)
	burstTime := mulDiv(burst, period, tokens)
	if burstTime > math.MaxInt64-uint64(horizon) {
		return false
	}
	// The rounding up of the interval adds at most one unit for each token of
	// the burst.
	scale := (math.MaxInt64 - 1 - burst) / (burstTime + 1 + uint64(horizon))
	if scale == 0 {
		return false
	}
	exact := tokens / gcd(tokens, period)
	scale = min(scale, exact)
	interval := mulDivUp(period, scale, tokens)
	if exact != scale && interval < resolution(period/tokens) {
		return false
	}
	r.scale, r.interval = int64(scale), int64(interval)
	return true
}

// coarse picks a grain for which they fit.
func (r *rate) coarse() bool {
	tokens, period, burst := uint64(r.limit.Tokens), uint64(r.limit.Period), uint64(r.limit.Burst)
	const least = 1_000_000 // units in an interval: a bucket loses at most one part in so many, and as much again
	if burst > math.MaxInt64/least {
		return false
	}
	// The interval is up to two units longer than without rounding. One grain
	// more leaves room for any horizon.
	grain := mulDivUp(burst, period/tokens, math.MaxInt64-1-2*burst) + 1
	interval := period/tokens/grain + 2
	if interval < least {
		return false
	}
	r.grain, r.interval = int64(grain), int64(interval)
	return true
}

// resolution is the least number of units in an interval of so many
// nanoseconds: a bucket loses at most one part in so many to rounding.
func resolution(interval uint64) uint64 {
	switch {
	case interval >= 10_000: // up to 1e5 tokens a second
		return 100_000
	case interval >= 100: // up to 1e7
		return 1_000
	}
	return 1
}

// units converts a clock reading, rounding down.
func (r *rate) units(now time.Duration) int64 {
	if r.grain == 1 && now <= r.horizon && now >= -r.horizon {
		return int64(now) * r.scale // small enough to be inlined
	}
	return r.unusual(now)
}

// unusual is units for coarse limits and beyond the horizon.
func (r *rate) unusual(now time.Duration) int64 {
	now = min(max(now, -r.horizon), r.horizon)
	if r.grain == 1 {
		return int64(now) * r.scale
	}
	u := int64(now) / r.grain
	if u*r.grain > int64(now) {
		u--
	}
	return u
}

// until is the time from now to the first nanosecond at which units reaches
// u, at most the 292 years that a Duration holds.
func (r *rate) until(u int64, now time.Duration) time.Duration {
	now = min(max(now, -r.horizon), r.horizon)
	var at int64
	switch {
	case r.grain == 1:
		at = u / r.scale
		if at*r.scale < u {
			at++
		}
	case u > math.MaxInt64/r.grain:
		return math.MaxInt64
	case u < math.MinInt64/r.grain:
		return 0
	default:
		at = u * r.grain
	}
	if at <= int64(now) {
		return 0
	}
	return time.Duration(min(uint64(at-int64(now)), math.MaxInt64))
}

// take is the verdict: the state after taking need units at now, or false. It
// is a pure function; need is between 0 and capacity.
func (r *rate) take(tat, now, need int64) (int64, bool) {
	base := max(tat, now)
	// The difference of any two states is below 2^64, so it is right as an
	// unsigned number even where it overflows a signed one.
	if uint64(base-now) > uint64(r.capacity-need) {
		return tat, false
	}
	return base + need, true
}

// describe is what the bucket holds in the state tat at now.
func (r *rate) describe(tat int64, now time.Duration) Decision {
	at := r.units(now)
	base := max(tat, at)
	used := min(uint64(base-at), uint64(r.capacity))
	return Decision{Remaining: (r.capacity - int64(used)) / r.interval, ResetAfter: r.until(base, now)}
}

// takeWord takes cost tokens from the bucket in w. It writes only when the
// take is allowed and cost is above 0, and only if write is set. False means
// that the word is retired.
func (r *rate) takeWord(w *atomic.Int64, now time.Duration, cost int64, write bool) (d Decision, ok bool) {
	at := r.units(now)
	for {
		tat := w.Load()
		if tat == retired {
			return d, false
		}
		if cost < 0 || cost > r.limit.Burst {
			d = r.describe(tat, now)
			d.RetryAfter = -1
			return d, true
		}
		need := cost * r.interval
		next, allowed := r.take(tat, at, need)
		switch {
		case cost == 0:
			d = r.describe(tat, now)
		case !allowed:
			d = r.describe(tat, now)
			d.RetryAfter = r.until(max(tat, at)-(r.capacity-need), now)
			return d, true
		case write && !w.CompareAndSwap(tat, next):
			continue
		default:
			d = r.describe(next, now)
		}
		d.Allowed = true
		return d, true
	}
}

// refundWord gives cost tokens back, at most until the bucket is full. False
// means that the word is retired.
func (r *rate) refundWord(w *atomic.Int64, now time.Duration, cost int64) bool {
	at := r.units(now)
	give := min(cost, r.limit.Burst) * r.interval
	for {
		tat := w.Load()
		if tat == retired {
			return false
		}
		if cost <= 0 || tat <= at {
			return true
		}
		if w.CompareAndSwap(tat, max(tat-give, at)) {
			return true
		}
	}
}

// chargeWord takes cost tokens that the bucket need not hold, down to one burst
// of debt. False means that the word is retired.
func (r *rate) chargeWord(w *atomic.Int64, now time.Duration, cost int64) bool {
	at := r.units(now)
	need := uint64(min(cost, 2*r.limit.Burst)) * uint64(r.interval)
	for {
		tat := w.Load()
		if tat == retired {
			return false
		}
		base := max(tat, at)
		lowest := 2 * uint64(r.capacity)
		room := min(lowest-min(uint64(base-at), lowest), uint64(retired-1-base))
		if w.CompareAndSwap(tat, base+int64(min(need, room))) {
			return true
		}
	}
}

// full reports whether the bucket is full at now: it is then like a new one.
func (r *rate) full(tat int64, now time.Duration) bool { return tat <= r.units(now) }

// convert carries the tokens of a bucket over to another limit, fractions
// included and rounded down, at most the new burst.
func (r *rate) convert(tat int64, to *rate, now time.Duration) int64 {
	at := r.units(now)
	used := uint64(max(tat, at) - at)
	base := to.units(now) + to.capacity
	if used > uint64(r.capacity) { // in debt: by Charge, or the clock went backwards
		debt := mulDivUp(used-uint64(r.capacity), uint64(to.interval), uint64(r.interval))
		return base + int64(min(debt, uint64(retired-1-base)))
	}
	held := mulDiv(uint64(r.capacity)-used, uint64(to.interval), uint64(r.interval))
	held = min(held, uint64(to.capacity))
	// A part of a token must not be rounded up by the coarse clock's next step.
	if to.grain > 1 && held%uint64(to.interval) != 0 {
		held--
	}
	return base - int64(held)
}

// mulDiv is a*b/c, rounded down, or the largest number if that is larger.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}

// mulDivUp is mulDiv, rounded up.
func mulDivUp(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, c-1, 0)
	hi += carry
	if hi >= c {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// unprefix drops the package's name from an error that is about to be wrapped
// in one that has it.
func unprefix(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error()[len("limiter: "):])
}
