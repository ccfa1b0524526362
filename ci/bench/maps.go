package main

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"tokenbucket.internal/limiter"
)

// The three ways in which programs keep a limiter of x/time/rate for each key.

func syncMapTable(l limiter.Limit, _ int) table {
	var m sync.Map
	return table{take: func(key string) bool {
		v, ok := m.Load(key)
		if !ok {
			v, _ = m.LoadOrStore(key, xtime(l))
		}
		return v.(*rate.Limiter).Allow()
	}}
}

func mutexMapTable(l limiter.Limit, _ int) table {
	var mu sync.Mutex
	m := make(map[string]*rate.Limiter)
	return table{take: func(key string) bool {
		mu.Lock()
		b := m[key]
		if b == nil {
			b = xtime(l)
			m[key] = b
		}
		mu.Unlock()
		return b.Allow()
	}}
}

// lruTable drops the key that was used least recently, drained or not: a key
// that is dropped has its burst again.
func lruTable(l limiter.Limit, max int) table {
	if max == 0 {
		max = plenty
	}
	m, err := lru.New[string, *rate.Limiter](max)
	must(err)
	return table{take: func(key string) bool {
		b, ok := m.Get(key)
		if !ok {
			b = xtime(l)
			if known, ok, _ := m.PeekOrAdd(key, b); ok {
				b = known
			}
		}
		return b.Allow()
	}}
}
