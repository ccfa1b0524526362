package main

import (
	"fmt"
	"math"
	"strings"
)

// chart draws Redis's script calls a second against the request rate, both on
// logarithmic scales.
func chart(rates []rateResult) string {
	const (
		width, height            = 640, 400
		left, right, top, bottom = 70, 610, 40, 340
		from, to                 = 1, 5 // powers of ten
	)
	x := func(v float64) float64 { return left + (math.Log10(v)-from)/(to-from)*(right-left) }
	y := func(v float64) float64 {
		return bottom - (math.Log10(max(v, 10))-from)/(to-from)*(bottom-top)
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&s, `<text x="%d" y="24" font-size="14">Redis script calls a second, one key over three gateways</text>`+"\n", left)
	for p := from; p <= to; p++ {
		v := math.Pow10(p)
		fmt.Fprintf(&s, `<path d="M%.1f %d V%d M%d %.1f H%d" stroke="#ddd"/>`+"\n", x(v), top, bottom, left, y(v), right)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`+"\n", x(v), bottom+18, v)
		fmt.Fprintf(&s, `<text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", left-8, y(v)+4, v)
	}
	fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="middle">requests a second</text>`+"\n", (left+right)/2, bottom+40)
	for name, colour := range map[string]string{"leases": "#0a6", "a script each": "#c40"} {
		var path strings.Builder
		var lastX, lastY float64
		for _, r := range rates {
			if r.System != name {
				continue
			}
			verb := "L"
			if path.Len() == 0 {
				verb = "M"
			}
			lastX, lastY = x(r.Asked), y(r.Scripts)
			fmt.Fprintf(&path, "%s%.1f %.1f ", verb, lastX, lastY)
			fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", lastX, lastY, colour)
		}
		fmt.Fprintf(&s, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), colour)
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="end" fill="%s">%s</text>`+"\n", lastX-6, lastY-10, colour, name)
	}
	s.WriteString("</svg>\n")
	return s.String()
}
