package cluster

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster/shared"
)

const (
	workers   = 4
	queueSize = 1 << 16
	batchSize = 128 // renewals in one pipeline
)

// errDown ends renewals that were queued when Redis was given up.
var errDown = errors.New("cluster: Redis does not answer")

// keyOf is the Redis key of a bucket. The braces put it into one slot of a
// Redis Cluster.
func keyOf(key string) string {
	return "ratelimit:{" + base64.RawURLEncoding.EncodeToString([]byte(key)) + "}"
}

// renew queues a renewal unless it is too early or Redis is down. It reports
// whether one is queued or in flight.
func (l *Limiter) renew(e *entry, ls *lease, now time.Duration) bool {
	if e.busy.Load() {
		return true
	}
	if now < ls.next || l.link.down.Load() || !e.busy.CompareAndSwap(false, true) {
		return e.busy.Load()
	}
	return l.enqueue(e)
}

// enqueue queues the renewal of an entry that the caller has made busy.
func (l *Limiter) enqueue(e *entry) bool {
	l.count.pending.Add(1)
	select {
	case l.queue <- e:
		return true
	default:
		l.count.pending.Add(-1)
		l.count.full.Add(1)
		e.busy.Store(false)
		return false
	}
}

// work renews what is queued, as many at once as there are.
func (l *Limiter) work() {
	batch := make([]*entry, 0, batchSize)
	for {
		select {
		case <-l.stop:
			return
		case e := <-l.queue:
			batch = append(batch[:0], e)
		}
	fill:
		for len(batch) < batchSize {
			select {
			case e := <-l.queue:
				batch = append(batch, e)
			default:
				break fill
			}
		}
		l.renewAll(batch)
	}
}

// A renewal is one script call.
type renewal struct {
	*entry
	ask    shared.Ask
	cmd    *redis.Cmd
	united bool  // its charge includes what the local share used,
	lacks  int64 // these tokens of the share
}

func (l *Limiter) renewAll(batch []*entry) {
	settled := 0
	defer func() { // in a panic, nobody shall wait for ever
		for _, e := range batch[settled:] {
			l.settle(renewal{entry: e}, shared.Grant{}, errDown)
		}
	}()
	client := l.link.client()
	if client == nil || l.link.down.Load() {
		return
	}
	calls := make([]renewal, len(batch))
	for i, e := range batch {
		calls[i] = l.prepare(e)
	}
	l.exec(client, calls)
	for _, c := range calls {
		g, err := shared.Read(c.cmd.Result())
		settled++
		l.settle(c, g, err)
	}
}

func (l *Limiter) prepare(e *entry) renewal {
	r := renewal{entry: e}
	var charge int64
	charge, r.lacks, r.united = l.unite(e)
	r.ask = e.prepare(l.clock(), charge)
	return r
}

func (l *Limiter) settle(r renewal, g shared.Grant, err error) {
	more := r.entry.settle(l.clock(), g, err)
	l.count.pending.Add(-1)
	if more {
		l.renew(r.entry, r.lease.Load(), l.clock())
	}
	if err != nil {
		l.count.failed.Add(1)
		return
	}
	if r.united {
		l.shares.Refund(r.key, r.lacks)
		l.divided(r.entry) // unless more was taken meanwhile, it is no more
	}
	l.count.granted.Add(g.Tokens)
	l.count.returned.Add(r.ask.Back)
	if g.Tokens == 0 && r.ask.Want > 0 {
		l.count.empty.Add(1)
	}
}

var scriptSHA = func() string {
	sum := sha1.Sum([]byte(shared.Script))
	return hex.EncodeToString(sum[:])
}()

// exec runs the calls in one pipeline, those that Redis does not know the
// script for once more with the script, and tells the link how it went.
func (l *Limiter) exec(client redis.UniversalClient, calls []renewal) {
	l.pipeline(client, calls, func(pipe redis.Pipeliner, ctx context.Context, c *renewal) *redis.Cmd {
		return pipe.EvalSha(ctx, scriptSHA, []string{keyOf(c.key)}, c.plan.Args(c.ask)...)
	})
	var again []renewal
	var which []int
	for i, c := range calls {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			again, which = append(again, c), append(which, i)
		}
	}
	l.pipeline(client, again, func(pipe redis.Pipeliner, ctx context.Context, c *renewal) *redis.Cmd {
		return pipe.Eval(ctx, shared.Script, []string{keyOf(c.key)}, c.plan.Args(c.ask)...)
	})
	for i, c := range again {
		calls[which[i]].cmd = c.cmd
	}
	var worst error
	for _, c := range calls {
		err := c.cmd.Err()
		if !serverFault(err) {
			l.link.worked()
			return
		}
		worst = err
	}
	l.link.failed(l, worst)
}

func (l *Limiter) pipeline(client redis.UniversalClient, calls []renewal, add func(redis.Pipeliner, context.Context, *renewal) *redis.Cmd) {
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.link.patience+grace)
	defer cancel()
	defer l.link.watch(l)()
	pipe := client.Pipeline()
	for i := range calls {
		calls[i].cmd = add(pipe, ctx, &calls[i])
	}
	l.count.renewals.Add(int64(len(calls)))
	_, _ = pipe.Exec(ctx) // each command has its own error
}
