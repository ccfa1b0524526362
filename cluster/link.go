package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// grace is how much later than Redis is given up the command is.
	grace = 50 * time.Millisecond
	// beat is the time between heartbeats, and probe that between attempts
	// while Redis is given up; it doubles up to slowProbe if Redis is given up
	// again within liveness of its return.
	beat      = time.Second
	probe     = 200 * time.Millisecond
	slowProbe = time.Second
	// liveness is how long a gateway counts after its last heartbeat.
	liveness = 5 * time.Second
	// failures in a row until Redis is given up.
	failures = 2
)

var (
	errSlow         = errors.New("no answer in time")
	errUnconnected  = errors.New("there is no connection yet")
	nodesKey        = "ratelimit:{gateways}"
	serverFaultTags = []string{
		"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY", "OOM", "MISCONF",
		"NOAUTH", "WRONGPASS", "NOPERM", "ERR max number of clients", "NOSCRIPT",
	}
)

// serverFault reports an error that is not one key's alone.
func serverFault(err error) bool {
	var answer redis.Error
	if err == nil || !errors.As(err, &answer) {
		return err != nil
	}
	for _, tag := range serverFaultTags {
		if strings.HasPrefix(answer.Error(), tag) {
			return true
		}
	}
	return false
}

//go:embed gateways.lua
var gatewaysScript string

// A link is what is known of Redis: whether it answers, and how many gateways
// it has. It is also the circuit breaker: while it is down, only the heartbeat
// asks Redis.
type link struct {
	down  atomic.Bool
	nodes atomic.Int64

	id       string
	patience time.Duration
	fixed    int // nodes, if not to be counted
	log      func(string)
	connect  func() redis.UniversalClient // nil if the client was given
	started  time.Time
	holder   atomic.Pointer[holder]
	tripped  chan struct{}

	mu    sync.Mutex
	told  bool      // the state has been logged,
	since time.Time // last at this time
	bad   int       // failures in a row
	pause time.Duration
}

type holder struct {
	client redis.UniversalClient
	own    bool // to be closed
}

func (k *link) init(o Options) {
	k.id, k.patience, k.fixed, k.log = o.ID, o.Patience, o.Nodes, o.Log
	k.tripped = make(chan struct{}, 1)
	k.started, k.pause = time.Now(), probe
	k.nodes.Store(int64(max(1, o.Nodes)))
	k.down.Store(true)
	if k.connect = o.Connect; o.Client != nil {
		k.connect = nil
		k.holder.Store(&holder{client: o.Client})
	}
}

func (k *link) client() redis.UniversalClient {
	if h := k.holder.Load(); h != nil {
		return h.client
	}
	return nil
}

func (k *link) close() {
	k.down.Store(true)
	if h := k.holder.Load(); h != nil && h.own {
		_ = h.client.Close()
	}
}

// say logs one line. A log function that panics is the caller's fault, not a
// reason to end the process.
func (k *link) say(format string, args ...any) {
	defer func() { _ = recover() }()
	k.log(fmt.Sprintf(format, args...))
}

// look keeps the heartbeat going.
func (l *Limiter) look() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-l.link.tripped:
			timer.Reset(l.link.hold())
		case <-timer.C:
			wait := l.heartbeat()
			timer.Reset(wait + rand.N(wait/8))
		}
	}
}

// heartbeat tells Redis that this gateway lives, counts the others, and returns
// when to do so again.
func (l *Limiter) heartbeat() time.Duration {
	k := &l.link
	client := k.client()
	if client == nil {
		if client = k.dial(); client == nil {
			if time.Since(k.started) > beat {
				k.trip(l, errUnconnected)
			}
			return probe / 2
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.patience+grace)
	defer cancel()
	began := time.Now()
	nodes, err := client.Eval(ctx, gatewaysScript, []string{nodesKey}, k.id, liveness.Milliseconds()).Int64()
	if err == nil && time.Since(began) > k.patience+grace {
		err = errSlow
	}
	if err != nil {
		if c, ok := client.(*redis.ClusterClient); ok {
			c.ReloadState(ctx) // which it does only each ten seconds by itself
		}
		k.failed(l, err)
		return k.hold()
	}
	k.found(nodes)
	return beat
}

// watch gives Redis up if it is not told within the time allowed that there is
// an answer. A timer that is late itself says that this process stood still, so
// the answer gets a little longer.
func (k *link) watch(l *Limiter) (answered func()) {
	began := time.Now()
	var ended atomic.Bool
	slow := time.AfterFunc(k.patience, func() {
		if time.Since(began) > k.patience+grace {
			time.Sleep(k.patience / 2)
		}
		if !ended.Load() {
			k.trip(l, errSlow)
		}
	})
	return func() {
		ended.Store(true)
		slow.Stop()
	}
}

// dial takes the client as soon as there is one.
func (k *link) dial() redis.UniversalClient {
	if k.connect == nil {
		return nil
	}
	client := k.connect()
	if client == nil {
		return nil
	}
	h := &holder{client, false}
	if own := ownClient(client); own != nil {
		h = &holder{own, true}
	}
	k.holder.Store(h)
	return h.client
}

func (k *link) hold() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pause
}

func (k *link) worked() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bad = 0
}

// failed counts a failure and gives Redis up if there were enough.
func (k *link) failed(l *Limiter, err error) {
	k.mu.Lock()
	k.bad++
	enough := k.bad >= failures || !k.told
	k.mu.Unlock()
	if enough {
		k.trip(l, err)
	}
}

// trip gives Redis up.
func (k *link) trip(l *Limiter, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down.Load() && k.told {
		return
	}
	k.down.Store(true)
	l.count.faults.Add(1)
	if k.told && time.Since(k.since) < liveness {
		k.pause = min(2*k.pause, slowProbe)
	} else {
		k.pause = probe
	}
	k.told, k.since = true, time.Now()
	select {
	case k.tripped <- struct{}{}:
	default:
	}
	k.say("cluster: Redis does not answer (%.200v): %s until it does", err, l.consequence())
}

func (l *Limiter) consequence() string {
	switch l.onFault {
	case FaultOpen:
		return "no limit is enforced"
	case FaultClosed:
		return "limited requests are refused"
	}
	return fmt.Sprintf("limits are 1/%d here", max(1, l.link.nodes.Load()))
}

// found notes a heartbeat that Redis answered.
func (k *link) found(nodes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bad = 0
	if k.fixed > 0 {
		nodes = int64(k.fixed)
	} else if k.told && (k.down.Load() || time.Since(k.since) < liveness) {
		// After a fault, others may not have come back yet.
		nodes = max(nodes, k.nodes.Load())
	}
	k.nodes.Store(max(1, nodes))
	if !k.down.Load() {
		return
	}
	was := ""
	if k.told {
		was = fmt.Sprintf(" again, after %v", time.Since(k.since).Round(time.Millisecond))
	}
	k.told, k.since = true, time.Now()
	k.down.Store(false)
	k.say("cluster: Redis answers%s; gateways that share the limits: %d", was, k.nodes.Load())
}

// leave gives back all leases and takes this gateway out of the count.
func (l *Limiter) leave(ctx context.Context, client redis.UniversalClient) {
	var calls []renewal
	flush := func() {
		l.exec(client, calls)
		calls = calls[:0]
	}
	l.table.each(func(e *entry) {
		if ctx.Err() == nil && e.empty(l.clock()) {
			if calls = append(calls, l.prepare(e)); len(calls) == batchSize {
				flush()
			}
		}
	})
	flush()
	_ = client.ZRem(ctx, nodesKey, l.link.id).Err()
}
