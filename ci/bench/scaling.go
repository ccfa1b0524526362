package main

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// colours can be told apart on light and on dark ground.
var colours = map[string]string{
	ours: "#2f81f7", coarse: "#39c5cf", "x/time": "#d29922", "juju": "#db61a2",
	"uber": "#8b949e", "throttled": "#a371f7", "sethvargo": "#3fb950", "ulule": "#f85149",
	"sync.Map": "#d29922", "mutex map": "#db6d28", "LRU": "#b08968",
}

const plotHeight = 170.0

// writeScaling draws decisions a second over the number of CPUs.
func writeScaling(w io.Writer, all []result) {
	all = limiters(all)
	d := &drawing{width: 2*panelWidth + 3*margin}
	d.text("head", margin, 28, "Million decisions a second, over the number of CPUs: higher is better")
	y := headHeight - 8
	for pair := range slices.Chunk(workNames(all), 2) {
		for i, work := range pair {
			d.curves(all, work, margin+float64(i)*(panelWidth+margin), y)
		}
		y += plotHeight + 66
	}
	d.height = y
	d.write(w, "Decisions a second over the number of CPUs")
}

// millions is the throughput in a million a second.
func millions(r result) float64 { return 1e3 / median(r.ns) }

// scale is 1, 2, 5, 10 and so on from below least to above most.
func scale(least, most float64) (ticks []float64) {
	for e := math.Floor(math.Log10(least)); ; e++ {
		for _, v := range []float64{1, 2, 5} {
			v *= math.Pow(10, e)
			if v <= least {
				ticks = ticks[:0]
			}
			ticks = append(ticks, v)
			if v > most {
				return ticks
			}
		}
	}
}

func (d *drawing) curves(all []result, work string, x, y float64) {
	shown := filter(all, func(r result) bool { return r.work.name == work })
	cpus := cpuCounts(shown)
	least, most := math.Inf(1), 0.0
	for _, r := range shown {
		least, most = min(least, millions(r)), max(most, millions(r))
	}
	ticks := scale(least, most)
	least, most = ticks[0], ticks[len(ticks)-1]
	const left, right = 32.0, 90.0
	wide := panelWidth - left - right
	at := func(n int, v float64) [2]float64 {
		place := float64(slices.Index(cpus, n)) / max(1, float64(len(cpus)-1))
		return [2]float64{x + left + place*wide, y + 22 + plotHeight*math.Log(most/v)/math.Log(most/least)}
	}
	d.text("title", x, y+14, work)
	for _, v := range ticks {
		p := at(cpus[0], v)
		d.line("axis", x+left, p[1], x+left+wide, p[1])
		d.text("small end", x+left-6, p[1]+4, fmt.Sprintf("%g", v))
	}
	for _, n := range cpus {
		d.text("small mid", at(n, least)[0], y+22+plotHeight+16, fmt.Sprint(n))
	}
	free := y + 22
	for _, name := range distinct(shown, func(r result) string { return r.peer.name }) {
		var points [][2]float64
		for _, n := range cpus {
			if r, ok := find(shown, work, name, n); ok {
				points = append(points, at(n, millions(r)))
			}
		}
		d.curve(colours[name], points)
		d.add(`<circle style="fill: %s" cx="%.1f" cy="%.1f" r="4"/>`, colours[name], x+left+wide+16, free)
		d.text("small", x+left+wide+26, free+4, name)
		free += 17
	}
}
