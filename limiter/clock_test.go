package limiter

import (
	"runtime"
	"testing"
	"time"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestCoarseClockStartsWithUseAndStopsByItself(t *testing.T) {
	before := runtime.NumGoroutine()
	c := &coarse{resolution: time.Millisecond, idle: 20 * time.Millisecond}
	for round := range 2 {
		exact := Monotonic()
		first := c.now()
		if first < exact {
			t.Fatalf("round %d: the first reading is old: %v before %v", round, first, exact)
		}
		eventually(t, "the clock stands still", func() bool {
			now := c.now()
			if lead := now - Monotonic(); lead > 0 {
				t.Fatalf("the clock leads by %v", lead)
			}
			return now > first+5*time.Millisecond
		})
		eventually(t, "the ticker does not stop", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return !c.running && runtime.NumGoroutine() <= before
		})
	}
}

func TestCoarseClockDefaults(t *testing.T) {
	clock := CoarseClock(0)
	first := clock()
	eventually(t, "the clock stands still", func() bool { return clock() > first })
	l := New(WithClock(clock))
	if d := l.Take("k", perSecond, 100); !d.Allowed || l.Take("k", perSecond, 50).Allowed {
		t.Errorf("%+v", d)
	}
}

func TestCoarseClockReadByMany(t *testing.T) {
	clock := CoarseClock(time.Millisecond)
	backwards := contend(4, 20_000, func() int64 {
		a := clock()
		return one(clock() < a)
	})
	if backwards != 0 {
		t.Errorf("went backwards %d times", backwards)
	}
}
