package main

import (
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Every peer does what it is measured for: run fails if one admits what it
// must refuse or refuses what it must admit.
func TestEveryPeerDoesTheWork(t *testing.T) {
	small := regexp.MustCompile("bucket|hot|64 K|new")
	all := func(string) bool { return true }
	results, err := run(plan{rounds: 2, length: time.Millisecond, cpus: []int{1, 2}, works: small.MatchString, peers: all})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peers() {
		works := 0
		for _, r := range results {
			if r.peer.name == p.name {
				works++
				if len(r.ns) != 2 || median(r.ns) <= 0 {
					t.Errorf("%s, %s: %v", p.name, r.work.name, r.ns)
				}
			}
		}
		if works == 0 {
			t.Errorf("%s did nothing", p.name)
		}
	}
	for _, r := range results {
		if r.peer.name == ours && r.work.fresh == 0 && r.allocs >= 0.5 {
			t.Errorf("%s allocates %.1f times", r.work.name, r.allocs)
		}
	}
	checkOutput(t, results)
}

func checkOutput(t *testing.T, results []result) {
	var raw, table, chart, plot strings.Builder
	writeBenchstat(&raw, results)
	line := regexp.MustCompile(`^(goos|goarch|pkg|cpu): |^Benchmark\w+/peer=\S+(-\d+)?\t\d+\t[\d.]+ ns/op\t\d+ B/op\t\d+ allocs/op$`)
	for _, s := range strings.Split(strings.TrimSpace(raw.String()), "\n") {
		if !line.MatchString(s) {
			t.Errorf("not a line of a benchmark: %q", s)
		}
	}
	writeTable(&table, results)
	writeChart(&chart, results)
	writeScaling(&plot, results)
	for _, p := range peers() {
		for _, text := range []string{table.String(), chart.String(), plot.String()} {
			if p.name != floor && !strings.Contains(text, p.name) {
				t.Errorf("%s is not shown", p.name)
			}
		}
	}
	for _, text := range []string{chart.String(), plot.String()} {
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		want float64
		of   []float64
	}{{2, []float64{9, 1, 2}}, {1.5, []float64{2, 1}}, {7, []float64{7}}} {
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v: %v", c.of, got)
		}
	}
	a, b := result{ns: []float64{1, 10, 100}}, result{ns: []float64{2, 20, 400}}
	if got := ratio(a, b); got != 0.5 {
		t.Errorf("ratio %v", got)
	}
}

func TestSequence(t *testing.T) {
	seq := sequence([]int{3, 1}, 10)
	if len(seq) != 2 || seq[0] != keyName(13) || seq[1] != keyName(11) || len(seq[0]) != keyLength {
		t.Errorf("%q", seq)
	}
	if order := zipf(1 << 10); len(order)&(len(order)-1) != 0 || order[0] >= 1<<10 {
		t.Errorf("%d keys, the first %d", len(order), order[0])
	}
}
