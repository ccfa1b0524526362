// Package rig runs a gateway with the plugin in it, as a process of its own with
// all that it needs around it, and talks to it over HTTP.
//
// The gateway is the development host of ci/devgateway, or a real Tyk Gateway:
//
//	TYK_BIN     the gateway's binary; "" for the development host
//	TYK_SRC     its source tree, against which the plugin is built, by
//	            ci/compile/workspace
//	PLUGIN_SO   the plugin, BUNDLE the bundle command, DEVGATEWAY the
//	            development host: built already; what is "" is built here
//
// Everything else is the same for both: configuration, definitions, policies,
// admin API.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// A Rig builds what gateways need, once, and starts them.
type Rig struct {
	root      string // of the repository
	dir       string // temporary
	tykBin    string
	tykSrc    string
	given     map[string]string // artifacts that are built already
	bundleURL string
	bundles   *http.Server
	ctx       context.Context // ends builds
	starting  sync.Mutex      // held by the gateway that starts

	mu        sync.Mutex
	artifacts map[string]*artifact
	gateways  []*Gateway
}

// New makes a rig from the environment. When ctx ends, so do builds.
func New(ctx context.Context) (*Rig, error) {
	r := &Rig{
		ctx:       ctx,
		tykBin:    os.Getenv("TYK_BIN"),
		tykSrc:    os.Getenv("TYK_SRC"),
		artifacts: make(map[string]*artifact),
		given:     make(map[string]string),
	}
	if err := r.checkEnvironment(); err != nil {
		return nil, err
	}
	var err error
	if r.root, err = findRoot(); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp("", "tokenbucket-"); err != nil {
		return nil, err
	}
	if err := os.Mkdir(r.BundlePath(""), 0o700); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.bundles, r.bundleURL, err = serve(http.FileServer(http.Dir(r.BundlePath(""))))
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Real reports whether gateways are real Tyk Gateways.
func (r *Rig) Real() bool { return r.tykBin != "" }

// HasSetting reports whether the real gateway's source knows a field of tyk.conf:
// old releases lack some.
func (r *Rig) HasSetting(name string) bool {
	files, _ := filepath.Glob(filepath.Join(r.tykSrc, "config", "*.go"))
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), `json:"`+name+`"`) {
			return true
		}
	}
	return false
}

// GatewayName says which gateway it is, for people.
func (r *Rig) GatewayName() string {
	if r.Real() {
		return "Tyk Gateway (" + filepath.Base(r.tykBin) + ")"
	}
	return "development gateway"
}

func (r *Rig) checkEnvironment() error {
	for _, name := range []string{"PLUGIN_SO", "BUNDLE", "DEVGATEWAY"} {
		path := os.Getenv(name)
		if path == "" || name == "PLUGIN_SO" && r.tykSrc != "" && !r.Real() {
			continue // no gateway but that of TYK_SRC would load it
		}
		if err := mustBeFile(name, path); err != nil {
			return err
		}
		r.given[name], _ = filepath.Abs(path)
	}
	if !r.Real() {
		return nil
	}
	if err := mustBeFile("TYK_BIN", r.tykBin); err != nil {
		return err
	}
	r.tykBin, _ = filepath.Abs(r.tykBin)
	if r.tykSrc == "" {
		return errors.New("rig: TYK_BIN is set, TYK_SRC is not: name the source tree of that gateway, a plugin must be built against it")
	}
	r.tykSrc, _ = filepath.Abs(r.tykSrc)
	if err := mustBeFile("TYK_SRC", filepath.Join(r.tykSrc, "go.mod")); err != nil {
		return err
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return errors.New("rig: a real gateway needs redis-server, and there is none in PATH: install it (Debian: apt-get install redis-server)")
	}
	return nil
}

func mustBeFile(name, path string) error {
	if info, err := os.Stat(path); err != nil {
		return fmt.Errorf("rig: %s: %w", name, err)
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("rig: %s: %s is not a file", name, path)
	}
	return nil
}

// findRoot looks for the repository, from the working directory upwards.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module tokenbucket.internal\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("rig: run this inside the repository: no go.mod of module tokenbucket.internal here or above")
		}
		dir = parent
	}
}

// Gateways returns every gateway that was started, also those that have ended.
func (r *Rig) Gateways() []*Gateway {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Gateway(nil), r.gateways...)
}

// Close ends everything that the rig has started and removes its files.
func (r *Rig) Close() error {
	var stopping sync.WaitGroup
	for _, g := range r.Gateways() {
		stopping.Add(1)
		go func() {
			defer stopping.Done()
			g.Close()
		}()
	}
	stopping.Wait()
	if r.bundles != nil {
		r.bundles.Close()
	}
	return os.RemoveAll(r.dir)
}
