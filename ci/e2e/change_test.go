package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

// learnLimit is the longest that a change of a key may take: the gateway's own
// session cache (10 s) and the plugin's refresh (2 s), and a little for both.
const learnLimit = 14 * time.Second

var h05 = shared.api(rig.API{ID: "h05"})

func TestH05RaisedLimitIsLearnedWithoutRefill(t *testing.T) {
	t.Parallel()
	c := of(t, h05)
	key := c.key(limits("1/100s burst 5"))
	c.wantAdmitted(5, key)
	old, raised := c.wantRefused(key), rig.Reply{} // the last one under the old limit, and the next
	c.update(key, limits("20/s burst 100"))
	until(t, learnLimit, func() error {
		r := c.get(key)
		if got := r.Header.Get("RateLimit-Policy"); got != `"default";q=20;w=1` {
			old = r
			return fmt.Errorf("the raised limit is not in force: %s", got)
		}
		raised = r
		return nil
	})
	// From a moment between the two the rate is the new one, but the burst has
	// to be earned.
	unsure := raised.Received.Sub(old.Sent)
	old.Received = old.Sent
	rs := append(c.steady(key, 5*time.Millisecond, time.Second), old, raised)
	rs.checkFrom(t, 20, 1, -20*unsure.Seconds())
}

var h06 = shared.api(rig.API{ID: "h06"})

func TestH06LoweredBurstHoldsOnAFullKey(t *testing.T) {
	t.Parallel()
	c := of(t, h06)
	key := c.key(limits("1/100s burst 1000"))
	c.wantAdmitted(1, key)
	c.update(key, limits("1/100s burst 5"))
	left := 0
	until(t, learnLimit, func() error {
		r := c.get(key)
		if left = remaining(t, r); left > 5 {
			return fmt.Errorf("the lowered burst is not in force: %d left", left)
		}
		return nil
	})
	if got := c.atOnce(20, key).admitted(); got != left {
		t.Errorf("%d admitted at once, want %d", got, left)
	}
}

var (
	h18      = shared.api(rig.API{ID: "h18"})
	h18oas   = shared.api(rig.API{ID: "h18-oas", OAS: true})
	h18clean = shared.api(rig.API{ID: "h18-keyless", Keyless: true, RateLimit: rig.Object{"anonymous": "1/100s burst 5"}})
)

func TestH18ReloadDoesNotRefill(t *testing.T) {
	t.Parallel()
	clients := make(map[string]*client)
	for _, api := range []string{h18, h18oas, h18clean} {
		c := of(t, api)
		key := c.key(limits("1/100s burst 5"))
		c.wantAdmitted(5, key)
		c.wantRefused(key)
		clients[key] = c
	}
	for range 2 {
		if err := shared.g.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
		for key, c := range clients {
			c.wantRefused(key)
		}
	}
}
