package plugin

import (
	"context"
	"sync"
	"time"

	"github.com/TykTechnologies/tyk/config"
	"github.com/TykTechnologies/tyk/storage"
	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// buckets are where tokens are taken from: this gateway's own, or those that
// it shares with others. It is no interface, so that claims stay on the stack.
type buckets struct {
	own    *limiter.Limiter
	shared *cluster.Limiter // nil: there are none
}

// of chooses the buckets of a charge.
func (b buckets) of(c *charge) buckets {
	if c.local {
		b.shared = nil
	}
	return b
}

func (b buckets) takeKnownAt(now time.Duration, r *rule, tokens int64) limiter.Decision {
	if b.shared != nil {
		return b.shared.TakeKnown(r.bucket, r.policy.Limit(), tokens)
	}
	return b.own.TakeKnownAt(now, r.bucket, r.policy.Limit(), tokens)
}

func (b buckets) decide(claims []limiter.Claim, known bool) (limiter.Decision, int) {
	switch {
	case b.shared != nil && known:
		return b.shared.DecideKnown(claims)
	case b.shared != nil:
		return b.shared.Decide(claims)
	case known:
		return b.own.DecideKnown(claims)
	}
	return b.own.Decide(claims)
}

func (b buckets) peek(r *rule) limiter.Decision {
	if b.shared != nil {
		return b.shared.Peek(r.bucket, r.policy.Limit())
	}
	return b.own.Peek(r.bucket, r.policy.Limit())
}

// look brings up to date what peek tells, and waits for it if need be.
func (b buckets) look(claims []limiter.Claim) {
	if b.shared != nil {
		b.shared.Look(claims)
	}
}

// settle charges more, or gives back.
func (b buckets) settle(r *rule, more int64) {
	switch {
	case b.shared != nil && more > 0:
		b.shared.Charge(r.bucket, r.policy.Limit(), more)
	case b.shared != nil:
		b.shared.Refund(r.bucket, r.policy.Limit(), -more)
	case more > 0:
		b.own.Charge(r.bucket, r.policy.Limit(), more)
	default:
		b.own.Refund(r.bucket, -more)
	}
}

// openBuckets makes the buckets that the process's settings ask for.
func openBuckets(p process, log func(line string)) buckets {
	b := buckets{own: limiter.New(limiter.WithMaxKeys(p.maxKeys), limiter.WithShards(p.shards), limiter.WithClock(p.clock))}
	if !p.cluster {
		return b
	}
	o := cluster.Options{Clock: p.clock, MaxKeys: p.maxKeys, Nodes: p.nodes, Wait: p.wait, OnRedisFault: p.onRedisFault, Log: log}
	if o.Client = p.redis; o.Client == nil {
		o.Connect = gatewaysRedis()
	}
	b.shared = cluster.New(o)
	return b
}

// gatewaysRedis connects to the gateway's own Redis in the background. The
// gateway's settings are not there before it runs.
func gatewaysRedis() func() redis.UniversalClient {
	var once sync.Once
	view := &storage.RedisCluster{}
	return func() redis.UniversalClient {
		if config.Global == nil {
			return nil
		}
		once.Do(func() {
			conf := config.Global()
			view.ConnectionHandler = storage.NewConnectionHandler(context.Background())
			// It tries until it is connected. Without a callback the gateway
			// would die when Redis comes back.
			go view.ConnectionHandler.Connect(context.Background(), func() {}, &conf)
		})
		client, err := view.Client()
		if err != nil {
			return nil
		}
		return client
	}
}
