package cluster_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster"
)

// logged keeps log lines.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logged) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func dialed(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := cluster.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// started is a gateway in real time that Redis has answered.
func started(t *testing.T, url string, o cluster.Options, change func(*cluster.Options)) *cluster.Limiter {
	t.Helper()
	o.Client = dialed(t, url)
	if change != nil {
		change(&o)
	}
	return up(t, o)
}

// up is the same with a client that is there.
func up(t *testing.T, o cluster.Options) *cluster.Limiter {
	t.Helper()
	l := cluster.New(o)
	t.Cleanup(func() { l.Close(); _ = o.Client.Close() })
	eventually(t, "the first answer", 3*second, func() bool { return l.Stats().Up })
	return l
}

// panicking is a client that panics in pipelines while it is on.
type panicking struct{ on atomic.Bool }

func (p *panicking) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (p *panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *panicking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if p.on.Load() {
			panic("pipeline")
		}
		return next(ctx, cmds)
	}
}
