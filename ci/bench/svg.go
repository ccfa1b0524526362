package main

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// A drawing is an SVG image with its own background, in the reader's scheme of
// colours.
type drawing struct {
	width, height float64
	body          strings.Builder
}

const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .head { font-size: 15px; font-weight: 600 }
  .title { font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .end { text-anchor: end }
  .mid { text-anchor: middle }
  .page { fill: #ffffff }
  .axis { stroke: #d1d9e0 }
  .line { fill: none; stroke-width: 1.75 }
  .ours { fill: #0969da } .peer { fill: #8c959f } .pale { opacity: .5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .small { fill: #9198a1 }
    .page { fill: #0d1117 }
    .axis { stroke: #3d444d }
    .ours { fill: #4493f8 } .peer { fill: #7d8590 }
  }
`

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.body, format+"\n", args...) }

func (d *drawing) rect(class string, x, y, w, h float64) {
	d.add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="1.5"/>`, class, x, y, w, h)
}

func (d *drawing) text(class string, x, y float64, s string) {
	d.add(`<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(s))
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.add(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

// curve joins points; colour is one that both schemes can show.
func (d *drawing) curve(colour string, points [][2]float64) {
	var path strings.Builder
	for _, p := range points {
		fmt.Fprintf(&path, "%.1f,%.1f ", p[0], p[1])
	}
	d.add(`<polyline class="line" style="stroke: %s" points="%s"/>`, colour, strings.TrimSpace(path.String()))
	for _, p := range points {
		d.add(`<circle style="fill: %s" cx="%.1f" cy="%.1f" r="2.5"/>`, colour, p[0], p[1])
	}
}

func (d *drawing) write(w io.Writer, title string) {
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img">`+"\n", d.width, d.height, d.width, d.height)
	fmt.Fprintf(w, "<title>%s</title>\n<style>%s</style>\n", html.EscapeString(title), style)
	fmt.Fprintf(w, `<rect class="page" width="%.0f" height="%.0f" rx="6"/>`+"\n%s</svg>\n", d.width, d.height, d.body.String())
}
