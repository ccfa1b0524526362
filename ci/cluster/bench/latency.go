package main

import (
	"fmt"
	"slices"
	"time"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// A latencyResult compares something with the local limiter and with leases.
type latencyResult struct {
	What           string
	Local, Cluster map[string]time.Duration // median over the rounds
	Ratio          map[string]float64       // median of the ratios of each round
}

// latency compares what a warm key costs with the local limiter and with
// leases: the decision alone, and the whole pre hook.
func (b *bench) latency() ([]latencyResult, error) {
	client, err := cluster.Dial("redis://" + b.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	shared := cluster.New(cluster.Options{Client: client})
	defer shared.Close()
	for !shared.Stats().Up {
		time.Sleep(time.Millisecond)
	}
	local := limiter.New()
	key, l := id(77), limiter.Limit{Tokens: 10_000, Period: time.Second, Burst: 100}
	localHook, err := newHook("off", "", l)
	if err != nil {
		return nil, err
	}
	sharedHook, err := newHook("redis", "redis://"+b.addr, l)
	if err != nil {
		return nil, err
	}
	w := b.table("latency\t\tlocal\tleases\tleases / local")
	defer func() { _ = w.Flush() }()
	var all []latencyResult
	for _, c := range []struct {
		what          string
		local, leased side
	}{
		{"decision", side{call: func() { local.Take(key, l, 1) }}, side{call: func() { shared.Take(key, l, 1) }}},
		{"pre hook", localHook, sharedHook},
	} {
		r := compare(c.what, c.local, c.leased)
		for _, q := range quantiles {
			fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%.2f\t\n", c.what, q.name, r.Local[q.name], r.Cluster[q.name], r.Ratio[q.name])
		}
		all = append(all, r)
	}
	return all, nil
}

var quantiles = []struct {
	name string
	of   float64
}{{"p50", 0.5}, {"p99", 0.99}}

// A side is what is timed. Before each round it is made ready: a key that nobody
// authenticates any more is forgotten.
type side struct{ ready, call func() }

// compare times both in rounds that alternate: single calls on one key above
// its limit, with a pause between them as between requests.
func compare(what string, local, leased side) latencyResult {
	r := latencyResult{what, map[string]time.Duration{}, map[string]time.Duration{}, map[string]float64{}}
	const rounds, each = 30, 3000
	ours, theirs, ratio := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string][]float64{}
	for round := range rounds + 2 {
		a, c := timed(each, local), timed(each, leased)
		if round < 2 {
			continue // warming up
		}
		for _, q := range quantiles {
			x, y := a[int(q.of*each)], c[int(q.of*each)]
			theirs[q.name], ours[q.name] = append(theirs[q.name], x), append(ours[q.name], y)
			ratio[q.name] = append(ratio[q.name], float64(y)/float64(x))
		}
	}
	for _, q := range quantiles {
		r.Local[q.name], r.Cluster[q.name], r.Ratio[q.name] = median(theirs[q.name]), median(ours[q.name]), median(ratio[q.name])
	}
	return r
}

// timed times n calls, one in 20 microseconds, and sorts the times.
func timed(n int, s side) []time.Duration {
	if s.ready != nil {
		s.ready()
	}
	took := make([]time.Duration, n)
	for i := range took {
		for start := time.Now(); time.Since(start) < 20*time.Microsecond; { // as if serving a request
		}
		before := time.Now()
		s.call()
		took[i] = time.Since(before)
	}
	slices.Sort(took)
	return took
}

func median[T interface{ ~int64 | ~float64 }](x []T) T {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
