package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A plan says what to run and how long.
type plan struct {
	rounds int
	length time.Duration // of one measurement
	wait   time.Duration // for a quiet machine, all in all
	cpus   []int
	works  func(name string) bool
	peers  func(name string) bool
}

// A result is what one peer needed for one work on a number of CPUs.
type result struct {
	work   work
	peer   peer
	cpus   int
	ops    int       // in each round
	ns     []float64 // for an operation, in each round
	bytes  float64   // allocated for an operation
	allocs float64
}

// A runner is a peer ready for a work.
type runner struct {
	peer  peer
	job   job
	every int       // so many-th key is a new one; 0: none
	fresh *[]string // what job takes new keys from
}

// run measures everything in the plan. Collection of garbage waits until no
// peer is measured: each would pay for what the others keep.
func run(p plan) ([]result, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var all []result
	quiet := &referee{patience: p.wait, best: make(map[int]time.Duration)}
	for _, s := range settings() {
		s.works = filter(s.works, func(w work) bool { return p.works(w.name) })
		if len(s.works) == 0 {
			continue
		}
		results, err := runSetting(p, s, quiet)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
		runtime.GC()
	}
	return all, nil
}

func filter[T any](all []T, keep func(T) bool) (kept []T) {
	for _, v := range all {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

func runSetting(p plan, s setting, quiet *referee) (all []result, err error) {
	var chosen []peer
	tables := make(map[string]table)
	for _, c := range peers() {
		if !p.peers(c.name) || s.keys == 0 && c.bucket == nil || s.keys > 0 && c.table == nil {
			continue
		}
		if s.keys == 0 && c.blocks && s.works[0].refuses {
			continue
		}
		chosen = append(chosen, c)
		if s.keys > 0 {
			t := c.table(s.limit, s.max)
			fill(t, s)
			if t.close != nil {
				defer t.close()
			}
			tables[c.name] = t
		}
	}
	runtime.GC()
	for _, w := range s.works {
		runners := prepare(s, w, chosen, tables)
		for _, cpus := range p.cpus {
			results, err := runWork(p, w, cpus, runners, quiet)
			if err != nil {
				return nil, err
			}
			all = append(all, results...)
		}
	}
	return all, nil
}

func prepare(s setting, w work, chosen []peer, tables map[string]table) (runners []runner) {
	var seq []string
	if s.keys > 0 {
		seq = sequence(w.order(s.keys), 0)
	}
	for _, c := range chosen {
		r := runner{peer: c, every: w.fresh, fresh: new([]string)}
		switch t := tables[c.name]; {
		case s.keys == 0:
			r.job = c.bucket(s.limit)
		case w.fresh > 0:
			r.job = renew(t, seq, r.fresh, w.fresh)
		default:
			r.job = walk(t, seq)
		}
		runners = append(runners, r)
	}
	return runners
}

// runWork measures the peers in turn, round after round, each round beginning
// with another one.
func runWork(p plan, w work, cpus int, runners []runner, quiet *referee) ([]result, error) {
	runtime.GOMAXPROCS(cpus)
	began := time.Now()
	results := make([]result, len(runners))
	for i, r := range runners {
		results[i] = result{work: w, peer: r.peer, cpus: cpus, ops: calibrate(r, cpus, p.length)}
	}
	garbage := collector{live: heap()}
	quiet.busy = 0
	for round := range p.rounds {
		garbage.collect()
		for turn := range runners {
			i := (round + turn) % len(runners)
			quiet.await(cpus)
			if err := results[i].measure(runners[i]); err != nil {
				return nil, err
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%-20s %2d cpu  %5.1f s", w.name, cpus, time.Since(began).Seconds())
	for _, r := range results {
		fmt.Fprintf(os.Stderr, "  %s %.1f ns", r.peer.name, median(r.ns))
	}
	if quiet.busy > 0 {
		fmt.Fprintf(os.Stderr, "  (%d of %d measurements began on a busy machine)", quiet.busy, p.rounds*len(runners))
	}
	fmt.Fprintln(os.Stderr)
	return results, nil
}

func (r *result) measure(by runner) error {
	by.supply(r.ops)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took, admitted := perform(by.job, r.ops, r.cpus)
	runtime.ReadMemStats(&after)
	n := float64(r.ops)
	r.ns = append(r.ns, float64(took.Nanoseconds())/n)
	r.bytes = float64(after.TotalAlloc-before.TotalAlloc) / n
	r.allocs = float64(after.Mallocs-before.Mallocs) / n
	// A key of a refusing work was drained before.
	if want := r.ops; r.work.refuses && admitted > 1 || !r.work.refuses && admitted != want {
		return fmt.Errorf("%s, %s: %d of %d admitted", r.work.name, r.peer.name, admitted, r.ops)
	}
	return nil
}

// calibrate finds how many operations take that long, and warms up.
func calibrate(r runner, cpus int, length time.Duration) int {
	for n := 1000; ; n *= 2 {
		r.supply(n)
		if took, _ := perform(r.job, n, cpus); took >= length/4 {
			return max(1, int(float64(n)*float64(length)/float64(took)))
		}
	}
}

var freshKeys = 1 << 21 // beyond all keys that tables are filled with

// supply makes the new keys for n operations.
func (r runner) supply(n int) {
	if r.every > 0 {
		count := n/r.every + 1
		*r.fresh = sequence(inTurn(count), freshKeys)
		freshKeys += count
	}
}

// portion is how many operations a goroutine fetches at once: all of them are
// busy to the end.
const portion = 1000

// perform does n operations on as many goroutines as CPUs.
func perform(j job, n, cpus int) (took time.Duration, admitted int) {
	var next, sum atomic.Int64
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for range cpus {
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-begin
			mine := 0
			for {
				to := int(next.Add(portion))
				if to-portion >= n {
					break
				}
				mine += j(to-portion, min(to, n))
			}
			sum.Add(int64(mine))
		}()
	}
	start := time.Now()
	close(begin)
	wg.Wait()
	return time.Since(start), int(sum.Load())
}

// collector collects garbage between rounds, when there is much.
type collector struct{ live uint64 }

func (c *collector) collect() {
	const much = 512 << 20
	if heap() > c.live+much {
		runtime.GC()
		c.live = heap()
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
