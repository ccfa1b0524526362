package limiter

import (
	"testing"
	"time"
)

// While an entry is replaced, for another limit or in a new slab, its key is
// not found without the shard's lock. What comes just then is not lost.
func TestNothingIsLostWhileAnEntryIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		call func(l *Limiter)
		left int64
	}{
		"refund":    {func(l *Limiter) { l.RefundAt(0, "k", 3) }, 53},
		"charge":    {func(l *Limiter) { l.ChargeAt(0, "k", perSecond, 3) }, 47},
		"take":      {func(l *Limiter) { l.TakeAt(0, "k", perSecond, 3) }, 47},
		"takeKnown": {func(l *Limiter) { l.TakeKnownAt(0, "k", Limit{1, sec, 1}, 3) }, 47},
		"peek":      {func(l *Limiter) { l.PeekAt(0, "k", perSecond) }, 50},
	} {
		l := New()
		l.TakeAt(0, "k", perSecond, 50)
		k, s := l.locate("k")
		s.mu.Lock()
		e := s.slab.Load().find(k)
		tat := e.tat.Swap(retired)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.call(l)
		}()
		select {
		case <-done:
			t.Errorf("%s: did not wait for the new entry", name)
		case <-time.After(5 * time.Millisecond):
		}
		s.slab.Load().put(k, tat, e.rate.Load())
		s.used++
		s.mu.Unlock()
		<-done
		if d := l.PeekAt(0, "k", perSecond); d.Remaining != c.left {
			t.Errorf("%s: %d tokens left, want %d", name, d.Remaining, c.left)
		}
	}
}
