// Command cost measures what a request costs a real gateway in CPU time: with
// no limiter, with the gateway's own and with this plugin, admitted and
// refused. Only ratios of one run mean something, so short rounds in a new
// order each time are compared round by round. The gateway's own limiter is
// both the one of its default settings, in memory and approximate, and the one
// that is exact as the plugin is, the rolling window in Redis; a second gateway
// has that. Redis, the upstream and the load are other processes, and not
// counted.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"text/tabwriter"

	"tokenbucket.internal/ci/e2e/rig"
)

// A variant is one way to limit, and one outcome.
type variant struct {
	name, api, key string
	gateway        *rig.Gateway
	status         int
	micros         []float64 // CPU a request, round by round
}

const (
	noLimiter = "none"
	ownAPI    = "own"
	rolling   = "own-rolling"
	pluginAPI = "plugin"
	moreAPI   = "plugin-more" // with the response hook
)

func main() {
	rounds := flag.Int("rounds", 30, "rounds; at least 20 for a figure to quote")
	requests := flag.Int("requests", 2000, "requests of each variant in each round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), rig.StopSignals()...)
	defer stop()
	if err := run(ctx, *rounds, *requests); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds, requests int) (err error) {
	if rounds < 1 || requests < 100 {
		return errors.New("at least 1 round of 100 requests")
	}
	r, err := rig.New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if !r.Real() {
		return errors.New("set TYK_BIN and TYK_SRC: the development gateway's cost means nothing")
	}
	variants, err := start(ctx, r)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d variants, %d requests of each a round; warm-up\n", r.GatewayName(), len(variants), requests)
	if err := round(ctx, variants, requests); err != nil {
		return err
	}
	for _, v := range variants {
		v.micros = nil
	}
	for n := range rounds {
		if err := round(ctx, variants, requests); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", n+1, rounds)
	}
	print(variants, requests)
	return nil
}

// round measures every variant once, in a new order.
func round(ctx context.Context, variants []*variant, requests int) error {
	rand.Shuffle(len(variants), func(i, j int) { variants[i], variants[j] = variants[j], variants[i] })
	for _, v := range variants {
		micros, err := measure(ctx, v, requests)
		if err != nil {
			return err
		}
		v.micros = append(v.micros, micros)
	}
	return nil
}

func start(ctx context.Context, r *rig.Rig) ([]*variant, error) {
	own := rig.Object{"disable_rate_limit": false}
	g, err := r.Start(ctx, rig.Options{APIs: []rig.API{
		{ID: noLimiter, Plugin: rig.Nowhere},
		{ID: ownAPI, Plugin: rig.Nowhere, Fields: own},
		{ID: pluginAPI, Plugin: rig.FromFile},
		{ID: moreAPI, Plugin: rig.AllHooks},
	}})
	if err != nil {
		return nil, err
	}
	exact, err := r.Start(ctx, rig.Options{
		APIs: []rig.API{{ID: rolling, Plugin: rig.Nowhere, Fields: own}},
		Conf: rig.Object{"enable_redis_rolling_limiter": true},
	})
	if err != nil {
		return nil, err
	}
	variants := []*variant{
		{name: "no limiter, admitted", gateway: g, api: noLimiter, status: http.StatusOK},
		{name: "Tyk's own, admitted", gateway: g, api: ownAPI, status: http.StatusOK},
		{name: "Tyk's own, refused", gateway: g, api: ownAPI, status: http.StatusTooManyRequests},
		{name: "Tyk's own in Redis, admitted", gateway: exact, api: rolling, status: http.StatusOK},
		{name: "Tyk's own in Redis, refused", gateway: exact, api: rolling, status: http.StatusTooManyRequests},
		{name: "plugin, admitted", gateway: g, api: pluginAPI, status: http.StatusOK},
		{name: "plugin with the response hook, admitted", gateway: g, api: moreAPI, status: http.StatusOK},
		{name: "plugin, refused", gateway: g, api: pluginAPI, status: http.StatusTooManyRequests},
	}
	for _, v := range variants {
		if v.key, err = v.gateway.CreateKey(ctx, v.keyFor()); err != nil {
			return nil, err
		}
	}
	return variants, nil
}

// keyFor is a key whose limit is out of reach, or one that is refused from its
// second request on.
func (v *variant) keyFor() rig.Key {
	refused := v.status != http.StatusOK
	k := rig.Key{APIs: []string{v.api}}
	switch v.api {
	case ownAPI, rolling:
		k.Fields = rig.Object{"rate": 1e6, "per": 1}
		if refused {
			k.Fields = rig.Object{"rate": 1, "per": 3600}
		}
	case pluginAPI, moreAPI:
		k.Metadata = rig.Object{"ratelimit": "1000000/s"}
		if refused {
			k.Metadata = rig.Object{"ratelimit": "1/h"}
		}
	}
	return k
}

const clients = 16 // enough to keep the gateway busy

// sent is how many requests are sent if each client sends as many.
func sent(requests int) int { return requests / clients * clients }

// measure sends the requests over a few connections and returns the gateway's
// CPU time for each, in microseconds.
func measure(ctx context.Context, v *variant, requests int) (float64, error) {
	send := func() error {
		if r := v.gateway.Send(ctx, rig.Request{Path: "/" + v.api + "/", Key: v.key}); r.Err != nil || r.Status != v.status {
			return fmt.Errorf("%s: got %v, want %d", v.name, r, v.status)
		}
		return nil
	}
	if v.status != http.StatusOK { // drain it
		for range 50 {
			if send() == nil {
				break
			}
		}
	}
	before, err := v.gateway.CPU()
	if err != nil {
		return 0, err
	}
	var all sync.WaitGroup
	failures := make(chan error, clients)
	for range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			for range requests / clients {
				if err := send(); err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	all.Wait()
	after, err := v.gateway.CPU()
	if err != nil {
		return 0, err
	}
	select {
	case err := <-failures:
		return 0, err
	default:
	}
	return float64((after - before).Nanoseconds()) / 1e3 / float64(sent(requests)), nil
}

// print writes the table and what the ratios come to.
func print(variants []*variant, requests int) {
	slices.SortFunc(variants, func(a, b *variant) int {
		return cmp.Or(a.status-b.status, cmp.Compare(median(a.micros), median(b.micros)))
	})
	find := func(api string, status int) *variant {
		return variants[slices.IndexFunc(variants, func(v *variant) bool { return v.api == api && v.status == status })]
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "variant\trequests\tCPU us/request\tto Tyk's own\t10 to 90 %\t")
	for _, v := range variants {
		row(w, v, find(ownAPI, v.status), sent(requests))
	}
	_ = w.Flush()
	fmt.Println()
	for _, own := range []string{ownAPI, rolling} {
		verdict("refused", find(pluginAPI, 429), find(own, 429), 0.50)
		verdict("admitted", find(pluginAPI, 200), find(own, 200), 1.10)
	}
}

func row(w io.Writer, v, own *variant, requests int) {
	r := ratios(v, own)
	fmt.Fprintf(w, "%s\t%d\t%.1f\t%.2f\t%.2f to %.2f\t\n", v.name, requests*len(r), median(v.micros), median(r), quantile(r, 0.1), quantile(r, 0.9))
}

func verdict(what string, plugin, own *variant, goal float64) {
	r := ratios(plugin, own)
	word := "reached"
	if median(r) > goal {
		word = "not reached"
	}
	fmt.Printf("%s: %.2f of %q, the median of %d rounds; the goal of %.2f is %s\n", what, median(r), own.name, len(r), goal, word)
}

func ratios(a, b *variant) []float64 {
	r := make([]float64, len(a.micros))
	for i := range r {
		r[i] = a.micros[i] / b.micros[i]
	}
	return r
}

func median(v []float64) float64 { return quantile(v, 0.5) }

func quantile(v []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
