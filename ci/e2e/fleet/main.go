// Command fleet measures one limit over three gateway processes that share a
// Redis, over HTTP and above the limit: how much of the limit is used, the most
// that is admitted in any second, what Redis is asked for, and what happens
// while it is gone. Where the machine is too slow for the load, the column
// "asked/s" says so.
//
//	go run ./fleet [-time 30s] [-offered 5000] [-out fleet.txt]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

const (
	api      = "fleet"
	gateways = 3
	rate     = 1000 // the limit, a second
)

func main() {
	length := flag.Duration("time", 30*time.Second, "length of each load; Redis is gone for a third of its own")
	offered := flag.Float64("offered", 5*rate, "requests a second to all gateways")
	out := flag.String("out", "", "file for the tables too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), rig.StopSignals()...)
	defer stop()
	var text bytes.Buffer
	err := run(ctx, io.MultiWriter(os.Stdout, &text), *length, *offered)
	if err == nil && *out != "" {
		err = os.WriteFile(*out, text.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// A fleet is the gateways and what they share.
type fleet struct {
	gateways []*rig.Gateway
	redis    *rig.Redis
}

func run(ctx context.Context, report io.Writer, length time.Duration, offered float64) (err error) {
	if length < 3*time.Second || offered < 1 {
		return errors.New("-time is 3s or more, -offered 1 or more")
	}
	r, err := rig.New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	redis, err := r.StartRedis(ctx)
	if err != nil {
		return err
	}
	defer redis.Close()
	f := &fleet{redis: redis}
	for range gateways {
		g, err := r.Start(ctx, rig.Options{
			APIs: []rig.API{{ID: api}},
			Env:  []string{"TYK_RATELIMIT_CLUSTER=redis", "TYK_RATELIMIT_REDIS_URL=" + redis.URL},
		})
		if err != nil {
			return err
		}
		f.gateways = append(f.gateways, g)
	}
	fmt.Fprintf(report, "%d of the %s, limit %d/s, %v each\n\n", gateways, r.GatewayName(), rate, length)
	if err := f.loads(ctx, report, length, offered); err != nil {
		return err
	}
	return f.outage(ctx, report, length, offered)
}

// shapes are how the load is spread over the gateways.
var shapes = []struct {
	name   string
	shares [gateways]float64
}{
	{"even", [gateways]float64{1. / 3, 1. / 3, 1. / 3}},
	{"90/5/5", [gateways]float64{.90, .05, .05}},
}

func (f *fleet) loads(ctx context.Context, report io.Writer, length time.Duration, offered float64) error {
	w := tabwriter.NewWriter(report, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "burst\tload\tasked/s\tuse of the limit\tmost in 1 s\tby gateway\tscripts/s and gateway\tp50\tp99\t")
	for _, burst := range []int{100, 10, 1} {
		for _, shape := range shapes {
			fmt.Fprintf(os.Stderr, "burst %d, %s\n", burst, shape.name)
			key, err := f.key(ctx, fmt.Sprintf("fleet-%d-%s", burst, strings.ReplaceAll(shape.name, "/", "-")), burst)
			if err != nil {
				return err
			}
			before, err := f.redis.Scripts()
			if err != nil {
				return err
			}
			a, err := f.load(ctx, key, length, offered, shape.shares)
			if err != nil {
				return err
			}
			after, err := f.redis.Scripts()
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%.1f %%\t%.3f\t%v\t%.1f\t%v\t%v\t\n", burst, shape.name,
				float64(len(a.list))/a.span().Seconds(), 100*a.use(burst), float64(a.peak(time.Second))/float64(rate+burst), a.by(),
				float64(after-before)/gateways/a.span().Seconds(), a.wait(0.5), a.wait(0.99))
		}
	}
	return w.Flush()
}

// key makes a key with that burst on every gateway, and has each authenticate it
// once, long enough ago for its bucket to be full again.
func (f *fleet) key(ctx context.Context, id string, burst int) (string, error) {
	for _, g := range f.gateways {
		limit := rig.Object{"ratelimit": fmt.Sprintf("%d/s burst %d", rate, burst)}
		if err := g.CreateKeyAs(ctx, id, rig.Key{APIs: []string{api}, Metadata: limit}); err != nil {
			return "", err
		}
		if r := g.Send(ctx, rig.Request{Path: "/" + api + "/", Key: id}); r.Err != nil {
			return "", r.Err
		}
	}
	select {
	case <-time.After(2 * time.Second):
		return id, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// outage kills Redis for the second third of a load.
func (f *fleet) outage(ctx context.Context, report io.Writer, length time.Duration, offered float64) error {
	const burst = 100
	third := length / 3
	fmt.Fprintln(os.Stderr, "Redis killed")
	key, err := f.key(ctx, "fleet-outage", burst)
	if err != nil {
		return err
	}
	begin := time.Now()
	var gone, back time.Duration
	restarted := make(chan error, 1)
	go func() {
		time.Sleep(third)
		gone = time.Since(begin)
		f.redis.Kill()
		time.Sleep(third)
		err := f.redis.Start(ctx)
		back = time.Since(begin)
		restarted <- err
	}()
	a, err := f.load(ctx, key, length, offered, shapes[0].shares)
	if err := errors.Join(err, <-restarted); err != nil {
		return err
	}
	shift := a.start.Sub(begin)
	gone, back = gone-shift, back-shift
	n := a.admitted(gone, back)
	fmt.Fprintf(report, "\nRedis killed for %.1f s, burst %d, even load:\n", (back - gone).Seconds(), burst)
	fmt.Fprintf(report, "  %.1f %% of the limit used meanwhile (at most %d tokens are allowed beyond it, one burst for each gateway)\n",
		100*float64(n)/(rate*(back-gone).Seconds()), gateways*burst)
	fmt.Fprintf(report, "  in the whole load %.1f %%; the least in 1 s %.1f %%, the most %.3f of rate + burst\n",
		100*a.use(burst), 100*float64(a.least(time.Second))/rate, float64(a.peak(time.Second))/(rate+burst))
	again := "not within this load"
	if d, ok := a.recovered(back, 0.97); ok {
		again = fmt.Sprintf("%v after it was back", d)
	}
	fmt.Fprintf(report, "  97 %% in 1 s again: %s; the longest answer took %v\n", again, a.wait(1))
	return nil
}
