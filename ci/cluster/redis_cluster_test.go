package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/ci/cluster/rig"
	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// realCluster is a Redis Cluster of one node that has all slots.
func realCluster(t *testing.T) (r *rig.Redis, admin *redis.Client) {
	t.Helper()
	r = realRedis(t, "--cluster-enabled", "yes")
	admin = redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = admin.Close() })
	if err := admin.ClusterAddSlotsRange(context.Background(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster", 5*second, func() bool {
		return strings.Contains(admin.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	return r, admin
}

func TestRedisCluster(t *testing.T) {
	r, _ := realCluster(t)
	l := started(t, "redis+cluster://"+r.Addr, cluster.Options{Nodes: 2}, nil)
	for _, key := range keysOf(300) {
		if !l.Take(key, limiter.Limit{Tokens: 1, Period: time.Hour, Burst: 100}, 1).Allowed {
			t.Error("refused")
		}
	}
	if st := l.Stats(); st.Failed > 300 || st.Local > 0 || st.Granted < 300 {
		t.Errorf("%+v", st)
	}
}

// A losing connection ends once a script is sent on it, before the answer can be
// read, when it is armed.
type losing struct {
	net.Conn
	armed *atomic.Bool
	lost  atomic.Bool
}

func (c *losing) Write(b []byte) (int, error) {
	if strings.Contains(strings.ToLower(string(b)), "evalsha") && c.armed.CompareAndSwap(true, false) {
		c.lost.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *losing) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.lost.Load() {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// A script whose answer is lost is not run again: tokens that come back would
// come back twice.
func TestRedisClusterRetriesNothing(t *testing.T) {
	r, admin := realCluster(t)
	first := dialed(t, "redis+cluster://"+r.Addr).(*redis.ClusterClient)
	defer func() { _ = first.Close() }()
	o := *first.Options()
	if o.MaxRedirects != 0 {
		t.Errorf("%d redirects", o.MaxRedirects)
	}
	o.MaxRedirects, o.NewClient = -1, nil // 0 stands for the default
	var armed atomic.Bool
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &losing{Conn: c, armed: &armed}, err
	}
	l := up(t, cluster.Options{Client: redis.NewClusterClient(&o), Nodes: 2})
	limit := limitOf(t, "1/h burst 400")
	take(l, id, limit, 50)
	eventually(t, "a lease", 2*second, func() bool { return l.Stats().Pending == 0 && l.Stats().Granted > 50 })
	// What Redis has run, and what was sent.
	count := func() (scripts, renewals int64) {
		_, text, _ := strings.Cut(admin.Info(context.Background(), "commandstats").Val(), "cmdstat_evalsha:calls=")
		_, _ = fmt.Sscan(strings.Split(text, ",")[0], &scripts)
		return scripts, l.Stats().Renewals
	}
	scripts, renewals := count()
	armed.Store(true)
	eventually(t, "the loss of an answer", 4*second, func() bool { return l.Stats().Failed > 0 && l.Stats().Pending == 0 })
	ran, sent := count()
	if ran -= scripts; ran != sent-renewals || ran == 0 {
		t.Errorf("%d scripts ran for %d renewals", ran, sent-renewals)
	}
}

// The replica takes over: within two seconds leases come from there.
func TestRedisClusterFailover(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	master, admin := realCluster(t)
	replica := realRedis(t, "--cluster-enabled", "yes")
	other := redis.NewClient(&redis.Options{Addr: replica.Addr})
	defer func() { _ = other.Close() }()
	host, port, _ := net.SplitHostPort(master.Addr)
	if err := other.ClusterMeet(ctx, host, port).Err(); err != nil {
		t.Fatal(err)
	}
	name, err := admin.Do(ctx, "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a replica", 10*second, func() bool { return other.ClusterReplicate(ctx, name).Err() == nil })
	eventually(t, "the replica to be known", 30*second, func() bool {
		slots := admin.ClusterSlots(ctx).Val()
		return strings.Contains(other.Info(ctx, "replication").Val(), "master_link_status:up") && len(slots) == 1 && len(slots[0].Nodes) == 2
	})
	l := started(t, "redis+cluster://"+master.Addr+"?addr="+replica.Addr, cluster.Options{Nodes: 2}, nil)
	limit := limitOf(t, "1/h burst 100")
	take(l, id, limit, 10)
	master.Kill()
	eventually(t, "giving Redis up", 3*second, func() bool { return !l.Stats().Up })
	if err := other.Do(ctx, "cluster", "failover", "takeover").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica to take over", 10*second, func() bool {
		return strings.Contains(other.ClusterInfo(ctx).Val(), "cluster_state:ok") && other.Set(ctx, "x", 1, time.Second).Err() == nil
	})
	began := time.Now()
	eventually(t, "leases from the new master", 4*second, func() bool { return l.Stats().Up })
	t.Logf("back after %v", time.Since(began).Round(time.Millisecond))
}
