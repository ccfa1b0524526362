package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

var (
	h07  = shared.api(rig.API{ID: "h07"})
	h07b = shared.api(rig.API{ID: "h07-b"})
)

func TestH07FloodOfOneKeyCostsAnotherNothing(t *testing.T) {
	t.Parallel()
	a, b := of(t, h07), of(t, h07b)
	flooding, key := a.key(limits("5/s burst 5")), b.key(limits("1/100s burst 20"))
	var stop atomic.Bool
	flooded := make(chan replies)
	go func() { flooded <- a.flood(8, flooding, func(int) bool { return stop.Load() }) }()
	calm := b.steady(key, 50*time.Millisecond, 1050*time.Millisecond)
	stop.Store(true)
	(<-flooded).check(t, 5, 5)
	if got := calm.admitted(); got != 20 {
		t.Errorf("%d of %d admitted, want 20", got, len(calm))
	}
}

var h08 = shared.api(rig.API{ID: "h08"})

func TestH08RotatedKeyHasNoFreshBurst(t *testing.T) {
	t.Parallel()
	c := of(t, h08)
	grouped := rig.Object{"ratelimit": "1/100s burst 5", "ratelimit_group": "customer 8"}
	old := c.key(grouped)
	c.wantAdmitted(3, old)
	rotated := c.key(grouped)
	if err := c.g.DeleteKey(context.Background(), old); err != nil {
		t.Fatal(err)
	}
	if got := c.atOnce(10, rotated).admitted(); got != 2 {
		t.Errorf("%d admitted, want the 2 that the old key had left", got)
	}
}

// Two APIs with a default of their own.
var h09 = []string{
	shared.api(rig.API{ID: "h09-a", RateLimit: rig.Object{"default": "1/100s burst 4"}}),
	shared.api(rig.API{ID: "h09-b", RateLimit: rig.Object{"default": "1/100s burst 4"}}),
}

func TestH09OneKeyOnTwoAPIsInEitherOrder(t *testing.T) {
	t.Parallel()
	clients := []*client{of(t, h09[0]), of(t, h09[1])}
	for _, scope := range []struct {
		name string
		key  rig.Key
		want [2]int // of six on the first API, then of six on the second
	}{
		{"metadata: one bucket", rig.Key{Metadata: limits("1/100s burst 5")}, [2]int{5, 0}},
		{"the API's default: a bucket each", rig.Key{}, [2]int{4, 4}},
		{"the session's rate: one bucket", rig.Key{Fields: rig.Object{"rate": 3, "per": 300}}, [2]int{3, 0}},
		{"a limit for each API: a bucket each", rig.Key{PerAPI: rig.Rate{Rate: 3, Per: 300}}, [2]int{3, 3}},
	} {
		for _, order := range [][]*client{clients, {clients[1], clients[0]}} {
			scope.key.APIs = h09
			key := order[0].newKey(scope.key)
			var got [2]int
			for i, c := range order {
				got[i] = c.atOnce(6, key).admitted()
			}
			if got != scope.want {
				t.Errorf("%s, %s first: %v admitted, want %v", scope.name, order[0].api, got, scope.want)
			}
		}
	}
}

var h17 = map[string]string{
	"expired": shared.api(rig.API{ID: "h17-expired"}),
	"deleted": shared.api(rig.API{ID: "h17-deleted"}),
}

func TestH17FloodOfADeadKeyIsLimited(t *testing.T) {
	t.Parallel()
	for death, api := range h17 {
		t.Run(death, func(t *testing.T) {
			t.Parallel()
			c := of(t, api)
			k := rig.Key{Metadata: limits("20/s burst 20")}
			if death == "expired" {
				k.Expires = time.Now().Add(2 * time.Second)
			}
			key, other := c.newKey(k), c.key(limits("1/100s burst 20"))
			c.wantAdmitted(1, key)
			if death == "deleted" {
				if err := c.g.DeleteKey(context.Background(), key); err != nil {
					t.Fatal(err)
				}
			}
			until(t, learnLimit, func() error {
				if r := c.get(key); !rejected(r) {
					return fmt.Errorf("the key is alive: %v", r)
				}
				return nil
			})
			c.floodDead(key, other)
		})
	}
}

func (c *client) floodDead(key, other string) {
	c.t.Helper()
	rs := c.flood(4, key, func(sent int) bool { return sent >= 400 })
	passed := 0
	// One in every refresh goes on to authentication without a token.
	_, longest, _ := rs.spans(20)
	looks := 1 + int(longest/(2*time.Second))
	for i, r := range rs {
		switch {
		case rejected(r): // not refused by the limit: shown as admitted to check
			if passed++; passed > looks {
				rs[i].Header = http.Header{"X-Upstream": {"yes"}}
			}
		case !r.Refused():
			c.t.Fatalf("a dead key got %v", r)
		}
	}
	if passed == len(rs) {
		c.t.Errorf("none of %d requests was refused by the limit", passed)
	}
	// Nor is it sure that each of those looks came.
	rs.checkFrom(c.t, 20, 20, -float64(looks))
	c.wantAdmitted(20, other)
}

// rejected reports that authentication did not accept the key.
func rejected(r rig.Reply) bool {
	return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, r.Status)
}

var h20 = shared.api(rig.API{ID: "h20", Auth: rig.Object{
	"use_param": true, "param_name": "api_key", "use_cookie": true, "cookie_name": "api_cookie",
}})

func TestH20OneBucketWhereverTheKeyIs(t *testing.T) {
	t.Parallel()
	c := of(t, h20)
	key := c.key(limits("1/100s burst 5"))
	forms := map[string]rig.Request{
		"header":        {Key: key},
		"bearer header": {Key: "Bearer " + key},
		"parameter":     {Path: "?api_key=" + key},
		"cookie":        {Header: rig.Header{"Cookie": "api_cookie=" + key}},
		"wrong header":  {Key: "somebody-else", Path: "?api_key=" + key},
	}
	for name, q := range forms {
		if r := c.send(q); !r.OK() {
			t.Errorf("%s: %v, want it admitted", name, r)
		}
	}
	for name, q := range forms {
		if r := c.send(q); !r.Refused() {
			t.Errorf("%s: %v, want 429", name, r)
		}
	}
}

var h21 = map[string]string{
	"anonymous": shared.api(rig.API{ID: "h21-anonymous", Keyless: true, RateLimit: rig.Object{"anonymous": "1/100s burst 3"}}),
	"default":   shared.api(rig.API{ID: "h21-default", OAS: true, Keyless: true, RateLimit: rig.Object{"default": "1/100s burst 3"}}),
}

func TestH21KeylessAPILimitsEachAddress(t *testing.T) {
	t.Parallel()
	for setting, api := range h21 {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			c := of(t, api)
			for _, address := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
				admitted := 0
				for range 5 {
					if c.send(rig.Request{Header: rig.Header{"X-Real-IP": address}}).OK() {
						admitted++
					}
				}
				if admitted != 3 {
					t.Errorf("%s: %d of 5 admitted, want 3", address, admitted)
				}
			}
		})
	}
}
