package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

type latencyResult struct {
	Local, Cluster map[string]time.Duration // median over the rounds
	Ratio          map[string]float64       // median of the ratios of each round
}

// latency compares a warm decision with the local limiter's, in rounds that
// alternate: single decisions on one key above its limit, with a pause between
// them as between requests.
func (b *bench) latency() (r latencyResult, err error) {
	client, err := cluster.Dial("redis://" + b.addr)
	if err != nil {
		return r, err
	}
	defer func(c redis.UniversalClient) { _ = c.Close() }(client)
	shared := cluster.New(cluster.Options{Client: client})
	defer shared.Close()
	for !shared.Stats().Up {
		time.Sleep(time.Millisecond)
	}
	local := limiter.New()
	key, l := id(77), limiter.Limit{Tokens: 10_000, Period: time.Second, Burst: 100}
	r = latencyResult{Local: map[string]time.Duration{}, Cluster: map[string]time.Duration{}, Ratio: map[string]float64{}}
	const rounds, each = 30, 3000
	ours, theirs, ratio := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string][]float64{}
	for round := range rounds + 2 {
		a := decisions(each, func() { local.Take(key, l, 1) })
		c := decisions(each, func() { shared.Take(key, l, 1) })
		if round < 2 {
			continue // warming up
		}
		for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
			x, y := a[int(q*each)], c[int(q*each)]
			theirs[name], ours[name] = append(theirs[name], x), append(ours[name], y)
			ratio[name] = append(ratio[name], float64(y)/float64(x))
		}
	}
	w := table("decision\tlocal\tcluster\tcluster / local")
	for _, name := range []string{"p50", "p99"} {
		r.Local[name], r.Cluster[name], r.Ratio[name] = median(theirs[name]), median(ours[name]), median(ratio[name])
		fmt.Fprintf(w, "%s\t%v\t%v\t%.2f\t\n", name, r.Local[name], r.Cluster[name], r.Ratio[name])
	}
	_ = w.Flush()
	return r, nil
}

// decisions times n of them, one in 20 microseconds, and sorts the times.
func decisions(n int, take func()) []time.Duration {
	took := make([]time.Duration, n)
	for i := range took {
		for start := time.Now(); time.Since(start) < 20*time.Microsecond; { // as if serving a request
		}
		before := time.Now()
		take()
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
