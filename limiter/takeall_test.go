package limiter

import (
	"sync/atomic"
	"testing"
	"time"
)

var (
	tenASecond    = Limit{Tokens: 10, Period: sec, Burst: 10}
	hundredAnHour = Limit{Tokens: 100, Period: time.Hour, Burst: 100}
)

func TestTakeAllTakesAllOrNone(t *testing.T) {
	l := New()
	both := func(cost int64) []Claim {
		return []Claim{{"s", tenASecond, cost}, {"h", hundredAnHour, cost}}
	}
	left := func(s, h int64) {
		t.Helper()
		if a, b := l.PeekAt(0, "s", tenASecond).Remaining, l.PeekAt(0, "h", hundredAnHour).Remaining; a != s || b != h {
			t.Errorf("%d and %d tokens are left, want %d and %d", a, b, s, h)
		}
	}
	if d := l.TakeAllAt(0, both(4)...); !d.Allowed || d.Remaining != 6 {
		t.Errorf("the tightest claim is not the answer: %+v", d)
	}
	left(6, 96)
	if d := l.TakeAllAt(0, both(7)...); d.Allowed || d.RetryAfter != 100*time.Millisecond {
		t.Errorf("%+v", d)
	}
	left(6, 96)
	if d := l.TakeAllAt(0, Claim{"s", tenASecond, 7}, Claim{"h", hundredAnHour, 97}); d.RetryAfter != 36*sec {
		t.Errorf("not the longest wait: %+v", d)
	}
	if d := l.TakeAllAt(0, Claim{"s", tenASecond, 11}, Claim{"h", hundredAnHour, 97}); d.RetryAfter != -1 {
		t.Errorf("never is the longest wait: %+v", d)
	}
	if d := l.TakeAllAt(0, Claim{"h", Limit{}, 1}, Claim{"s", tenASecond, 1}); d.Allowed {
		t.Errorf("an invalid limit: %+v", d)
	}
	left(6, 96)
	if d := l.TakeAllAt(0); !d.Allowed {
		t.Errorf("no claim: %+v", d)
	}
	if d := l.TakeAllAt(0, Claim{"h", hundredAnHour, 96}); !d.Allowed {
		t.Errorf("one claim: %+v", d)
	}
	left(6, 0)
}

func TestTighter(t *testing.T) {
	order := []Decision{
		{RetryAfter: -1},
		{RetryAfter: 2},
		{RetryAfter: 1},
		{Allowed: true, Remaining: 1, ResetAfter: 2},
		{Allowed: true, Remaining: 1, ResetAfter: 1},
		{Allowed: true, Remaining: 2, ResetAfter: 3},
	}
	for i, a := range order {
		for j, b := range order {
			if Tighter(a, b) != (i < j) {
				t.Errorf("%+v is tighter than %+v: %v", a, b, i >= j)
			}
		}
	}
}

func TestDecideNamesTheClaim(t *testing.T) {
	l := New(WithClock(func() time.Duration { return 0 }))
	claims := []Claim{{"h", hundredAnHour, 1}, {"s", tenASecond, 1}}
	for want, cost := range map[int]int64{1: 5, 0: 101} {
		claims[0].Cost = cost
		if d, which := l.Decide(claims); d.Allowed != (want == 1) || which != want || d.Allowed && d.Remaining != 9 {
			t.Errorf("cost %d: %+v of claim %d, want %d", cost, d, which, want)
		}
	}
	if _, which := l.Decide(claims[1:]); which != 0 {
		t.Errorf("the only claim: %d", which)
	}
	if _, which := l.Decide(nil); which != -1 {
		t.Errorf("no claim: %d", which)
	}
	claims[0] = Claim{"h", tenASecond, 90} // another limit than the bucket has
	if d, which := l.DecideKnown(claims); !d.Allowed || d.Remaining != 5 || which != 0 {
		t.Errorf("%+v of claim %d, want 5 of the 100 an hour left", d, which)
	}
}

func TestTakeAllWithOneKeyTwice(t *testing.T) {
	l := New()
	twice := []Claim{{"k", tenASecond, 6}, {"k", tenASecond, 6}}
	if d := l.TakeAllAt(0, twice...); d.Allowed {
		t.Errorf("12 of 10 tokens: %+v", d)
	}
	if d := l.PeekAt(0, "k", tenASecond); d.Remaining != 10 {
		t.Errorf("the first claim was not given back: %+v", d)
	}
	if d := l.TakeAllAt(0, Claim{"k", tenASecond, 3}, Claim{"k", tenASecond, 3}); !d.Allowed || d.Remaining != 4 {
		t.Errorf("6 of 10 tokens: %+v", d)
	}
}

// Concurrent claims on two buckets: neither gives more than it holds, and what
// is given back in a race is not lost.
func TestTakeAllUnderContention(t *testing.T) {
	l := New()
	var turn atomic.Int64
	admitted := contend(8, 200, func() int64 {
		claims := []Claim{{"a", Limit{1, time.Hour, 400}, 1}, {"b", Limit{1, time.Hour, 300}, 1}}
		if turn.Add(1)%2 == 0 {
			claims[0], claims[1] = claims[1], claims[0]
		}
		return one(l.TakeAllAt(0, claims...).Allowed)
	})
	a := l.PeekAt(0, "a", Limit{1, time.Hour, 400}).Remaining
	b := l.PeekAt(0, "b", Limit{1, time.Hour, 300}).Remaining
	if admitted > 300 || a != 400-admitted || b != 300-admitted {
		t.Errorf("admitted %d, left %d of 400 and %d of 300", admitted, a, b)
	}
	if b > 8 {
		t.Errorf("%d tokens were never used", b)
	}
}
