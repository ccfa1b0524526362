package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/metrics"
	"text/tabwriter"
	"time"
)

// A footprint is what keys cost in memory.
type footprint struct {
	peer  string
	keys  int
	bytes float64 // of heap for each key, after a collection
	gc    gcCost
}

// A gcCost is what one garbage collection costs while the keys are kept.
type gcCost struct {
	cpu  time.Duration // of all its workers
	wall time.Duration
}

// footprints measures every peer with a million keys, and ours with more.
func footprints(chosen func(name string) bool) (all []footprint) {
	const million = 1_000_000
	all = append(all, footprint{peer: "no keys", gc: collection()})
	for _, p := range peers() {
		if p.table == nil || p.name == coarse || !chosen(p.name) {
			continue
		}
		all = append(all, weigh(p, million))
		if p.name == ours {
			all = append(all, weigh(p, 5*million))
		}
	}
	return all
}

func weigh(p peer, keys int) footprint {
	fmt.Fprintf(os.Stderr, "memory: %s, %d keys\n", p.name, keys)
	for range 3 { // finalizers of the one before
		runtime.GC()
	}
	before := heap()
	t := p.table(lasts, 0)
	fill(t, setting{keys: keys})
	f := footprint{peer: p.name, keys: keys, gc: collection()}
	f.bytes = float64(heap()-before) / float64(keys)
	t.take(keyName(0)) // keeps it alive
	if t.close != nil {
		t.close()
	}
	return f
}

// collection is the median of some forced collections.
func collection() gcCost {
	runtime.GC()
	var cpu, wall []float64
	for range 9 {
		start, used := time.Now(), gcSeconds()
		runtime.GC()
		wall = append(wall, time.Since(start).Seconds())
		cpu = append(cpu, gcSeconds()-used)
	}
	seconds := func(v []float64) time.Duration { return time.Duration(median(v) * float64(time.Second)) }
	return gcCost{cpu: seconds(cpu), wall: seconds(wall)}
}

// gcSeconds is the CPU time that collections have taken so far.
func gcSeconds() float64 {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64()
}

func writeFootprints(w io.Writer, all []footprint) {
	fmt.Fprintln(w, "Heap for each key, and what one garbage collection costs while they are kept. Medians.")
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "peer\tkeys\tbytes a key\tGC CPU ms\tGC wall ms\t")
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	for _, f := range all {
		fmt.Fprintf(tab, "%s\t%d\t%.1f\t%.2f\t%.2f\t\n", f.peer, f.keys, f.bytes, ms(f.gc.cpu), ms(f.gc.wall))
	}
	_ = tab.Flush()
}
