package cluster_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

const second = time.Second

func limitOf(t *testing.T, s string) limiter.Limit {
	t.Helper()
	l, err := limiter.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// take makes n requests and returns how many were allowed.
func take(l taker, key string, limit limiter.Limit, n int) (allowed int) {
	for range n {
		if l.Take(key, limit, 1).Allowed {
			allowed++
		}
	}
	return allowed
}

// eventually waits for what goroutines do in their own time.
func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// A gateway that is alone with a key tells what the local limiter tells.
func TestAloneIsLikeLocal(t *testing.T) {
	s := newSim(t, 1, 0, nil)
	local := limiter.New()
	limit := limitOf(t, "10/s burst 20")
	for i := range 150 {
		now := time.Duration(i) * 107 * time.Millisecond
		n := 1
		if i == 0 {
			n = 15 // so that the bucket is never full again
		}
		for range n {
			s.to(now)
			got, want := s.gateways[0].Take(id, limit, 1), local.TakeAt(now, id, limit, 1)
			if got.Allowed != want.Allowed || got.Remaining != want.Remaining {
				t.Fatalf("request %d: %+v, want %+v", i, got, want)
			}
			if d := got.ResetAfter - want.ResetAfter; d < -time.Microsecond || d > time.Microsecond {
				t.Fatalf("request %d: full in %v, want %v", i, got.ResetAfter, want.ResetAfter)
			}
		}
	}
}

func TestFirstRequestWaitsAndOthersDoNot(t *testing.T) {
	s := newSim(t, 1, 0, nil)
	g, limit := s.gateways[0], limitOf(t, "1000/s")
	for i := range 2000 {
		s.to(time.Duration(i) * 2 * time.Millisecond)
		if !g.Take(id, limit, 1).Allowed {
			t.Fatalf("request %d is refused at half the rate", i)
		}
	}
	if st := g.Stats(); st.Waited != 1 || st.TimedOut != 0 || st.Renewals > 40 {
		t.Errorf("%+v", st)
	}
}

// A client that uses the burst at once is served as by the local limiter, but
// for what is kept for others.
func TestBurstOfOneClient(t *testing.T) {
	s := newSim(t, 3, 0, nil)
	limit := limitOf(t, "100/m burst 100")
	if n := take(s.gateways[0], id, limit, 200); n < 90 {
		t.Errorf("%d of a burst of 100", n)
	}
}

func TestExhaustedKeyCostsNothing(t *testing.T) {
	s := newSim(t, 1, 0, nil)
	g, limit := s.gateways[0], limitOf(t, "1/m burst 1")
	for i := range 5900 {
		s.to(time.Duration(i) * 10 * time.Millisecond)
		if d := g.Take(id, limit, 1); d.Allowed != (i == 0) || !d.Allowed && (d.RetryAfter <= 0 || d.RetryAfter > time.Minute) {
			t.Fatalf("request %d: %+v", i, d)
		}
		s.settle()
	}
	// The script is sent twice at first: Redis does not know it yet. And there
	// are looks after 1.5, 4.5, 10.5, 22.5 and 46.5 s.
	if st := g.Stats(); st.Renewals > 8 {
		t.Errorf("%d commands for a key that is exhausted", st.Renewals)
	}
}

func TestIdleLeaseIsGivenBack(t *testing.T) {
	s := newSim(t, 2, 0, nil)
	limit := limitOf(t, "1/h burst 100")
	first, other := s.gateways[0], s.gateways[1]
	if n := take(first, id, limit, 5); n != 5 {
		t.Fatalf("%d of 5", n)
	}
	s.settle()
	if d := other.Take(id, limit, 95); d.Allowed {
		t.Fatalf("what is leased is given twice: %+v", d)
	}
	s.settle()
	leased := first.Stats().Granted
	eventually(t, "a look at the lease", 5*second, func() bool {
		s.to(time.Duration(s.now.Load()) + 100*time.Millisecond)
		return first.Stats().Returned == leased-5
	})
	s.to(time.Duration(s.now.Load()) + 2*second) // a refusal is not believed for the hour until the next token
	if d := other.Take(id, limit, 95); !d.Allowed {
		t.Errorf("95 of 100 are not there: %+v", d)
	}
	eventually(t, "forgetting", 3*second, func() bool {
		s.to(time.Duration(s.now.Load()) + second)
		return first.Len() == 0
	})
}

func TestRefund(t *testing.T) {
	s := newSim(t, 1, 0, nil)
	g, limit := s.gateways[0], limitOf(t, "1/h burst 10")
	g.Refund(id, limit, 5) // a full bucket has no room
	if d := g.Take(id, limit, 10); !d.Allowed || d.Remaining != 0 {
		t.Fatalf("%+v", d)
	}
	g.Refund(id, limit, 4)
	if d := g.Peek(id, limit); d.Remaining != 4 {
		t.Errorf("%+v", d)
	}
	g.Refund(id, limit, 100)
	if n := take(g, id, limit, 20); n != 10 {
		t.Errorf("%d after a refund beyond the burst", n)
	}
}

func TestChargeIsSeenByOthers(t *testing.T) {
	s := newSim(t, 2, 0, nil)
	limit := limitOf(t, "1/s burst 10")
	a, b := s.gateways[0], s.gateways[1]
	if !a.Take(id, limit, 1).Allowed {
		t.Fatal("refused")
	}
	s.settle()
	a.Charge(id, limit, 13) // a debt of 4 in all
	s.settle()
	for _, g := range s.gateways {
		if d := g.Take(id, limit, 1); d.Allowed {
			t.Errorf("allowed in debt: %+v", d)
		}
	}
	s.settle()
	s.to(4900 * time.Millisecond)
	if n := take(a, id, limit, 5) + take(b, id, limit, 5); n > 0 {
		t.Errorf("%d before the debt is paid", n)
	}
	s.settle()
	s.to(5100 * time.Millisecond)
	if n := take(a, id, limit, 5) + take(b, id, limit, 5); n != 1 {
		t.Errorf("%d when the debt is paid", n)
	}
	s.gateways[0].Charge("new", limit, 1000)
	s.settle()
	s.to(6200 * time.Millisecond)
	if d := b.Take("new", limit, 1); !d.Allowed {
		t.Errorf("more than a burst of an unknown key: %+v", d)
	}
}

func TestCostsThatTakeNothing(t *testing.T) {
	s := newSim(t, 1, 0, nil)
	g, limit := s.gateways[0], limitOf(t, "1/s burst 10")
	for _, known := range []bool{false, true} {
		if known {
			g.Take(id, limit, 1)
		}
		for _, cost := range []int64{-1, 11} {
			if d := g.Take(id, limit, cost); d.Allowed || d.RetryAfter >= 0 {
				t.Errorf("cost %d: %+v", cost, d)
			}
		}
		if d := g.Take(id, limit, 0); !d.Allowed || g.Len() > 0 != known {
			t.Errorf("cost 0: %+v", d)
		}
		if d := g.Take(id, limiter.Limit{Tokens: 1}, 1); d.Allowed || d.RetryAfter >= 0 {
			t.Errorf("no limit: %+v", d)
		}
	}
}

func TestLimitChangesInFlight(t *testing.T) {
	s := newSim(t, 2, 0, nil)
	low, high := limitOf(t, "1/h burst 10"), limitOf(t, "1/h burst 1000")
	a, b := s.gateways[0], s.gateways[1]
	if n := take(a, id, low, 20); n != 10 {
		t.Fatalf("%d of 10", n)
	}
	s.settle()
	s.to(second)
	if n := take(a, id, high, 20) + take(b, id, high, 20); n != 0 {
		t.Errorf("a raise refills: %d", n)
	}
	s.settle()
	if d := a.TakeKnown(id, low, 1); d.Allowed {
		t.Errorf("%+v", d)
	}
	// Down again: the lowered burst holds at once.
	other := "fedcba9876543210"
	if !a.Take(other, high, 500).Allowed {
		t.Fatal("refused")
	}
	s.settle()
	s.to(3 * second)
	n := take(a, other, low, 2000) + take(b, other, low, 2000)
	if n > 20 { // each may hold one burst of what it had leased
		t.Errorf("%d after the burst was lowered to 10", n)
	}
}

func TestDecideIsAllOrNothing(t *testing.T) {
	s := newSim(t, 1, 0, nil)
	g := s.gateways[0]
	wide, narrow := limitOf(t, "1/h burst 100"), limitOf(t, "1/h burst 3")
	claims := []limiter.Claim{{Key: "wide", Limit: wide, Cost: 2}, {Key: "narrow", Limit: narrow, Cost: 1}}
	if d, which := g.Decide(nil); !d.Allowed || which != -1 {
		t.Errorf("no claims: %+v %d", d, which)
	}
	allowed := 0
	for range 10 {
		d, which := g.Decide(claims)
		if which != 1 {
			t.Errorf("decided by %d: %+v", which, d)
		}
		if d.Allowed {
			allowed++
		}
		s.settle()
	}
	if allowed != 3 {
		t.Errorf("allowed %d of 3", allowed)
	}
	if d := g.Peek("wide", wide); d.Remaining != 94 {
		t.Errorf("a refusal took tokens: %+v", d)
	}
	if st := g.Stats(); st.Waited > 3 {
		t.Errorf("claims wait one after the other: %+v", st)
	}
	if d, which := g.DecideKnown([]limiter.Claim{{Key: "wide", Limit: narrow, Cost: 50}, {Key: "new", Limit: narrow, Cost: 1}}); !d.Allowed {
		t.Errorf("known keys keep their limit: %+v %d", d, which)
	}
}

func TestUnknownScriptIsSentAgain(t *testing.T) {
	l, server := clustered(t, nil)
	limit := limitOf(t, "1000/s")
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	for _, key := range keysOf(20) {
		if err := client.ScriptFlush(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		if !l.Take(key, limit, 1).Allowed {
			t.Error("refused")
		}
	}
	if st := l.Stats(); st.Failed > 0 || st.Local > 0 || !st.Up {
		t.Errorf("%+v", st)
	}
}

// Somebody else's value under a bucket's name is left alone; that key is
// limited here alone, and Redis is not given up for it.
func TestForeignValue(t *testing.T) {
	l, server := clustered(t, func(o *cluster.Options) { o.Nodes = 4 })
	name := "ratelimit:{" + base64.RawURLEncoding.EncodeToString([]byte(id)) + "}"
	for _, foreign := range []string{"text", "list"} {
		server.Del(name)
		if foreign == "text" {
			_ = server.Set(name, "hello")
		} else {
			_, _ = server.Push(name, "hello")
		}
		if n := take(l, id, limitOf(t, "4/h burst 40"), 50); n > 10 || n == 0 && foreign == "text" {
			t.Errorf("%s: %d of a share of 10", foreign, n)
		}
		for _, key := range keysOf(5) {
			if !l.Take(key, limitOf(t, "1000/s"), 1).Allowed {
				t.Error("another key is refused")
			}
		}
	}
	if st := l.Stats(); !st.Up || st.Faults > 0 || st.Failed == 0 {
		t.Errorf("%+v", st)
	}
	if kind := server.Type(name); kind != "list" {
		t.Errorf("the foreign value is now a %q", kind)
	}
}

func TestFullTable(t *testing.T) {
	l, _ := clustered(t, func(o *cluster.Options) { o.MaxKeys, o.Nodes, o.Shares = 128, 2, limiter.New() })
	limit := limitOf(t, "2/h burst 20")
	keys := keysOf(1000)
	for _, key := range keys {
		if n := take(l, key, limit, 3); n == 0 {
			t.Fatal("a key beyond the table's size is refused")
		}
	}
	if st := l.Stats(); st.Keys > 128 || st.Local == 0 {
		t.Errorf("%+v", st)
	}
}

func TestKnownKeyCostsNoAllocation(t *testing.T) {
	l, _ := clustered(t, nil)
	for name, limit := range map[string]limiter.Limit{"admitted": plentiful, "refused": scarce} {
		for range 3 {
			take(l, name, limit, 1000)
			time.Sleep(50 * time.Millisecond)
		}
		if n := testing.AllocsPerRun(200, func() { l.Take(name, limit, 1) }); n >= 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestPanicEndsNothing(t *testing.T) {
	hook := &panicking{}
	l, _ := clustered(t, func(o *cluster.Options) {
		o.Client.(*redis.Client).AddHook(hook)
		o.Log = func(string) { panic("log") }
		o.Nodes, o.Wait = 2, 50*time.Millisecond
	})
	hook.on.Store(true)
	limit := limitOf(t, "10/h burst 10")
	began := time.Now()
	if n := take(l, id, limit, 20); n == 0 || n > 5 {
		t.Errorf("%d of a share of 5", n)
	}
	if d := time.Since(began); d > second {
		t.Errorf("it took %v", d)
	}
	hook.on.Store(false)
	eventually(t, "leases again", 4*second, func() bool {
		l.Take("another", limit, 1)
		return l.Stats().Panics > 0 && l.Stats().Granted > 0
	})
}

func TestConnectionThatComesLater(t *testing.T) {
	server := newBucket(t).server
	there := make(chan redis.UniversalClient, 1)
	var lines logged
	l := cluster.New(cluster.Options{
		Connect: func() redis.UniversalClient {
			select {
			case c := <-there:
				return c
			default:
				return nil
			}
		},
		Nodes: 2, Log: lines.add,
	})
	defer l.Close()
	began := time.Now()
	if n := take(l, id, limitOf(t, "1/h burst 10"), 20); n != 5 {
		t.Errorf("%d of a share of 5", n)
	}
	if d := time.Since(began); d > 100*time.Millisecond {
		t.Errorf("requests waited %v for a connection that is not there", d)
	}
	theirs := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	defer func() { _ = theirs.Close() }()
	there <- theirs
	eventually(t, "the connection", 2*second, func() bool { return l.Stats().Up })
	if !l.Take("another", limitOf(t, "1/h"), 1).Allowed || l.Stats().Granted == 0 {
		t.Errorf("%+v", l.Stats())
	}
	if n := theirs.PoolStats().TotalConns; n > 0 {
		t.Errorf("%d connections of the other client are used", n)
	}
	if got := lines.all(); len(got) != 1 {
		t.Errorf("logged %q", got)
	}
}

func ExampleNew() {
	client, err := cluster.Dial("redis://127.0.0.1:6379/0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	limits := cluster.New(cluster.Options{Client: client, Log: func(line string) { fmt.Println(line) }})
	defer limits.Close()
	d := limits.Take("0123456789abcdef", limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 20}, 1)
	_ = d.Allowed
}

// A gateway that does not serve a key knows as much of it as one that does.
func TestLookAsksRedis(t *testing.T) {
	s := newSim(t, 2, 0, nil)
	limit := limitOf(t, "100/d burst 100")
	if d := s.gateways[0].Take(id, limit, 100); !d.Allowed {
		t.Fatalf("%+v", d)
	}
	b := s.gateways[1]
	claims := []limiter.Claim{{Key: id, Limit: limit}, {Key: "another", Limit: limit}}
	b.Look(claims)
	if d := b.Peek(id, limit); d.Remaining != 0 || !d.Allowed {
		t.Errorf("%+v", d)
	}
	if d := b.Peek("another", limit); d.Remaining != 100 {
		t.Errorf("%+v", d)
	}
	b.Look(claims)
	if st := b.Stats(); st.Granted != 0 || st.Renewals != 2 {
		t.Errorf("looking took tokens, or asked again within a second: %+v", st)
	}
	down(t, b.Limiter, s.server, "LOADING") // a share of 3, of a bucket that holds nothing
	if d := b.Peek(id, limit); d.Remaining != 0 {
		t.Errorf("in a fault: %+v", d)
	}
}

// An answer that comes long after its request finds the key forgotten.
func TestRefundOfAForgottenKey(t *testing.T) {
	s := newSim(t, 1, 0, nil)
	g, limit := s.gateways[0], limitOf(t, "100/d burst 100")
	if d := g.Take(id, limit, 100); !d.Allowed {
		t.Fatalf("%+v", d)
	}
	eventually(t, "forgetting", 5*second, func() bool {
		s.to(time.Duration(s.now.Load()) + second)
		return g.Len() == 0
	})
	g.Refund(id, limit, 5)
	s.settle()
	if n := take(g, id, limit, 20); n != 5 {
		t.Errorf("%d after a refund of 5", n)
	}
}

// What cannot be kept in Redis is limited all the same, whatever the mode for
// its faults.
func TestWhatCannotBeSharedIsLimited(t *testing.T) {
	for _, mode := range []cluster.Fault{cluster.FaultShare, cluster.FaultOpen, cluster.FaultClosed} {
		s := newSim(t, 1, 0, func(_ int, o *cluster.Options) { o.OnRedisFault, o.MaxKeys, o.Nodes = mode, 100, 2 })
		g := s.gateways[0]
		huge := limiter.Limit{Tokens: 1e11, Period: 24 * time.Hour, Burst: 1e11}
		eternal := limiter.Limit{Tokens: 1, Period: 24 * time.Hour, Burst: 200_000}
		for _, limit := range []limiter.Limit{huge, eternal} {
			admitted := int64(0)
			for range 100 {
				if g.Take(limit.String(), limit, limit.Burst/10).Allowed {
					admitted += limit.Burst / 10
				}
			}
			if admitted != limit.Burst/2 {
				t.Errorf("mode %d, %v: %d admitted of a share of %d", mode, limit, admitted, limit.Burst/2)
			}
		}
		few := limitOf(t, "4/h burst 4")
		for _, key := range keysOf(150) {
			if n := take(g, key, few, 10); n != 4 && n != 2 {
				t.Errorf("mode %d, key %x: %d admitted", mode, key[:2], n)
			}
		}
		if n := g.Len(); n != 100 {
			t.Errorf("%d keys", n)
		}
	}
}
