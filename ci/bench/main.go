// Command bench compares the limiter with its peers: the same work, in rounds
// that alternate, and the median of the ratios of each round. Absolute times
// on a shared machine say little; ratios from one run say something.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/time/rate"

	"tokenbucket.internal/limiter"
)

// A contest is one piece of work, done by us and by a peer.
type contest struct {
	work, peer string
	ours, them func(b *testing.B)
}

func contests() []contest {
	admit := limiter.Limit{Tokens: 1e9, Period: time.Second, Burst: 1 << 31}
	refuse := limiter.Limit{Tokens: 1, Period: 24 * time.Hour, Burst: 1}
	bucket := func(l limiter.Limit) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			bucket := limiter.NewBucket(l)
			for range b.N {
				bucket.Allow()
			}
		}
	}
	xtime := func(every rate.Limit, burst int) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			l := rate.NewLimiter(every, burst)
			for range b.N {
				l.Allow()
			}
		}
	}
	return []contest{
		{"one bucket, admit", "x/time/rate", bucket(admit), xtime(1e9, 1<<31)},
		{"one bucket, refuse", "x/time/rate", bucket(refuse), xtime(rate.Every(24*time.Hour), 1)},
	}
}

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 11, "rounds; the median counts")
	length := flag.Duration("time", 100*time.Millisecond, "length of each measurement")
	flag.Parse()
	if *rounds < 1 {
		fmt.Fprintln(os.Stderr, "bench: -rounds must be at least 1")
		os.Exit(2)
	}
	_ = flag.Set("test.benchtime", length.String())

	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "work\tours ns\tallocs\tpeer\tns\tours / peer\t")
	for _, c := range contests() {
		var ours, them, ratios []float64
		var allocs int64
		for range *rounds {
			a, b := testing.Benchmark(c.ours), testing.Benchmark(c.them)
			ours, them = append(ours, perOp(a)), append(them, perOp(b))
			ratios = append(ratios, perOp(a)/perOp(b))
			allocs = max(allocs, a.AllocsPerOp())
		}
		fmt.Fprintf(table, "%s\t%.1f\t%d\t%s\t%.1f\t%.2f\t\n", c.work, median(ours), allocs, c.peer, median(them), median(ratios))
	}
	_ = table.Flush()
}

func perOp(r testing.BenchmarkResult) float64 { return float64(r.T.Nanoseconds()) / float64(r.N) }

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
