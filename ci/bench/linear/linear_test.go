package linear

import (
	"cmp"
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tokenbucket.internal/limiter"
)

var (
	fast = limiter.Limit{Tokens: 1, Period: time.Millisecond, Burst: 8}
	slow = limiter.Limit{Tokens: 1, Period: 2 * time.Millisecond, Burst: 5}
)

const (
	clients = 4
	calls   = 25 // of each client in a history
)

// record lets the clients call do at once and returns what came of it.
func record(seed int64, limits []limiter.Limit, only []kind, do func(call) limiter.Decision) []porcupine.Operation {
	var ready, wg sync.WaitGroup
	var begin atomic.Bool
	histories := make([][]porcupine.Operation, clients)
	ready.Add(clients)
	wg.Add(clients)
	for id := range clients {
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewSource(seed*clients + int64(id)))
			script := make([]call, calls)
			for i := range script {
				script[i] = random(r, time.Duration(i)*200*time.Microsecond, limits, only)
			}
			ready.Done()
			for !begin.Load() { // so that all begin in one moment
				runtime.Gosched()
			}
			for i, c := range script {
				op := porcupine.Operation{ClientId: id, Input: c, Call: int64(limiter.Monotonic())}
				if i%4 == id { // lets others come in between on a busy machine too
					runtime.Gosched()
				}
				op.Output = do(c)
				op.Return = int64(limiter.Monotonic())
				histories[id] = append(histories[id], op)
			}
		}()
	}
	ready.Wait()
	begin.Store(true)
	wg.Wait()
	var all []porcupine.Operation
	for _, h := range histories {
		all = append(all, h...)
	}
	return all
}

// random is a call at about that time: clocks differ, and some go back.
func random(r *rand.Rand, now time.Duration, limits []limiter.Limit, only []kind) call {
	c := call{
		kind:  only[r.Intn(len(only))],
		now:   now + time.Duration(r.Int63n(int64(2*time.Millisecond))) - time.Millisecond,
		cost:  1 + r.Int63n(3),
		limit: limits[r.Intn(len(limits))],
	}
	switch r.Intn(10) {
	case 0:
		c.cost = r.Int63n(20) - 5
	case 1:
		c.cost = c.limit.Burst
	}
	if c.kind == peek {
		c.cost = 0
	}
	return c
}

func check(t *testing.T, seed int64, history []porcupine.Operation) {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(reference, history, 20*time.Second) {
	case porcupine.Illegal:
		t.Fatalf("history %d is not linearizable:\n%s", seed, text(history))
	case porcupine.Unknown:
		t.Fatalf("history %d: no answer in 20 s", seed)
	}
}

// text is a history in the order of its beginnings.
func text(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var s strings.Builder
	for _, op := range history {
		c, d := op.Input.(call), op.Output.(limiter.Decision)
		fmt.Fprintf(&s, "%d..%d client %d: %v %d at %v of %v: %v, %d left, retry %v, reset %v\n",
			op.Call-history[0].Call, op.Return-history[0].Call, op.ClientId,
			c.kind, c.cost, c.now, c.limit, d.Allowed, d.Remaining, d.RetryAfter, d.ResetAfter)
	}
	return s.String()
}

func histories() int64 {
	if testing.Short() {
		return 50
	}
	return 500
}

func TestBucketIsLinearizable(t *testing.T) {
	overlaps := 0
	for seed := range histories() {
		b := limiter.NewBucket(fast)
		history := record(seed, []limiter.Limit{fast}, []kind{take, take, take, peek, refund}, func(c call) (d limiter.Decision) {
			if c.kind == refund {
				b.RefundAt(c.now, c.cost)
				return d
			}
			return b.TakeAt(c.now, c.cost)
		})
		overlaps += overlapping(history)
		check(t, seed, history)
	}
	enough(t, overlaps)
}

// TestKeyIsLinearizable is one key of a table, made known by the first of
// those who race, with limits that change, while other keys come and the table
// is laid anew around it.
func TestKeyIsLinearizable(t *testing.T) {
	overlaps := 0
	for seed := range histories() {
		l := limiter.New(limiter.WithShards(1))
		stop := churn(l)
		history := record(seed, []limiter.Limit{fast, fast, slow}, []kind{take, take, take, peek, refund, charge}, func(c call) (d limiter.Decision) {
			switch c.kind {
			case refund:
				l.RefundAt(c.now, "k", c.cost)
			case charge:
				l.ChargeAt(c.now, "k", c.limit, c.cost)
			case peek:
				return l.PeekAt(c.now, "k", c.limit)
			default:
				return l.TakeAt(c.now, "k", c.limit, c.cost)
			}
			return d
		})
		stop()
		overlaps += overlapping(history)
		check(t, seed, history)
	}
	enough(t, overlaps)
}

// churn makes other keys known until it is stopped.
func churn(l *limiter.Limiter) (stop func()) {
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !ended.Load() && i < 10_000; i++ {
			l.TakeAt(0, strconv.Itoa(i), fast, 1)
		}
	}()
	return func() {
		ended.Store(true)
		<-done
	}
}

// overlapping counts calls that began before another client's had ended.
func overlapping(history []porcupine.Operation) (n int) {
	for i, a := range history {
		for _, b := range history[i+1:] {
			if a.ClientId != b.ClientId && a.Call < b.Return && b.Call < a.Return {
				n++
			}
		}
	}
	return n
}

// enough fails where histories had nothing to prove.
func enough(t *testing.T, overlaps int) {
	t.Helper()
	t.Logf("%d pairs of calls overlapped", overlaps)
	if overlaps < 100 && runtime.NumCPU() > 1 {
		t.Errorf("only %d pairs of calls overlapped: nothing is shown", overlaps)
	}
}

// TestCheckerNotices is the same with a bucket that is read and written in two
// steps: its histories must not pass.
func TestCheckerNotices(t *testing.T) {
	for seed := range int64(1000) {
		var mu sync.Mutex
		var b bucket
		history := record(seed, []limiter.Limit{fast}, []kind{take}, func(c call) limiter.Decision {
			mu.Lock()
			before := b
			mu.Unlock()
			runtime.Gosched()
			after, d := step(before, c)
			mu.Lock()
			b = after
			mu.Unlock()
			return d
		})
		if porcupine.CheckOperationsTimeout(reference, history, 20*time.Second) == porcupine.Illegal {
			t.Logf("noticed in history %d", seed)
			return
		}
	}
	t.Error("a bucket that loses takes passed as linearizable")
}
