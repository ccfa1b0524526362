package e2e

import (
	"context"
	"fmt"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

// Gateways with one Redis know the same keys, and each has its own buckets.
func TestTwoGatewaysOnOneRedisEachLimitByThemselves(t *testing.T) {
	realOnly(t, "Redis")
	t.Parallel()
	api := rig.API{ID: "two-gateways"}
	first := own(t, rig.Options{APIs: []rig.API{api}})
	second := own(t, rig.Options{APIs: []rig.API{api}, Conf: rig.Object{
		"storage": rig.Object{"type": "redis", "host": "127.0.0.1", "port": first.RedisPort()}}})
	clients := [2]*client{clientOf(t, first, api.ID), clientOf(t, second, api.ID)}
	for i, maker := range clients {
		t.Run([]string{"made on the first", "made on the second"}[i], func(t *testing.T) {
			t.Parallel()
			bothLimit(t, maker, clients[1-i])
		})
	}
}

func bothLimit(t *testing.T, maker, other *client) {
	key := maker.key(limits("1/h burst 3"))
	maker.admits(3, 5, rig.Request{Key: key})
	other.admits(3, 5, rig.Request{Key: key})
	// What one gateway is told, the other learns, with the bucket that it has.
	maker.update(key, limits("2/h burst 9"))
	until(t, learnLimit, func() error {
		if r := other.wantRefused(key); r.Header.Get("RateLimit-Policy") != `"default";q=2;w=3600` {
			return fmt.Errorf("the raised limit is not in force: %v", r)
		}
		return nil
	})
	if err := maker.g.DeleteKey(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	until(t, learnLimit, func() error {
		if r := other.get(key); !rejected(r) {
			return fmt.Errorf("the key is alive: %v", r)
		}
		return nil
	})
}
