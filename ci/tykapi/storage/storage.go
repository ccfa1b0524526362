// Package storage connects to the gateway's Redis.
package storage

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/TykTechnologies/tyk/config"
	"github.com/redis/go-redis/v9"
)

// ConnectionHandler holds the connection to Redis.
type ConnectionHandler struct {
	client atomic.Pointer[redis.Client]
}

// NewConnectionHandler returns a handler that is not connected.
func NewConnectionHandler(context.Context) *ConnectionHandler { return new(ConnectionHandler) }

// Connect tries until Redis answers, then calls onConnect. It blocks so long.
func (h *ConnectionHandler) Connect(ctx context.Context, onConnect func(), conf *config.Config) {
	s := conf.Storage
	client := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), Username: s.Username, Password: s.Password, DB: s.Database,
	})
	for client.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	h.client.Store(client)
	onConnect()
}

// RedisCluster is a view of a connection.
type RedisCluster struct {
	ConnectionHandler *ConnectionHandler
}

// Client returns the connection's client.
func (r *RedisCluster) Client() (redis.UniversalClient, error) {
	if c := r.ConnectionHandler.client.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("storage: Redis is not connected")
}
