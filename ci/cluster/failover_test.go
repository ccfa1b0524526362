package cluster_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/ci/cluster/rig"
	"tokenbucket.internal/cluster"
	"tokenbucket.internal/limiter"
)

// A sentinel makes the replica the master: the buckets go on there.
func TestFailover(t *testing.T) {
	t.Parallel()
	master := realRedis(t)
	_, port, _ := net.SplitHostPort(master.Addr)
	replica := realRedis(t, "--replicaof", "127.0.0.1", port)
	sentinel, err := rig.StartSentinel(master)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sentinel.Stop)
	ctx := context.Background()
	admin := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr})
	defer func() { _ = admin.Close() }()
	eventually(t, "the sentinel to know the replica", 15*second, func() bool {
		replicas, err := admin.Replicas(ctx, "main").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})

	client, err := cluster.Dial("redis+sentinel://" + sentinel.Addr + "/0?master_name=main")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	var lines logged
	// As when it is Tyk's: what New makes of it goes by the sentinel, too.
	l := cluster.New(cluster.Options{Connect: func() redis.UniversalClient { return client }, Nodes: 2, Log: lines.add})
	defer l.Close()
	eventually(t, "the first answer", 5*second, func() bool { return l.Stats().Up })
	limit := limiter.Limit{Tokens: 1, Period: time.Hour, Burst: 100}
	spent := take(l, id, limit, 20)

	if err := admin.Failover(ctx, "main").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the failover", 15*second, func() bool {
		addr, err := admin.GetMasterAddrByName(ctx, "main").Result()
		spent += take(l, id, limit, 1)
		return err == nil && strings.Join(addr, ":") == replica.Addr
	})
	began := time.Now()
	eventually(t, "leases from the new master", 10*second, func() bool {
		before := l.Stats().Granted
		l.Take(fmt.Sprint(time.Now()), limit, 1)
		time.Sleep(20 * time.Millisecond)
		return l.Stats().Up && l.Stats().Granted > before && client.Info(ctx, "replication").Err() == nil
	})
	t.Logf("leases %v after the failover\n%s", time.Since(began).Round(time.Millisecond), strings.Join(lines.all(), "\n"))
	for range 30 {
		spent += take(l, id, limit, 20)
		time.Sleep(50 * time.Millisecond)
	}
	if spent > 150 || spent < 90 { // a share of the burst for the time without a master
		t.Errorf("%d of a burst of 100", spent)
	}
}
