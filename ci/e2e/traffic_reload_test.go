package e2e

import (
	"context"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

var reloadAPIs = []rig.API{{ID: "reload-classic"}, {ID: "reload-oas", OAS: true}}

func TestH18ReloadsUnderTrafficLoseNoRequestAndRefillNoBucket(t *testing.T) {
	t.Parallel()
	g := own(t, rig.Options{APIs: reloadAPIs})
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			if err := g.Reload(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}()
	// Subtests that run at the same time, for as long as this group lasts.
	t.Run("traffic", func(t *testing.T) {
		for _, api := range reloadAPIs {
			t.Run(api.ID, func(t *testing.T) {
				t.Parallel()
				clientOf(t, g, api.ID).overReloads()
			})
		}
	})
	close(stop)
	n := <-done
	t.Logf("%d reloads", n)
	if n < 3 {
		t.Error("too few for the traffic to notice")
	}
}

func (c *client) overReloads() {
	drained, flowing := c.key(limits("1/h burst 3")), c.key(limits("40/s burst 10"))
	c.admits(3, 4, rig.Request{Key: drained})
	refused := make(chan replies)
	go func() { refused <- c.steady(drained, 20*time.Millisecond, 5*time.Second) }()
	rs := c.steady(flowing, 10*time.Millisecond, 5*time.Second)
	for _, r := range rs {
		if !r.OK() && !r.Refused() {
			c.t.Fatalf("%s: a request is lost: %v", c.api, r)
		}
	}
	rs.check(c.t, 40, 10)
	for _, r := range <-refused {
		if !r.Refused() {
			c.t.Fatalf("%s: the drained key got %v", c.api, r)
		}
	}
}
