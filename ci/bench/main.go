// Command bench compares the limiter with its peers on the same work, in
// rounds in which each has its turn. Absolute times on a shared machine say
// little; ratios from one run say something.
//
//	CPUS=1,2,4,8 go run . -rounds 20
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := bench(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench() error {
	rounds := flag.Int("rounds", 21, "rounds; the median counts")
	length := flag.Duration("time", 50*time.Millisecond, "length of each measurement")
	wait := flag.Duration("wait", time.Minute, "how long to wait, all in all, for moments in which nobody else uses the CPUs")
	cpus := flag.String("cpus", env("CPUS", "1,2"), "numbers of CPUs, also from CPUS in the environment")
	works := flag.String("work", "", "only works whose name matches this regular expression")
	chosen := flag.String("peer", "", "only peers whose name matches, and ours")
	memory := flag.Bool("memory", true, "measure memory too")
	out := flag.String("out", "", "folder for raw.txt, table.txt, chart.svg and scaling.svg; none if empty")
	flag.Parse()

	p := plan{rounds: *rounds, length: *length, wait: *wait}
	if p.rounds < 1 || p.length <= 0 {
		return fmt.Errorf("-rounds and -time must be above 0")
	}
	for _, s := range strings.Split(*cpus, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return fmt.Errorf("-cpus %q: want numbers such as 1,2,4", *cpus)
		}
		p.cpus = append(p.cpus, n)
	}
	work, err := regexp.Compile(*works)
	if err != nil {
		return err
	}
	name, err := regexp.Compile(*chosen)
	if err != nil {
		return err
	}
	p.works = work.MatchString
	p.peers = func(s string) bool { return s == ours || name.MatchString(s) }

	results, err := run(p)
	if err != nil {
		return err
	}
	var prints []footprint
	if *memory {
		prints = footprints(p.peers)
	}
	report(os.Stdout, results, prints)
	if *out == "" {
		return nil
	}
	return save(*out, results, prints)
}

func report(w io.Writer, results []result, prints []footprint) {
	if len(results) > 0 {
		writeTable(w, results)
	}
	if len(prints) > 0 {
		fmt.Fprintln(w)
		writeFootprints(w, prints)
	}
}

func save(folder string, results []result, prints []footprint) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	files := map[string]func(io.Writer){
		"raw.txt":   func(w io.Writer) { writeBenchstat(w, results) },
		"table.txt": func(w io.Writer) { report(w, results, prints) },
		"chart.svg": func(w io.Writer) { writeChart(w, results) },
	}
	if len(cpuCounts(results)) > 1 {
		files["scaling.svg"] = func(w io.Writer) { writeScaling(w, results) }
	}
	for name, write := range files {
		var text strings.Builder
		write(&text)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
