package e2e

import (
	"strconv"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

// The four kinds of API. A keyless one limits each client's address.
var h01 = map[string]string{
	"classic":         shared.api(rig.API{ID: "h01-classic"}),
	"OAS":             shared.api(rig.API{ID: "h01-oas", OAS: true}),
	"classic keyless": shared.api(rig.API{ID: "h01-keyless", Keyless: true, RateLimit: rig.Object{"anonymous": "1/s burst 5"}}),
	"OAS keyless":     shared.api(rig.API{ID: "h01-oas-keyless", OAS: true, Keyless: true, RateLimit: rig.Object{"anonymous": "1/s burst 5"}}),
}

func TestH01FiveAtOnceThenRefused(t *testing.T) {
	t.Parallel()
	for kind, api := range h01 {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := of(t, api)
			key := c.key(limits("1/s burst 5"))
			rs := c.atOnce(5, key)
			if got := rs.admitted(); got != 5 {
				t.Errorf("%d of 5 admitted", got)
			}
			append(rs, c.get(key)).check(t, 1, 5)
		})
	}
}

var h02 = shared.api(rig.API{ID: "h02"})

// 10 requests a second for a minute at 5/s burst 5, ten times as fast: the
// bounds scale with it, so 600 requests in 6 s at 50/s are the same case, but
// with a burst that lasts 100 ms.
func TestH02SteadyOverloadIsNeverLockedOut(t *testing.T) {
	t.Parallel()
	c := of(t, h02)
	rs := c.steady(c.key(limits("50/s burst 5")), 10*time.Millisecond, 6*time.Second)
	rs.check(t, 50, 5)
	for len(rs) >= 100 { // every second has its share
		rs[:100].checkFrom(t, 50, 5, 0)
		rs = rs[100:]
	}
}

var h03 = shared.api(rig.API{ID: "h03"})

func TestH03FourPer20SecondsIsOneEvery5(t *testing.T) {
	t.Parallel()
	c := of(t, h03)
	key := c.key(limits("4/20s burst 4"))
	rs := c.atOnce(4, key)
	if got := rs.admitted(); got != 4 {
		t.Fatalf("%d of 4 admitted", got)
	}
	if got := c.wantRefused(key).Header.Get("Retry-After"); got != "5" {
		t.Errorf("Retry-After %s, want 5", got)
	}
	next := c.steady(key, 100*time.Millisecond, 10500*time.Millisecond)
	append(rs, next...).check(t, 0.2, 4)
	drained, n := rs[0].Sent, time.Duration(0)
	for _, r := range rs {
		if r.Sent.Before(drained) {
			drained = r.Sent
		}
	}
	for _, r := range next {
		if !r.OK() {
			continue
		}
		if n++; r.Received.Sub(drained) < n*5*time.Second {
			t.Errorf("token %d came %v after the bucket was drained", n, r.Received.Sub(drained))
		}
	}
	if got := next.admitted(); got != 2 {
		t.Errorf("%d admitted in the next 10 s, want 2", got)
	}
}

var h04 = shared.api(rig.API{ID: "h04"})

// A minute and more need not be waited for: a second key shows that what
// Retry-After says is so.
func TestH04OneIn100SecondsSaysWhen(t *testing.T) {
	t.Parallel()
	c := of(t, h04)
	for _, limit := range []struct {
		text    string
		seconds int
		wait    bool
	}{
		{"1/100s burst 1", 100, false},
		{"1/3s burst 1", 3, true},
	} {
		key := c.key(limits(limit.text))
		c.wantAdmitted(1, key)
		refused := c.wantRefused(key)
		after, err := strconv.Atoi(refused.Header.Get("Retry-After"))
		if err != nil || after != limit.seconds {
			t.Errorf("%s: Retry-After %q, want %d", limit.text, refused.Header.Get("Retry-After"), limit.seconds)
		}
		if limit.wait {
			time.Sleep(time.Until(refused.Received.Add(time.Duration(after) * time.Second)))
			c.wantAdmitted(1, key)
			c.wantRefused(key)
		}
	}
}
