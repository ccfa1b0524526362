package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

// An answer is what became of one request; times count from the load's start.
type answer struct {
	gateway        int
	sent, received time.Duration
	admitted       bool
}

// answers are those of one load, in the order in which they arrived.
type answers struct {
	list  []answer
	start time.Time
}

// load offers requests to each gateway evenly in time, whether or not those
// before have been answered, unless all connections are waiting.
func (f *fleet) load(ctx context.Context, key string, length time.Duration, offered float64, shares [gateways]float64) (answers, error) {
	const connections = 64 // to each gateway
	all := answers{start: time.Now().Add(50 * time.Millisecond)}
	var (
		mu    sync.Mutex
		ended sync.WaitGroup
		fault error
	)
	for i, g := range f.gateways {
		gap := time.Duration(1e9 / (offered * shares[i]))
		var next atomic.Int64
		for range connections {
			ended.Add(1)
			go func() {
				defer ended.Done()
				mine, err := send(ctx, g, key, i, all.start, func() time.Duration {
					return time.Duration(next.Add(1)-1)*gap + gap*time.Duration(i)/gateways
				}, length)
				mu.Lock()
				defer mu.Unlock()
				all.list = append(all.list, mine...)
				if err != nil {
					fault = err
				}
			}()
		}
	}
	ended.Wait()
	slices.SortFunc(all.list, func(a, b answer) int { return cmp.Compare(a.received, b.received) })
	if fault == nil && len(all.list) == 0 {
		fault = fmt.Errorf("no request in %v", length)
	}
	return all, fault
}

// send sends a request at each time that due gives, until the length is over.
func send(ctx context.Context, g *rig.Gateway, key string, gateway int, start time.Time, due func() time.Duration, length time.Duration) (mine []answer, err error) {
	for at := due(); at < length; at = due() {
		time.Sleep(time.Until(start.Add(at)))
		r := g.Send(ctx, rig.Request{Path: "/" + api + "/", Key: key})
		switch {
		case r.Err != nil:
			return mine, r.Err
		case r.Status != http.StatusOK && r.Status != http.StatusTooManyRequests:
			return mine, fmt.Errorf("answer %v", r)
		}
		mine = append(mine, answer{gateway, r.Sent.Sub(start), r.Received.Sub(start), r.Status == http.StatusOK})
	}
	return mine, nil
}
