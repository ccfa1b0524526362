package e2e

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

var versionNumber = regexp.MustCompile(`\b\d+\.\d+\.\d+\b`)

// client is one test's view of one API, which no other test uses.
type client struct {
	t      *testing.T
	g      *rig.Gateway
	api    string
	before int // upstream hits

	mu     sync.Mutex
	served int
}

// of returns a client of an API of the shared gateway.
func of(t *testing.T, api string) *client {
	t.Helper()
	return clientOf(t, shared.start(t), api)
}

// clientOf checks at the end of the test that the upstream has seen what was
// admitted, and nothing else.
func clientOf(t *testing.T, g *rig.Gateway, api string) *client {
	c := &client{t: t, g: g, api: api, before: g.Upstream.Hits(api)}
	t.Cleanup(func() {
		if hits := g.Upstream.Hits(api) - c.before; hits != c.served {
			t.Errorf("%s: %d requests have reached the upstream, %d were answered by it", api, hits, c.served)
		}
	})
	return c
}

// limits is the metadata with a limit.
func limits(limit any) rig.Object { return rig.Object{"ratelimit": limit} }

// key makes a key for this API.
func (c *client) key(metadata rig.Object) string {
	c.t.Helper()
	return c.newKey(rig.Key{Metadata: metadata})
}

func (c *client) newKey(k rig.Key) string {
	c.t.Helper()
	if k.APIs == nil && k.Policies == nil {
		k.APIs = []string{c.api}
	}
	id, err := c.g.CreateKey(context.Background(), k)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

func (c *client) update(id string, metadata rig.Object) {
	c.t.Helper()
	err := c.g.UpdateKey(context.Background(), id, rig.Key{APIs: []string{c.api}, Metadata: metadata})
	if err != nil {
		c.t.Fatal(err)
	}
}

// send sends to a path of the API. Any number of goroutines may.
func (c *client) send(q rig.Request) rig.Reply {
	q.Path = "/" + c.api + "/" + q.Path
	r := c.g.Send(context.Background(), q)
	if r.Err != nil {
		c.t.Errorf("%s: %v", c.api, r.Err)
	}
	if r.OK() {
		c.mu.Lock()
		c.served++
		c.mu.Unlock()
	}
	return r
}

func (c *client) get(key string) rig.Reply { return c.send(rig.Request{Key: key}) }

// atOnce sends n requests at the same time.
func (c *client) atOnce(n int, key string) replies {
	rs := make(replies, n)
	var all sync.WaitGroup
	for i := range rs {
		all.Add(1)
		go func() {
			defer all.Done()
			rs[i] = c.get(key)
		}()
	}
	all.Wait()
	return rs
}

// steady sends one request every so often, whether or not the one before has
// been answered.
func (c *client) steady(key string, every, length time.Duration) replies {
	rs := make(replies, length/every)
	var all sync.WaitGroup
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range rs {
		<-tick.C
		all.Add(1)
		go func() {
			defer all.Done()
			rs[i] = c.get(key)
		}()
	}
	all.Wait()
	return rs
}

// flood sends as fast as it can from several clients, until enough says so.
func (c *client) flood(clients int, key string, enough func(sent int) bool) replies {
	var (
		all sync.WaitGroup
		mu  sync.Mutex
		rs  replies
	)
	for range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				r := c.get(key)
				mu.Lock()
				rs = append(rs, r)
				done := enough(len(rs)) || r.Err != nil
				mu.Unlock()
				if done {
					return
				}
			}
		}()
	}
	all.Wait()
	return rs
}

// wantAdmitted fails unless n requests with the key are all admitted.
func (c *client) wantAdmitted(n int, key string) {
	c.t.Helper()
	rs := c.atOnce(n, key)
	for _, r := range rs {
		if !r.OK() {
			c.t.Fatalf("%s: %d of %d admitted, want all; one got %v", c.api, rs.admitted(), n, r)
		}
	}
}

func (c *client) wantRefused(key string) rig.Reply {
	c.t.Helper()
	r := c.get(key)
	if !r.Refused() {
		c.t.Fatalf("%s: got %v, want 429", c.api, r)
	}
	return r
}

// until polls a condition.
func until(t *testing.T, limit time.Duration, condition func() error) {
	t.Helper()
	if err := rig.Until(context.Background(), limit, condition); err != nil {
		t.Fatal(err)
	}
}

// remaining is the r of a reply's RateLimit field.
func remaining(t *testing.T, r rig.Reply) int {
	t.Helper()
	m := ratelimitField.FindStringSubmatch(r.Header.Get("RateLimit"))
	if m == nil {
		t.Fatalf("no usable RateLimit field: %v", r)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

var ratelimitField = regexp.MustCompile(`^"default";r=(\d+);t=\d+$`)

// replies to requests with one key.
type replies []rig.Reply

func (rs replies) admitted() int {
	n := 0
	for _, r := range rs {
		if r.OK() {
			n++
		}
	}
	return n
}

// check holds what was admitted, from a bucket that was full, against rate
// tokens a second, as exactly as the times of the replies allow: not more than
// the bucket had in the longest time that may have passed between the first
// decision and the last, and what it had in the shortest.
func (rs replies) check(t *testing.T, rate float64, burst int) {
	t.Helper()
	rs.checkFrom(t, rate, burst, float64(burst))
}

// checkFrom is check for a bucket that had at least so many tokens.
func (rs replies) checkFrom(t *testing.T, rate float64, burst int, tokens float64) {
	t.Helper()
	shortest, longest, lost := rs.spans(rate)
	most := float64(burst) + rate*longest.Seconds()
	least := min(float64(len(rs)), max(tokens, tokens+rate*shortest.Seconds()-lost-1))
	if got := float64(rs.admitted()); got > most || got < least {
		t.Errorf("%v of %d admitted in %v, want %.1f to %.1f", got, len(rs), longest.Round(time.Millisecond), least, most)
	}
}

// spans returns the shortest and the longest time between the first and the
// last decision, and how many tokens a bucket may have lost, full, while no
// request came.
func (rs replies) spans(rate float64) (shortest, longest time.Duration, lost float64) {
	slices.SortFunc(rs, func(a, b rig.Reply) int { return a.Sent.Compare(b.Sent) })
	first, last := rs[0], rs[0]
	for i, r := range rs {
		if r.Received.Before(first.Received) {
			first = r
		}
		if r.Received.After(last.Received) {
			last = r
		}
		if i > 0 {
			lost += max(0, rate*r.Received.Sub(rs[i-1].Sent).Seconds()-1)
		}
	}
	shortest = max(0, rs[len(rs)-1].Sent.Sub(first.Received))
	return shortest, last.Received.Sub(rs[0].Sent), lost
}
