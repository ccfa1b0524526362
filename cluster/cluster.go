package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/limiter"
)

// The defaults of [Options].
const (
	DefaultWait     = 20 * time.Millisecond
	DefaultPatience = 250 * time.Millisecond
)

// Options set a [Limiter] up. One of Client and Connect is needed.
type Options struct {
	// Client is used as it is, and not closed. Take one from [Dial], or one
	// with timeouts well below a second and without retries: a retried
	// command may give tokens back twice.
	Client redis.UniversalClient
	// Connect returns the client of somebody else, or nil while there is no
	// connection. It is called until it returns one, from one goroutine, and
	// must not block. Of a *redis.Client or *redis.ClusterClient a client to
	// the same servers is made, with settings as those of [Dial].
	Connect func() redis.UniversalClient
	// Shares decides while Redis does not, each gateway on its share of the
	// limits. Nil: a limiter of its own, with Clock.
	Shares *limiter.Limiter
	// Clock is monotonic, since any start. Nil: limiter.Monotonic.
	Clock func() time.Duration
	// Nodes is how many gateways share the limits. 0: as many as have been
	// seen in Redis within the last 5 s; 1 until Redis has answered once.
	Nodes int
	// Wait bounds how long a decision waits for Redis; what it does not answer
	// in time is decided by this gateway's share. 0: DefaultWait; below 0: no
	// request ever waits, and the first of a key is refused.
	Wait time.Duration
	// Patience is how long Redis may take to answer before it is given up.
	// 0: DefaultPatience.
	Patience time.Duration
	// OnRedisFault says what becomes of requests while Redis is given up.
	OnRedisFault Fault
	// Log gets one line for each change between Redis answering and not.
	Log func(line string)
	// MaxKeys bounds the keys kept here, at about 500 bytes each; those not
	// seen for 10 s are forgotten (10 minutes, if their share was used). 0:
	// limiter.DefaultMaxKeys. Keys beyond it, and limits with a burst of more
	// than 2.2e10 tokens or 292 years, are decided by this gateway's share.
	MaxKeys int
	// ID is this gateway's name in Redis. "": a random one.
	ID string
}

// A Limiter decides for this gateway, within limits that all gateways on one
// Redis share. All methods may be called concurrently.
type Limiter struct {
	clock   func() time.Duration
	wait    time.Duration
	onFault Fault
	shares  *limiter.Limiter
	table   *table
	plans   plans
	seed    uint64
	link    link
	queue   chan *entry
	stop    chan struct{}
	ended   sync.WaitGroup
	closing sync.Once
	count   counters
}

type counters struct {
	pending, renewals, failed, granted, returned, empty atomic.Int64
	waited, timedOut, local, faults, full, panics       atomic.Int64
}

// Stats counts what a Limiter did since it was made.
type Stats struct {
	Up       bool  // Redis answers
	Nodes    int   // gateways that share the limits
	Keys     int   // kept here now
	Pending  int   // renewals queued or in flight now
	Renewals int64 // scripts run in Redis
	Failed   int64 // of these, without an answer
	Empty    int64 // of these, without a token
	Granted  int64 // tokens leased
	Returned int64 // tokens given back
	Waited   int64 // requests that waited for Redis
	TimedOut int64 // of these, in vain
	Local    int64 // decisions without Redis
	Faults   int64 // times that Redis was given up
	Full     int64 // renewals put off because too many were queued
	Panics   int64 // recovered in a goroutine of the Limiter
}

// Stats reads the counters, one after the other.
func (l *Limiter) Stats() Stats {
	c := &l.count
	return Stats{
		Up: !l.link.down.Load(), Nodes: int(l.link.nodes.Load()), Keys: l.Len(), Pending: int(c.pending.Load()),
		Renewals: c.renewals.Load(), Failed: c.failed.Load(), Empty: c.empty.Load(),
		Granted: c.granted.Load(), Returned: c.returned.Load(),
		Waited: c.waited.Load(), TimedOut: c.timedOut.Load(), Local: c.local.Load(),
		Faults: c.faults.Load(), Full: c.full.Load(), Panics: c.panics.Load(),
	}
}

// Len is the number of keys that are kept now.
func (l *Limiter) Len() int { return int(l.table.live.Load()) }

// New makes a Limiter and starts its goroutines: four that renew leases, one
// that looks after Redis and one that looks for idle leases. Until Redis has
// answered, requests are decided as when it is down.
func New(o Options) *Limiter {
	if o.Clock == nil {
		o.Clock = limiter.Monotonic
	}
	if o.MaxKeys < 1 {
		o.MaxKeys = limiter.DefaultMaxKeys
	}
	if o.Shares == nil {
		o.Shares = limiter.New(limiter.WithClock(o.Clock), limiter.WithMaxKeys(o.MaxKeys))
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.ID == "" {
		var b [8]byte
		_, _ = rand.Read(b[:])
		o.ID = hex.EncodeToString(b[:])
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	l := &Limiter{
		clock: o.Clock, wait: o.Wait, onFault: o.OnRedisFault, shares: o.Shares,
		table: newTable(o.MaxKeys), queue: make(chan *entry, queueSize), stop: make(chan struct{}),
		seed: seedOf(o.ID),
	}
	l.link.init(o)
	l.start(l.look)
	l.start(l.sweep)
	for range workers {
		l.start(l.work)
	}
	return l
}

// seedOf is the same for the same id in every process.
func seedOf(id string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return h
}

// start runs f in a goroutine until the Limiter is closed. A panic in it is
// counted and f started again: it must not end the process.
func (l *Limiter) start(f func()) {
	l.ended.Add(1)
	go func() {
		defer l.ended.Done()
		for !l.guard(f) {
			select {
			case <-l.stop:
				return
			case <-time.After(time.Second):
			}
		}
	}()
}

func (l *Limiter) guard(f func()) (ended bool) {
	defer func() {
		if v := recover(); v != nil {
			l.count.panics.Add(1)
			l.link.say("cluster: recovered from a panic: %.100v", v)
		}
	}()
	f()
	return true
}

// Close gives back what is leased, takes this gateway out of the count and ends
// all goroutines. It takes a second at most while Redis does not answer.
// Requests are decided as when Redis is down from then on.
func (l *Limiter) Close() {
	l.closing.Do(func() {
		close(l.stop)
		l.ended.Wait()
		if up := !l.link.down.Swap(true); up {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			l.guard(func() { l.leave(ctx, l.link.client()) })
		}
		l.link.close()
	})
}
