package limiter

import (
	"math"
	"testing"
	"time"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{"100/s", "6000/m burst 200", "1/100s", "0.5/s", "5 per day", "10", "NaN", "-5", "1e400", "1e-9/h", "burst", "1/1h30m", "1/9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(s)
		if err != nil {
			if l != (Limit{}) {
				t.Errorf("an error and a limit: %v", l)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Errorf("Parse(%q) = %+v: %v", s, l, err)
		}
		if again, err := Parse(l.String()); err != nil || again != l {
			t.Errorf("%q: %+v reads back as %+v, %v", l.String(), l, again, err)
		}
	})
}

// FuzzTake feeds any limit, times and cost: the outcome is an error or a
// decision within its bounds (L9).
func FuzzTake(f *testing.F) {
	f.Add(int64(100), int64(time.Second), int64(100), int64(0), int64(time.Second), int64(1))
	f.Add(int64(0), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MinInt64))
	f.Add(int64(1), int64(math.MaxInt64), int64(math.MaxInt32), int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt32))
	f.Add(int64(1e9), int64(time.Second), int64(1), int64(-5), int64(5), int64(1))
	f.Fuzz(func(t *testing.T, tokens, period, burst, t1, t2, cost int64) {
		limit := Limit{tokens, time.Duration(period), burst}
		valid := limit.Validate() == nil
		l := New(WithShards(1))
		admitted := int64(0)
		for _, now := range []int64{t1, t2, t1, t2} {
			d := l.TakeAt(time.Duration(now), "k", limit, cost)
			switch {
			case !valid && d != refused,
				d.Allowed && (cost < 0 || cost > burst || d.RetryAfter != 0),
				!d.Allowed && d.RetryAfter == 0,
				!d.Allowed && d.RetryAfter < 0 && valid && cost >= 0 && cost <= burst,
				d.Remaining < 0, valid && d.Remaining > burst, d.ResetAfter < 0:
				t.Fatalf("%+v at %d cost %d: %+v", limit, now, cost, d)
			}
			if d.Allowed && cost > 0 {
				admitted++
			}
		}
		if admitted == 0 || cost <= 0 {
			return
		}
		// What the span from the earliest to the latest time may give.
		span := math.Abs(float64(t2) - float64(t1))
		if may := float64(burst) + float64(tokens)*span/float64(period); float64(admitted)*float64(cost) > may*(1+1e-9) {
			t.Fatalf("%+v: admitted %d times %d in %v, may admit %v", limit, admitted, cost, time.Duration(span), may)
		}
		changed := Limit{max(1, burst), time.Duration(math.MaxInt64), max(1, min(tokens, math.MaxInt32))}
		if d := l.TakeAt(time.Duration(t2), "k", changed, 1); d.Remaining < 0 || d.Remaining > changed.Burst {
			t.Fatalf("%+v to %+v: %+v", limit, changed, d)
		}
	})
}
