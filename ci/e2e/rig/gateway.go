package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	startLimit = 60 * time.Second
	// readyAPI is there in every gateway, without the plugin. Its target says
	// which load of the definitions it comes from.
	readyAPI = "rig-ready"
)

// Options say what gateway to start.
type Options struct {
	APIs     []API
	Policies map[string]Object
	Faulty   bool      // with the plugin that panics when told to
	Conf     Object    // fields of tyk.conf to set
	Env      []string  // NAME=value, for the gateway's process
	Log      io.Writer // gets the gateway's log too
}

// A Gateway is a running gateway.
type Gateway struct {
	URL      string
	Secret   string
	Upstream *Upstream
	Log      *Log

	rig     *Rig
	options Options
	dir     string
	so      string
	client  *http.Client
	closing sync.Once

	mu        sync.Mutex
	closed    bool
	processes []*process
	keys      []string
	loads     int // of the definitions
	redisPort int
}

// Start starts a gateway and waits until its APIs are loaded.
func (r *Rig) Start(ctx context.Context, o Options) (*Gateway, error) {
	g := &Gateway{
		rig: r, options: o, Secret: "rig-secret", client: newClient(),
		Log: &Log{also: o.Log},
	}
	r.mu.Lock()
	r.gateways = append(r.gateways, g)
	r.mu.Unlock()
	if err := g.startAlone(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// startAlone starts one gateway after the other: a start keeps a machine busy,
// and cases that measure time run beside it.
func (g *Gateway) startAlone(ctx context.Context) error {
	g.rig.starting.Lock()
	defer g.rig.starting.Unlock()
	return g.start(ctx)
}

func (g *Gateway) start(ctx context.Context) error {
	if err := g.prepare(); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := g.launch(ctx)
		if err == nil || attempt == 3 || !portTaken(err) {
			return err
		}
		g.stopProcesses() // somebody took the port between our look and its use
	}
}

func portTaken(err error) bool {
	return strings.Contains(err.Error(), "address already in use") ||
		strings.Contains(err.Error(), "is taken by another process")
}

// prepare makes the files that the gateway reads.
func (g *Gateway) prepare() (err error) {
	if g.dir, err = os.MkdirTemp(g.rig.dir, "gateway-"); err != nil {
		return err
	}
	if g.Upstream, err = startUpstream(); err != nil {
		return err
	}
	if g.so, err = g.rig.Plugin(g.options.Faulty); err != nil {
		return err
	}
	for _, name := range []string{"apps", "middleware", "templates"} {
		if err := os.Mkdir(g.path(name), 0o700); err != nil {
			return err
		}
	}
	for name, content := range templates {
		if err := os.WriteFile(g.path("templates/"+name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	policies := Object{}
	for id, p := range g.options.Policies {
		policies[id] = p
	}
	if err := writeJSON(g.path("policies.json"), policies); err != nil {
		return err
	}
	return g.Define(g.options.APIs...)
}

// Define writes API definitions; Reload makes the gateway read them.
func (g *Gateway) Define(apis ...API) error {
	for _, a := range apis {
		if a.Plugin == FromBundle && a.Bundle == "" {
			a.Bundle = "tokenbucket.zip"
			if g.options.Faulty {
				a.Bundle = "tokenbucket-faulty.zip"
			}
			if err := g.rig.MakeBundle(a.Bundle, g.options.Faulty); err != nil {
				return err
			}
		}
		if a.Plugin == ResponseBundle {
			a.Bundle = "tokenbucket-response.zip"
			if err := g.rig.MakeBundle(a.Bundle, g.options.Faulty, "-manifest", "manifest-response.json"); err != nil {
				return err
			}
		}
		if err := a.write(g.path("apps"), g.Upstream.URL, g.so); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gateway) launch(ctx context.Context) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	g.redisPort = ports[1]
	if g.rig.Real() {
		if err := g.startRedis(ctx, ports[1]); err != nil {
			return err
		}
	}
	if err := writeJSON(g.path("tyk.conf"), g.conf(ports[0], ports[1])); err != nil {
		return err
	}
	binary, err := g.rig.gatewayBinary()
	if err != nil {
		return err
	}
	if err := g.nextLoad(); err != nil {
		return err
	}
	cmd := exec.Command(binary, "--conf="+g.path("tyk.conf"))
	cmd.Dir, cmd.Env = g.dir, append(append(cleanEnv(), "TMPDIR="+g.dir), g.options.Env...)
	if err := g.spawn("the gateway", cmd, g.Log); err != nil {
		return err
	}
	g.URL = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	if err := g.ready(ctx); err != nil {
		return err
	}
	return g.pluginLoaded()
}

// pluginLoaded returns an error with the gateway's own line if a plugin could
// not be loaded: the gateway serves on, and answers 500.
func (g *Gateway) pluginLoaded() error {
	for _, words := range []string{"could not load go-plugin", "plugin file not found", "panic while loading go-plugin", "every request of the api will fail"} {
		if lines := g.Log.Lines(words); len(lines) > 0 {
			hint := ""
			if g.rig.Real() {
				hint = "\nTYK_BIN must be built from the source in TYK_SRC, with the same Go"
			}
			return fmt.Errorf("rig: the gateway does not load the plugin:\n%s%s", lines[0], hint)
		}
	}
	return nil
}

// ready waits until the gateway is healthy and has the APIs of the last load.
func (g *Gateway) ready(ctx context.Context) error {
	g.mu.Lock()
	load := loadMark(g.loads)
	g.mu.Unlock()
	err := Until(ctx, startLimit, func() error {
		if err := g.Alive(); err != nil {
			return final{err}
		}
		if r := g.Send(ctx, Request{Path: "/hello"}); r.Status != http.StatusOK {
			return fmt.Errorf("rig: /hello: %v", r)
		}
		if r := g.Send(ctx, Request{Path: "/" + readyAPI + "/"}); !r.OK() || !strings.Contains(r.Body, load) {
			return fmt.Errorf("rig: the APIs are not loaded: %v", r)
		}
		return nil
	})
	if err != nil && g.Alive() == nil {
		return fmt.Errorf("%w; the gateway's log ends with:\n%s", err, g.Log.Tail(20))
	}
	return err
}

// Reload makes the gateway read its files again, and waits until it has.
func (g *Gateway) Reload(ctx context.Context) error {
	if err := g.nextLoad(); err != nil {
		return err
	}
	if err := g.admin(ctx, http.MethodGet, "/tyk/reload?block=true", nil, nil); err != nil {
		return err
	}
	return g.ready(ctx)
}

func (g *Gateway) nextLoad() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loads++
	target := g.Upstream.URL + "/" + readyAPI + "/" + loadMark(g.loads) + "/"
	api := API{ID: readyAPI, Keyless: true, Plugin: Nowhere, Fields: Object{
		"proxy": Object{"listen_path": "/" + readyAPI + "/", "strip_listen_path": true, "target_url": target},
	}}
	return api.write(g.path("apps"), g.Upstream.URL, "")
}

func loadMark(n int) string { return fmt.Sprintf("load-%d.", n) }

// Alive returns an error if a process of the gateway has ended.
func (g *Gateway) Alive() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.processes {
		if err := p.alive(); err != nil {
			return err
		}
	}
	return nil
}

// spawn starts a process, unless the gateway is being closed.
func (g *Gateway) spawn(name string, cmd *exec.Cmd, log *Log) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errors.New("rig: the gateway was closed while it started")
	}
	p, err := startProcess(name, cmd, log)
	if err == nil {
		g.processes = append(g.processes, p)
	}
	return err
}

// stopProcesses ends them, the last first.
func (g *Gateway) stopProcesses() {
	g.mu.Lock()
	processes := g.processes
	g.processes = nil
	g.mu.Unlock()
	for i := len(processes) - 1; i >= 0; i-- {
		processes[i].stop()
	}
}

// RedisPort is where a real gateway's Redis listens.
func (g *Gateway) RedisPort() int { return g.redisPort }

// Close ends the gateway and what was started for it. Its log stays.
func (g *Gateway) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stopProcesses()
	g.client.CloseIdleConnections()
	g.closing.Do(func() {
		if g.Upstream != nil {
			g.Upstream.server.Close()
		}
		_ = os.RemoveAll(g.dir)
	})
}

func (g *Gateway) path(name string) string { return filepath.Join(g.dir, filepath.FromSlash(name)) }
