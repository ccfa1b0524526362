package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Measures of the charts.
const (
	margin     = 20.0
	panelWidth = 420.0
	headHeight = 58.0
	rowHeight  = 18.0
	barHeight  = 6.0
	nameWidth  = 72.0
	barWidth   = panelWidth - nameWidth - 100
)

// writeChart draws a panel of bars for each work, two bars for each peer: the
// lowest and the highest number of CPUs.
func writeChart(w io.Writer, all []result) {
	all = limiters(all)
	cpus := cpuCounts(all)
	if len(cpus) == 0 {
		return
	}
	ends := slices.Compact([]int{cpus[0], cpus[len(cpus)-1]})
	d := &drawing{width: 2*panelWidth + 3*margin}
	d.text("head", margin, 28, "Time for one decision: shorter is better")
	note := fmt.Sprintf("Dark: on %d CPU. ", ends[0])
	if len(ends) > 1 {
		note += fmt.Sprintf("Pale: on %d. ", ends[1])
	}
	d.text("small", margin, 46, note+"2 × is twice our time.")
	y := headHeight
	for pair := range slices.Chunk(workNames(all), 2) {
		height := 0.0
		for i, work := range pair {
			x := margin + float64(i)*(panelWidth+margin)
			height = max(height, d.bars(all, work, ends, x, y))
		}
		y += height
	}
	d.height = y + margin/2
	d.write(w, "Time of a decision by this package and its peers")
}

// limiters leaves out what only shows a limit.
func limiters(all []result) []result {
	return filter(all, func(r result) bool { return r.peer.name != floor })
}

// bars draws a panel and returns its height.
func (d *drawing) bars(all []result, work string, cpus []int, x, y float64) float64 {
	shown := filter(all, func(r result) bool { return r.work.name == work && slices.Contains(cpus, r.cpus) })
	longest := 0.0
	for _, r := range shown {
		longest = max(longest, median(r.ns))
	}
	d.text("title", x, y+14, work)
	y += 22
	top := y
	for _, name := range distinct(shown, func(r result) string { return r.peer.name }) {
		class := "peer"
		if name == ours || name == coarse {
			class = "ours"
		}
		d.text("end", x+nameWidth-8, y+11, name)
		var labels []string
		end := 0.0
		for i, n := range cpus {
			them, _ := find(shown, work, name, n)
			us, _ := find(shown, work, ours, n)
			length := max(1, median(them.ns)/longest*barWidth)
			d.rect(class+cond(i > 0, " pale", ""), x+nameWidth, y+float64(i)*(barHeight+1), length, barHeight)
			end = max(end, length)
			labels = append(labels, label(us, them))
		}
		d.text("small", x+nameWidth+end+6, y+11, strings.Join(labels, ", "))
		y += rowHeight
	}
	d.line("axis", x+nameWidth-2, top-2, x+nameWidth-2, y)
	return y - top + 22 + 14
}

func label(us, them result) string {
	if them.peer.name == ours {
		return fmt.Sprintf("%.0f ns", median(us.ns))
	}
	return fmt.Sprintf("%.1f ×", 1/ratio(us, them))
}
