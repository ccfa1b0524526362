// Command mutate shows that the limiter's tests notice errors: it changes each
// comparison and each constant of the package's code, one at a time and in a
// copy outside the tree, and runs the fast tests. A change that no test
// notices survives; those that change nothing are listed, with the reason, in
// equivalent.txt.
//
//	go run ./mutate -file gcra -sample 20
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"strings"
	"time"
)

type flags struct {
	pkg, list  string
	file, only string
	sample     int
	part       string
	limit      time.Duration
	dry        bool
}

func main() {
	var f flags
	flag.StringVar(&f.pkg, "package", "../../limiter", "folder of the package")
	flag.StringVar(&f.list, "equivalent", "mutate/equivalent.txt", "mutants that change nothing")
	flag.StringVar(&f.file, "file", "^(gcra|bucket|table|rates|limiter|takeall)\\.go$", "only files whose name matches")
	flag.StringVar(&f.only, "only", "", "only mutants whose description matches")
	flag.IntVar(&f.sample, "sample", 0, "only so many of them, at random")
	flag.StringVar(&f.part, "part", "1/1", "only this part of them: 2/5 is the second fifth")
	flag.DurationVar(&f.limit, "limit", 30*time.Second, "time for the tests of one mutant; a longer run counts as noticed")
	flag.BoolVar(&f.dry, "n", false, "list the mutants and run nothing")
	flag.Parse()
	survived, err := run(f)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if survived > 0 {
		os.Exit(1)
	}
}

func run(f flags) (survived int, err error) {
	found, err := search(f)
	if err != nil {
		return 0, err
	}
	all, err := choose(f, found)
	if err != nil {
		return 0, err
	}
	if f.dry {
		for _, m := range all {
			fmt.Printf("%s\n\n", m)
		}
		return 0, nil
	}
	known, err := readList(f.list)
	if err != nil {
		return 0, err
	}
	reportGone(known, found, f.file)
	lab, err := newLab(f.pkg, f.limit)
	if err != nil {
		return 0, err
	}
	defer lab.close()
	if o, out := lab.test(); o != survives {
		return 0, fmt.Errorf("the tests fail without any change:\n%s", out)
	}
	var count [outcomes]int
	var missed []mutant
	for i, m := range all {
		began := time.Now()
		o, err := lab.try(m)
		if err != nil {
			return 0, err
		}
		if _, ok := known[m.String()]; ok && o == survives {
			o = equivalent
		} else if ok {
			fmt.Printf("listed as equivalent, but %s:\n%s\n", o, m)
		}
		count[o]++
		if o == survives {
			missed = append(missed, m)
		}
		fmt.Fprintf(os.Stderr, "%d/%d %s:%d %s, %.1f s\n", i+1, len(all), m.file, m.line, o, time.Since(began).Seconds())
	}
	fmt.Printf("%d mutants: %d noticed, %d ran out of time, %d do not compile, %d equivalent, %d survive\n",
		len(all), count[noticed], count[endless], count[broken], count[equivalent], count[survives])
	for _, m := range missed {
		fmt.Printf("\n%s\n", m)
	}
	return len(missed), nil
}

// search finds all mutants of the files that the flags ask for.
func search(f flags) ([]mutant, error) {
	file, err := regexp.Compile(f.file)
	if err != nil {
		return nil, err
	}
	return mutants(f.pkg, file.MatchString)
}

// choose picks those of them that the flags ask for.
func choose(f flags, found []mutant) (chosen []mutant, err error) {
	only, err := regexp.Compile(f.only)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if only.MatchString(m.String()) {
			chosen = append(chosen, m)
		}
	}
	var part, parts int
	if _, err := fmt.Sscanf(f.part, "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
		return nil, fmt.Errorf("-part %q: want for example 2/5", f.part)
	}
	chosen = chosen[(part-1)*len(chosen)/parts : part*len(chosen)/parts]
	if f.sample > 0 && f.sample < len(chosen) {
		rand.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:f.sample]
	}
	return chosen, nil
}

// reportGone tells of entries of the list that are for code as it was.
func reportGone(known map[string]string, found []mutant, file string) {
	there := make(map[string]bool)
	for _, m := range found {
		there[m.String()] = true
	}
	for entry := range known {
		name, _, _ := strings.Cut(entry, " ")
		if ok, _ := regexp.MatchString(file, name); ok && !there[entry] {
			fmt.Printf("listed as equivalent, but not in the code any more:\n%s\n\n", entry)
		}
	}
}
