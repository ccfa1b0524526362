package cluster

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"tokenbucket.internal/limiter"
)

func TestTable(t *testing.T) {
	p := plan(t, limiter.Limit{Tokens: 1, Period: time.Second, Burst: 1})
	tab := newTable(shards * 64)
	var ended sync.WaitGroup
	for worker := range 4 {
		ended.Add(1)
		go func() {
			defer ended.Done()
			for i := range 20_000 {
				key := strconv.Itoa((i*7 + worker) % 3000)
				e := tab.make(key, p, 1)
				if e == nil || e.key != key {
					t.Errorf("%s: %+v", key, e)
					return
				}
				if found := tab.find(key); found != nil && found.key != key {
					t.Errorf("%s is found as %s", key, found.key)
				}
				if i%3 == 0 && e.leave() {
					tab.drop(e)
				}
			}
		}()
	}
	ended.Wait()
	n := 0
	tab.each(func(e *entry) {
		if n++; tab.find(e.key) != e {
			t.Errorf("%s is not found", e.key)
		}
	})
	if int64(n) != tab.live.Load() || n == 0 || n > 3000 {
		t.Errorf("%d entries, %d counted", n, tab.live.Load())
	}
}

func TestTableIsBounded(t *testing.T) {
	p := plan(t, limiter.Limit{Tokens: 1, Period: time.Second, Burst: 1})
	tab := newTable(shards * 4)
	for i := range 100 * shards {
		tab.make(strconv.Itoa(i), p, 1)
	}
	if n := tab.live.Load(); n != shards*4 {
		t.Errorf("%d entries", n)
	}
}
