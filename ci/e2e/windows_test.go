package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

var forms = shared.api(rig.API{ID: "forms", RateLimit: rig.Object{"default": "1/h burst 1"}})

// The forms that dashboards can store are texts; what they hold is the same.
func TestFormsOfSeveralWindows(t *testing.T) {
	t.Parallel()
	c := of(t, forms)
	for _, form := range []any{
		"100/s, 1/1000s burst 3", `["100/s", "1/1000s burst 3"]`, []any{"100/s", "1/1000s burst 3"},
		[]any{100, rig.Object{"rate": 1, "per": "1000s", "burst": 3}}, `[{"rate": 100}, {"rate": "1/1000s", "burst": "3"}]`,
	} {
		key := c.key(limits(form))
		c.admits(3, 3, rig.Request{Key: key})
		if got := c.wantRefused(key).Header.Get("RateLimit-Policy"); got != `"per-1000s";q=1;w=1000` {
			t.Errorf("%v: refused by %s", form, got)
		}
	}
	for _, form := range []any{0, -1, "unlimited", "-1", rig.Object{"rate": 0}} {
		c.wantAdmitted(10, c.key(rig.Object{"ratelimit_override": form, "ratelimit": "1/h"}))
	}
}

// manyLimits are the bursts of four limits of one request, none of which refills
// while the test runs.
type manyLimits struct{ short, long, endpoint, total int }

func (m manyLimits) api(id string, oas bool) rig.API {
	return rig.API{ID: id, OAS: oas, RateLimit: rig.Object{
		"endpoints": []any{rig.Object{"method": "GET", "path": "/e/{id}", "limit": fmt.Sprintf("1/d burst %d", m.endpoint)}},
		"api_total": fmt.Sprintf("1/d burst %d", m.total),
	}}
}

var manyCases = map[string]manyLimits{
	"many-short":    {30, 90, 90, 90},
	"many-long":     {90, 30, 90, 90},
	"many-endpoint": {90, 90, 30, 90},
	"many-total":    {90, 90, 90, 30},
}

func init() {
	for id, m := range manyCases {
		shared.api(m.api(id, id == "many-total"))
	}
}

// Ten clients at once, over two windows, an endpoint's limit and a total: the
// tightest is used up to the last token, and no other is charged for a refusal.
func TestManyLimitsAreExactTogether(t *testing.T) {
	t.Parallel()
	for id, m := range manyCases {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			c := of(t, id)
			key := c.key(limits(fmt.Sprintf("1/h burst %d, 1/d burst %d", m.short, m.long)))
			var admitted atomic.Int64
			var all sync.WaitGroup
			for range 10 {
				all.Add(1)
				go func() {
					defer all.Done()
					for i := range 12 {
						if r := c.send(rig.Request{Key: key, Path: fmt.Sprint("e/", i)}); r.OK() {
							admitted.Add(1)
						} else if !r.Refused() {
							t.Error(r)
						}
					}
				}()
			}
			all.Wait()
			if n := admitted.Load(); n != 30 {
				t.Errorf("%d admitted, want 30", n)
			}
			// Another path has what the others left, and so has another key.
			left := map[string]int{"many-endpoint": 60}[id]
			c.admits(left, left+1, rig.Request{Key: key, Path: "other"})
		})
	}
}

var endpoints = shared.api(rig.API{ID: "endpoints", RateLimit: rig.Object{
	"endpoints": []any{
		rig.Object{"method": "POST", "path": "/orders", "limit": "1/h burst 2"},
		rig.Object{"path": "/reports/*", "limit": "1/h burst 3", "replace": true},
	},
	"costs": []any{
		rig.Object{"path": "/batch", "cost": 5},
		rig.Object{"path": "/bulk", "header": "X-Items", "min": 2, "max": 8},
	},
}})

func TestEndpointsAndCosts(t *testing.T) {
	t.Parallel()
	c := of(t, endpoints)
	key := c.key(limits("1/h burst 20"))
	c.admits(2, 4, rig.Request{Key: key, Method: "POST", Path: "orders"})
	c.admits(0, 1, rig.Request{Key: key, Method: "POST", Path: "orders/"})
	c.admits(3, 5, rig.Request{Key: key, Path: "reports/a/b"})
	costs := func(path, items string, want int) {
		t.Helper()
		before := remaining(t, c.send(rig.Request{Key: key, Path: "x"}))
		after := remaining(t, c.send(rig.Request{Key: key, Path: path, Header: rig.Header{"X-Items": items}}))
		if before-after != want {
			t.Errorf("%s with %s items cost %d, want %d", path, items, before-after, want)
		}
	}
	costs("batch", "", 5) // 18 were left
	costs("bulk", "1", 2)
	costs("bulk", "4000000000000", 8)
	c.admits(0, 1, rig.Request{Key: key, Path: "batch"})
	c.admits(0, 1, rig.Request{Key: key})

	own := c.key(rig.Object{"ratelimit": "1/h burst 20", "ratelimit_endpoints": `[{"path": "/orders", "limit": "unlimited", "replace": true}]`})
	c.admits(9, 9, rig.Request{Key: own, Method: "POST", Path: "orders"})
	if got := remaining(t, c.get(own)); got != 19 {
		t.Errorf("%d left, want 19", got)
	}
}
