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

// A dead key gets the gateway's refusals or ours, and costs no live key
// anything for longer than a refresh: not even those that share its bucket.
func TestH17FloodOfADeadKeyHarmsNobody(t *testing.T) {
	t.Parallel()
	for death, api := range h17 {
		t.Run(death, func(t *testing.T) {
			t.Parallel()
			c := of(t, api)
			group := rig.Object{"ratelimit": "20/s burst 20", "ratelimit_group": api}
			k := rig.Key{Metadata: group}
			if death == "expired" {
				k.Expires = time.Now().Add(2 * time.Second)
			}
			key, mate, other := c.newKey(k), c.key(group), c.key(limits("1/100s burst 20"))
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
			c.floodDead(key, mate, other)
		})
	}
}

func (c *client) floodDead(key, mate, other string) {
	c.t.Helper()
	var stop atomic.Bool
	flood := make(chan replies)
	go func() {
		flood <- c.flood(2, key, func(int) bool { return stop.Load() })
	}()
	err := rig.Until(context.Background(), learnLimit, func() error {
		for i := range 10 {
			if r := c.get(mate); !r.OK() {
				time.Sleep(time.Second) // its Retry-After: twenty tokens, if nobody takes them
				return fmt.Errorf("request %d of a live key of the same group: %v", i+1, r)
			}
		}
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
	c.admits(20, 20, rig.Request{Key: other})
	stop.Store(true)
	for _, r := range <-flood {
		if !rejected(r) && !r.Refused() {
			c.t.Fatalf("a dead key got %v", r)
		}
	}
}

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
