package cluster_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"tokenbucket.internal/limiter"
)

func TestZZ(t *testing.T) {
	s := newSim(t, 3, 0, nil)
	l := newLoad("0123456789abcdef", limiter.Limit{Tokens: 1000, Period: time.Second, Burst: 1}, 4500, 250, 250)
	f, _ := os.Create("/tmp/zz.txt")
	var last [3]int64
	var by [3]int
	for now := time.Duration(0); now < 30*time.Second; now += 10 * time.Millisecond {
		s.run(l, now)
		fmt.Fprintf(f, "%v", now)
		for i, g := range s.gateways {
			st := g.Stats()
			out := st.Granted - st.Returned - int64(l.by[i])
			fmt.Fprintf(f, "  g%d +%d used %d out %d short", i, st.Granted-st.Returned-last[i], l.by[i]-by[i], out)
			last[i] = st.Granted - st.Returned
			by[i] = l.by[i]
		}
		fmt.Fprintln(f)
	}
	fmt.Println(l.peak(time.Second), l.peakAt(time.Second))
}
