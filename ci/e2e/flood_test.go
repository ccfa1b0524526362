package e2e

import (
	"fmt"
	"sync"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

// randomKeyPrefix begins every credential that is made up here.
const randomKeyPrefix = "made-up-"

// maxKeys is what the plugin of this gateway may remember.
const (
	maxKeys       = 2000
	limiterShards = 256
)

// mayGrow is more than a gateway's own memory moves by while it works, and less
// than 120 bytes for each credential would come to.
const mayGrow = 8 << 20

// A flood of credentials that nobody has ever been given, and one of clients'
// addresses that are all new. Neither may grow the gateway without bound, or
// touch what a key has left.
func TestH19FloodOfMadeUpCredentialsHarmsNobody(t *testing.T) {
	g := own(t, rig.Options{
		APIs: []rig.API{
			{ID: "keyed"},
			{ID: "keyless", Keyless: true, RateLimit: rig.Object{"anonymous": "1/1000s burst 1"}},
		},
		Env: []string{fmt.Sprintf("TYK_RATELIMIT_MAX_KEYS=%d", maxKeys)},
	})
	keyed, keyless := clientOf(t, g, "keyed"), clientOf(t, g, "keyless")
	for _, flood := range []struct {
		name  string
		count int
		send  func(i int) rig.Reply
		fine  func(rig.Reply) bool
	}{
		{"credentials", madeUp(), func(i int) rig.Reply {
			return keyed.get(fmt.Sprint(randomKeyPrefix, i))
		}, rejected},
		{"addresses", 10 * maxKeys, func(i int) rig.Reply {
			return keyless.send(rig.Request{Header: rig.Header{"X-Real-IP": fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}})
		}, func(r rig.Reply) bool { return r.OK() || r.Refused() }},
	} {
		known := keyed.key(limits("1/1000s burst 10"))
		keyed.wantAdmitted(5, known)
		// The first tenth warms up: connections, pools, what the table may hold.
		flooded(t, 0, flood.count/10, flood.send, flood.fine)
		before := memory(t, g)
		flooded(t, flood.count/10, flood.count, flood.send, flood.fine)
		grown := memory(t, g) - before
		t.Logf("%d %s: the gateway has grown by %d KB", flood.count, flood.name, grown>>10)
		if grown > mayGrow {
			t.Errorf("%s: want at most %d KB", flood.name, mayGrow>>10)
		}
		keyed.wantAdmitted(5, known)
		keyed.wantRefused(known)
	}
	// Each address would have had its one request, if there were a bucket for
	// each. Beyond maxKeys they share one in each of the table's parts.
	if most := maxKeys + 2*limiterShards; keyless.served > most {
		t.Errorf("%d of %d new addresses admitted: want at most %d, the table's size", keyless.served, 10*maxKeys, most)
	}
}

// madeUp is the number of credentials: fewer on a real gateway, which looks each
// of them up in Redis, several times.
func madeUp() int {
	if theRig.Real() {
		return 80_000
	}
	return 200_000
}

// flooded sends the requests numbered from to to.
func flooded(t *testing.T, from, to int, send func(i int) rig.Reply, fine func(rig.Reply) bool) {
	t.Helper()
	const clients = 16
	var all sync.WaitGroup
	for n := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := from + n; i < to; i += clients {
				if r := send(i); !fine(r) {
					t.Errorf("request %d: %v", i, r)
					return
				}
			}
		}()
	}
	all.Wait()
}

// memory is what the gateway holds, in bytes.
func memory(t *testing.T, g *rig.Gateway) int64 {
	t.Helper()
	n, err := g.Memory()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
