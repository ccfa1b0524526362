package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// writeTable writes a line for each work and number of CPUs: our time, and its
// ratio to each peer's.
func writeTable(w io.Writer, all []result) {
	peers := distinct(all, func(r result) string { return r.peer.name })
	fmt.Fprintln(w, "Our time for a decision, and ours / peer's: below 1 we are faster.")
	fmt.Fprintln(w, "coarse is our time with the coarse clock / ours with the precise one. Medians.")
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tab, "work\tcpus\tours ns\tallocs\t%s\t\n", strings.Join(others(peers), "\t"))
	for _, work := range workNames(all) {
		for _, cpus := range cpuCounts(all) {
			us, ok := find(all, work, ours, cpus)
			if !ok {
				continue
			}
			fmt.Fprintf(tab, "%s\t%d\t%.1f\t%.0f\t", work, cpus, median(us.ns), us.allocs)
			for _, p := range others(peers) {
				cell := "-"
				if them, ok := find(all, work, p, cpus); ok && p == coarse {
					cell = fmt.Sprintf("%.2f", ratio(them, us))
				} else if ok {
					cell = fmt.Sprintf("%.2f", ratio(us, them))
				}
				fmt.Fprint(tab, cell, "\t")
			}
			fmt.Fprintln(tab)
		}
	}
	_ = tab.Flush()
	fmt.Fprintln(w)
	writeLegend(w, peers)
}

func others(peers []string) []string {
	return filter(peers, func(name string) bool { return name != ours })
}

func writeLegend(w io.Writer, names []string) {
	for _, p := range peers() {
		for _, name := range names {
			if p.name == name {
				fmt.Fprintf(w, "%-10s %s%s\n", p.name, p.about, cond(p.bounds == "", "", "; memory bounded by "+p.bounds))
			}
		}
	}
}

func cond[T any](ok bool, yes, no T) T {
	if ok {
		return yes
	}
	return no
}
