package limiter

import (
	"testing"
	"time"
)

// A known key is decided without the shard's lock.
func TestKnownKeyNeedsNoLock(t *testing.T) {
	l := New()
	l.TakeAt(0, "k", perSecond, 1)
	_, s := l.locate("k")
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.TakeAt(0, "k", perSecond, 1)
		l.TakeKnownAt(0, "k", tenASecond, 1)
		l.PeekAt(0, "k", perSecond)
		l.RefundAt(0, "k", 1)
		l.ChargeAt(0, "k", perSecond, 1)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("waits for the lock")
	}
}

// Other keys may be dropped, at a later time, between the reading of the clock
// and the lock: that takes nothing from the new key.
func TestNewKeyReadsTheClockAgain(t *testing.T) {
	var l *Limiter
	now := time.Duration(0)
	l = New(WithMaxKeys(2), WithClock(func() time.Duration {
		read := now
		if now == 0 {
			now = 10 * sec
			l.TakeAt(now, "c", perSecond, 1) // a and b are full by then, and dropped
		}
		return read
	}))
	l.TakeAt(0, "a", perSecond, 1)
	l.TakeAt(0, "b", perSecond, 1)
	if d := l.Take("new", perSecond, 100); !d.Allowed || l.Stats().Evicted != 2 {
		t.Errorf("%+v, %+v", d, l.Stats())
	}
}

// Only a take changes the limit of a bucket.
func TestLookingChangesNoLimit(t *testing.T) {
	l := New()
	l.TakeAt(0, "k", perSecond, 1)
	l.TakeAt(0, "drained", tenASecond, 10)
	for _, cost := range []int64{0, -1, tenASecond.Burst + 1} {
		l.TakeAt(0, "k", tenASecond, cost)
	}
	if d := l.TakeAllAt(0, Claim{"k", tenASecond, 1}, Claim{"drained", tenASecond, 1}); d.Allowed {
		t.Errorf("%+v", d)
	}
	if d := l.TakeKnownAt(0, "k", tenASecond, 0); d.Remaining != 99 {
		t.Errorf("%+v, want 99 of 100 left", d)
	}
}

// A charge of nothing writes nothing, which shows when the clock goes back.
func TestChargeOfNothing(t *testing.T) {
	l := New()
	l.TakeAt(0, "k", perSecond, 1)
	l.ChargeAt(time.Hour, "k", perSecond, 0)
	l.ChargeAt(time.Hour, "k", perSecond, -1)
	if d := l.PeekAt(0, "k", perSecond); d.Remaining != 99 {
		t.Errorf("%+v", d)
	}
}
