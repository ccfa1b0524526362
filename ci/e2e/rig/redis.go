package rig

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	network "tokenbucket.internal/ci/cluster/rig"
)

// A Redis is one that several gateways share, behind a network that can be cut.
type Redis struct {
	URL string // through the network

	rig     *Rig
	port    int
	network *network.Proxy
	server  *process
}

// ErrNoRedis says that redis-server is not installed.
var ErrNoRedis = errors.New("rig: redis-server is not in PATH: install it (Debian: apt-get install redis-server)")

// StartRedis starts a Redis that keeps nothing.
func (r *Rig) StartRedis(ctx context.Context) (*Redis, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, ErrNoRedis
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	d := &Redis{rig: r, port: ports[0]}
	if err := d.Start(ctx); err != nil {
		return nil, err
	}
	if d.network, err = network.NewProxy(d.address()); err != nil {
		d.Kill()
		return nil, err
	}
	d.URL = "redis://" + d.network.Addr + "/0"
	return d, nil
}

// Start starts the server, again after a Kill, empty.
func (d *Redis) Start(ctx context.Context) error {
	cmd := redisServer(d.port, d.rig.dir)
	var err error
	if d.server, err = startProcess("redis-server", cmd, new(Log)); err != nil {
		return err
	}
	return Until(ctx, startLimit, func() error {
		if err := d.server.alive(); err != nil {
			return final{err}
		}
		return ping(d.address())
	})
}

// Storage is the gateways' own storage, without the proxy.
func (d *Redis) Storage() Object {
	return Object{"type": "redis", "host": "127.0.0.1", "port": d.port}
}

func (d *Redis) address() string { return fmt.Sprintf("127.0.0.1:%d", d.port) }

// Kill ends the server at once.
func (d *Redis) Kill() {
	_ = signalGroup(d.server.cmd, syscall.SIGKILL)
	<-d.server.done
}

// Close ends the server and the network.
func (d *Redis) Close() {
	d.network.Close()
	d.Kill()
}

// Lose lets nothing pass any more, as a cut network does, or everything again.
func (d *Redis) Lose(all bool) { d.network.Cut(all, all) }

// Commands is how many commands the server has done.
func (d *Redis) Commands() (int64, error) {
	return d.count("stats", "total_commands_processed:")
}

// Scripts is how many of the calls that take tokens the server has done.
func (d *Redis) Scripts() (int64, error) {
	return d.count("commandstats", "cmdstat_evalsha:calls=")
}

// count is the number after a prefix in the server's INFO, 0 if it is not there.
func (d *Redis) count(section, prefix string) (int64, error) {
	out, err := d.rig.run(d.rig.root, nil, "redis-cli", "-p", strconv.Itoa(d.port), "info", section)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(out, "\r\n") {
		if text, ok := strings.CutPrefix(line, prefix); ok {
			number, _, _ := strings.Cut(text, ",")
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, nil
}
