package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

const pluginName = "tokenbucket.so"

// artifact is a file that is built once.
type artifact struct {
	once sync.Once
	path string
	err  error
}

// built returns the artifact of that name, and makes it if nobody has.
func (r *Rig) built(name string, build func(to string) error) (string, error) {
	r.mu.Lock()
	a := r.artifacts[name]
	if a == nil {
		a = new(artifact)
		r.artifacts[name] = a
	}
	r.mu.Unlock()
	a.once.Do(func() {
		a.path = filepath.Join(r.dir, name)
		if a.err = os.MkdirAll(filepath.Dir(a.path), 0o700); a.err == nil {
			a.err = build(a.path)
		}
	})
	return a.path, a.err
}

// Plugin returns the .so; a faulty one panics in the hook that a request's
// X-Ratelimit-Fault header names.
func (r *Rig) Plugin(faulty bool) (string, error) {
	if path := r.given["PLUGIN_SO"]; path != "" && !faulty {
		return path, nil
	}
	name, tag := filepath.Join("plugin", pluginName), ""
	if faulty {
		name, tag = filepath.Join("faulty", pluginName), "faultinjection"
	}
	return r.built(name, func(to string) error {
		if r.Real() {
			_, err := r.run(r.root, []string{"TAGS=" + tag}, filepath.Join("ci", "compile", "workspace"), r.tykSrc, to)
			return err
		}
		_, err := r.run(r.root, nil, "go", "build", "-buildmode=plugin", "-trimpath", "-tags=goplugin "+tag, "-o", to, ".")
		return err
	})
}

// PluginWith builds the .so once more for a real gateway, with a build id.
func (r *Rig) PluginWith(buildID string) (string, error) {
	return r.built(filepath.Join("build-"+buildID, pluginName), func(to string) error {
		_, err := r.run(r.root, nil, filepath.Join("ci", "compile", "workspace"), r.tykSrc, to, buildID)
		return err
	})
}

// LoadSymbol lets a real gateway's own command load a symbol of the plugin.
func (r *Rig) LoadSymbol(symbol string) (string, error) {
	so, err := r.Plugin(false)
	if err != nil {
		return "", err
	}
	return r.run(r.root, nil, r.tykBin, "plugin", "load", "-f", so, "-s", symbol)
}

func (r *Rig) gatewayBinary() (string, error) {
	if r.Real() {
		return r.tykBin, nil
	}
	if path := r.given["DEVGATEWAY"]; path != "" {
		return path, nil
	}
	return r.built("devgateway", func(to string) error {
		_, err := r.run(filepath.Join(r.root, "ci", "devgateway"), nil, "go", "build", "-trimpath", "-tags=goplugin", "-o", to, ".")
		return err
	})
}

// BundleTool runs the bundle command in the repository and returns what it
// prints; its error has what it says went wrong.
func (r *Rig) BundleTool(args ...string) (string, error) {
	tool := r.given["BUNDLE"]
	if tool == "" {
		var err error
		tool, err = r.built("bundle", func(to string) error {
			_, err := r.run(r.root, nil, "go", "build", "-o", to, "./bundle")
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return r.run(r.root, nil, append([]string{tool}, args...)...)
}

// BundlePath is the file that gateways download as bundle name.
func (r *Rig) BundlePath(name string) string { return filepath.Join(r.dir, "bundles", name) }

// MakeBundle puts the plugin into a bundle of that name; flags are the bundle
// command's.
func (r *Rig) MakeBundle(name string, faulty bool, flags ...string) error {
	_, err := r.built(filepath.Join("bundles", name), func(to string) error {
		so, err := r.Plugin(faulty)
		if err != nil {
			return err
		}
		args := append([]string{"build", "-manifest", "manifest.json", "-o", to}, flags...)
		_, err = r.BundleTool(append(args, so)...)
		return err
	})
	return err
}

// run runs a command to its end and returns what it prints. No Go workspace of
// the user's gets in.
func (r *Rig) run(dir string, env []string, args ...string) (string, error) {
	if r.ctx.Err() != nil {
		return "", r.ctx.Err()
	}
	cmd := exec.CommandContext(r.ctx, args[0], args[1:]...)
	cmd.SysProcAttr = processAttributes()
	cmd.Cancel = func() error { return signalGroup(cmd, syscall.SIGKILL) }
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=1", "GOWORK=off"), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	// On Linux the child is killed when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("rig: %w: install it", err)
	case err != nil:
		return "", fmt.Errorf("rig: %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
