// Package rig runs what the tests and the benchmark need around them: a Redis
// server of their own, and a network that can be slow or cut.
package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Redis is a server process without persistence, on a free port.
type Redis struct {
	Addr string
	port int
	bin  string
	dir  string
	args []string
	conf []string // all arguments, of a sentinel
	cmd  *exec.Cmd
}

// Server names the Redis or Valkey server that is installed, or $REDIS_SERVER.
func Server() (string, error) {
	if bin := os.Getenv("REDIS_SERVER"); bin != "" {
		return exec.LookPath(bin)
	}
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		bin, err = exec.LookPath("valkey-server")
	}
	return bin, err
}

// StartRedis starts a server with more arguments.
func StartRedis(args ...string) (*Redis, error) {
	bin, err := Server()
	if err != nil {
		return nil, fmt.Errorf("no Redis server is installed: %w", err)
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		return nil, err
	}
	r := &Redis{Addr: "127.0.0.1:" + strconv.Itoa(port), port: port, bin: bin, dir: dir, args: args}
	if err := r.Start(); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// StartSentinel starts a sentinel that watches a server under the name main.
func StartSentinel(master *Redis) (*Redis, error) {
	dir, err := os.MkdirTemp("", "sentinel")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 %d 1\nsentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n", port, master.port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	r := &Redis{Addr: "127.0.0.1:" + strconv.Itoa(port), port: port, bin: master.bin, dir: dir, conf: []string{conf, "--sentinel"}}
	if err := r.Start(); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// Start starts the server again after Kill, empty, and waits until it answers.
func (r *Redis) Start() error {
	args := r.conf
	if args == nil {
		args = append([]string{"--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.dir}, r.args...)
	}
	r.cmd = exec.Command(r.bin, args...)
	if err := r.cmd.Start(); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	for range 500 {
		if client.Ping(context.Background()).Err() == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s did not answer on port %d within 5 s", r.bin, r.port)
}

// Kill ends the process without a goodbye.
func (r *Redis) Kill() {
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

// Stop ends the process and removes its folder.
func (r *Redis) Stop() {
	r.Kill()
	_ = os.RemoveAll(r.dir)
}

// FreePort is a port that nobody listens on at the moment.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
