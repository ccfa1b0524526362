package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Redis is one that several gateways share, behind a proxy that can delay and
// lose what passes.
type Redis struct {
	URL string // through the proxy

	rig      *Rig
	port     int
	listener net.Listener
	server   *process

	mu    sync.Mutex
	delay time.Duration
	hole  bool // nothing passes, and nobody is told
	conns map[net.Conn]bool
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
	d := &Redis{rig: r, port: ports[0], conns: make(map[net.Conn]bool)}
	if err := d.Start(ctx); err != nil {
		return nil, err
	}
	if d.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		d.Kill()
		return nil, err
	}
	d.URL = fmt.Sprintf("redis://%s/0", d.listener.Addr())
	go d.proxy()
	return d, nil
}

// Start starts the server, again after a Kill, empty.
func (d *Redis) Start(ctx context.Context) error {
	cmd := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(d.port),
		"--save", "", "--appendonly", "no", "--dir", d.rig.dir)
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

// Close ends the server and the proxy.
func (d *Redis) Close() {
	_ = d.listener.Close()
	d.Kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.conns {
		_ = conn.Close()
	}
}

// Delay makes whatever passes later by so much, each way.
func (d *Redis) Delay(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = by
}

// Lose lets nothing pass any more, as a cut network does, or everything again.
func (d *Redis) Lose(all bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hole = all
}

// Commands is how many commands the server has done.
func (d *Redis) Commands() (n int64, err error) {
	text, err := d.info("stats", "total_commands_processed")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

func (d *Redis) info(section, field string) (string, error) {
	out, err := d.rig.run(d.rig.root, nil, "redis-cli", "-p", strconv.Itoa(d.port), "info", section)
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(out, "\r\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("rig: redis-cli says nothing of %s", field)
}

func (d *Redis) proxy() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", d.address())
		if err != nil {
			_ = client.Close()
			continue
		}
		d.mu.Lock()
		d.conns[client], d.conns[server] = true, true
		d.mu.Unlock()
		go d.pass(client, server)
		go d.pass(server, client)
	}
}

// pass copies until one side ends, and then ends both.
func (d *Redis) pass(from, to net.Conn) {
	defer func() {
		_ = from.Close()
		_ = to.Close()
		d.mu.Lock()
		delete(d.conns, from)
		d.mu.Unlock()
	}()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		d.mu.Lock()
		delay, hole := d.delay, d.hole
		d.mu.Unlock()
		if hole {
			continue
		}
		time.Sleep(delay)
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
