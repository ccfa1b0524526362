package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// board counts what becomes of each key's requests. It stands in front of the
// gateway, so that it can watch any.
type board struct {
	mu     sync.Mutex
	counts []*count // in the order of the keys
}

type count struct {
	key
	admitted, refused, failed int
	left                      string          // tokens, by the last answer
	hooks                     []time.Duration // the hooks' own time
	first, last               time.Time       // from the first request to the last answer
	printed                   int             // requests when the last line was printed
}

func newBoard(keys []key) *board {
	b := &board{}
	for _, k := range keys {
		b.counts = append(b.counts, &count{key: k, left: "-"})
	}
	return b
}

func (b *board) proxy(gateway string) http.Handler {
	target, _ := url.Parse(gateway) // the rig's own
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			if c := b.countOf(p.In); c != nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				c.begin()
			}
		},
		ModifyResponse: func(res *http.Response) error {
			if c := b.countOf(res.Request); c != nil {
				b.mu.Lock()
				defer b.mu.Unlock()
				c.note(res)
			}
			res.Header.Del("Server-Timing")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil { // else the client has gone
				b.failed(r)
			}
			http.Error(w, "demo: the gateway does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
}

// countOf returns the count that a request belongs to, nil if to none.
func (b *board) countOf(r *http.Request) *count {
	if !strings.HasPrefix(r.URL.Path, "/"+api+"/") {
		return nil
	}
	for _, c := range b.counts {
		if c.name == r.Header.Get("Authorization") {
			return c
		}
	}
	return nil
}

// failed counts a request that the gateway has not answered.
func (b *board) failed(r *http.Request) {
	if c := b.countOf(r); c != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.last = time.Now()
		c.failed++
	}
}

var (
	tokensLeft = regexp.MustCompile(`;r=(\d+)`)
	hooksTook  = regexp.MustCompile(`hooks;dur=([0-9.]+)`)
)

func (c *count) begin() {
	if c.first.IsZero() {
		c.first = time.Now()
	}
}

func (c *count) note(res *http.Response) {
	c.last = time.Now()
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		c.refused++
	case res.StatusCode < 300:
		c.admitted++
	default:
		c.failed++
	}
	if m := tokensLeft.FindStringSubmatch(res.Header.Get("RateLimit")); m != nil {
		c.left = m[1]
	}
	if m := hooksTook.FindStringSubmatch(res.Header.Get("Server-Timing")); m != nil {
		ms, _ := strconv.ParseFloat(m[1], 64)
		c.hooks = append(c.hooks, time.Duration(ms*float64(time.Millisecond)))
	}
}

func (c *count) total() int { return c.admitted + c.refused + c.failed }

// print writes a line for each key that had requests since the last time.
func (b *board) print() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.counts {
		if c.total() == c.printed {
			continue
		}
		c.printed = c.total()
		fmt.Printf("%s  %-5s admitted %6d   refused %6d   tokens left %4s", time.Now().Format(time.TimeOnly), c.name, c.admitted, c.refused, c.left)
		if c.failed > 0 {
			fmt.Printf("   other answers %d", c.failed)
		}
		fmt.Println()
	}
}

// demonstrate sends what each key offers, evenly, and prints what came of it.
func (b *board) demonstrate(ctx context.Context, url string, length time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	var senders sync.WaitGroup
	for _, k := range keys {
		senders.Add(1)
		go func() {
			defer senders.Done()
			b.offer(ctx, client, url, k)
		}()
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			b.print()
		case <-ctx.Done():
		}
	}
	senders.Wait()
	return b.table()
}

// offer sends one request every so often, whether or not those before have
// been answered, and waits for all answers.
func (b *board) offer(ctx context.Context, client *http.Client, url string, k key) {
	var sent sync.WaitGroup
	defer sent.Wait()
	tick := time.NewTicker(time.Second / time.Duration(k.offer))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sent.Add(1)
		go func() {
			defer sent.Done()
			req, _ := http.NewRequest(http.MethodGet, url+"/"+api+"/", nil)
			req.Header.Set("Authorization", k.name)
			res, err := client.Do(req)
			if err != nil {
				b.failed(req)
				return
			}
			res.Body.Close()
		}()
	}
}

// table is the result. It is an error if a key got more than its limit allows,
// or something else than the demo shows.
func (b *board) table() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "key\tlimit\toffered\tadmitted\tlimit allows\trefused\thooks p50\thooks p99\t")
	var over []string
	failed := 0
	for _, c := range b.counts {
		allows := int(c.burst + c.rate*c.last.Sub(c.first).Seconds())
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t\n", c.name, c.limit, c.total(), c.admitted, allows, c.refused, c.percentile(50), c.percentile(99))
		if c.admitted > allows {
			over = append(over, c.name)
		}
		failed += c.failed
	}
	_ = w.Flush()
	if failed > 0 {
		return fmt.Errorf("demo: %d requests got no answer, or another than 200 or 429; with -log the demo shows the gateway's log", failed)
	}
	if len(over) > 0 {
		return fmt.Errorf("demo: more was admitted than the limit of %s allows", strings.Join(over, " and "))
	}
	return nil
}

func (c *count) percentile(p int) string {
	if len(c.hooks) == 0 {
		return "-" // not the development gateway
	}
	slices.Sort(c.hooks)
	return c.hooks[(len(c.hooks)-1)*p/100].Round(100 * time.Nanosecond).String()
}
