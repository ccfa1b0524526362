package plugin

import (
	"fmt"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/user"
)

func TestExpiredKeyCostsItsGroupNothing(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	group := meta{"ratelimit": "1/h burst 5", "ratelimit_group": "g"}
	h.key("live", group)
	dying := h.key("dying", group)
	h.expect(h.codes(1, func() outcome { return h.send(api, get("dying")) }), "map[200:1]")
	dying.Expires = 1
	h.expect(h.codes(50, func() outcome { return h.send(api, get("dying")) }), "map[401:50]")
	h.expect(h.codes(6, func() outcome { return h.send(api, get("live")) }), "map[200:4 429:2]")
}

func TestRevokedKeyCannotStarveItsGroup(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	group := meta{"ratelimit": "10/s", "ratelimit_group": "g"}
	h.key("live", group)
	h.key("revoked", group)
	h.expect(h.codes(1, func() outcome { return h.send(api, get("revoked")) }), "map[200:1]")
	delete(h.keys, "revoked")
	served := 0
	for range 100 { // 10 s
		for range 10 {
			h.send(api, get("revoked"))
		}
		if h.send(api, get("live")).code == 200 {
			served++
		}
		h.now += 100 * time.Millisecond
	}
	if served < 75 {
		t.Errorf("%d of 100 requests of the live key were served", served)
	}
}

func TestUnequalLimitsDoNotShareABucket(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	h.key("fast", meta{"ratelimit": "1000/s", "ratelimit_group": "g"})
	h.key("slow", meta{"ratelimit": "1/s", "ratelimit_group": "g"})
	s := h.key("both", nil)
	with := func(rate float64) (a user.AccessDefinition) {
		a.Limit.Rate, a.Limit.Per = rate, 1
		return a
	}
	s.AccessRights = map[string]user.AccessDefinition{"fast": with(1000), "slow": with(1)}
	count := map[string]int{}
	for range 1000 { // 10 s
		for _, key := range []string{"fast", "slow"} {
			if h.send(api, get(key)).code == 200 {
				count[key]++
			}
			if h.send(keyed(key, nil), get("both")).code == 200 {
				count["API "+key]++
			}
		}
		h.now += 10 * time.Millisecond
	}
	h.expect(fmt.Sprint(count), "map[API fast:1000 API slow:10 fast:1000 slow:10]")
}

// One API has learned of a raise; what another still knows must not undo it.
func TestStaleLimitOfAnotherAPIDoesNotClampTheBucket(t *testing.T) {
	h := newHost(t)
	a, b := keyed("a", nil), keyed("b", nil)
	h.key("k", meta{"ratelimit": "1/s"})
	h.expect(h.codes(1, func() outcome { return h.send(a, get("k")) }), "map[200:1]")
	h.key("k", meta{"ratelimit": "100/s"})
	h.now += 10 * time.Second
	h.expect(h.codes(1, func() outcome { return h.send(b, get("k")) }), "map[200:1]")
	h.now += 10 * time.Second
	h.expect(h.codes(1, func() outcome { return h.send(a, get("k")) }), "map[200:1]")
	h.expect(h.codes(100, func() outcome { return h.send(b, get("k")) }), "map[200:99 429:1]")
}
