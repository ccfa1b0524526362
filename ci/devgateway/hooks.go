package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"plugin"
	"runtime"
	"strings"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/ctx"
)

type (
	requestFunc  = func(http.ResponseWriter, *http.Request)
	responseFunc = func(http.ResponseWriter, *http.Response, *http.Request)

	// opener finds a symbol of a plugin file.
	opener func(path, symbol string) (any, error)
)

// hook is one hook of an API; call is nil if its plugin could not be loaded.
type hook[F any] struct {
	name string
	call F
}

// loadHooks loads the hooks of every kind. A hook that cannot be loaded makes
// every request of the API fail with 500; only a wrong driver is an error.
func (a *api) loadHooks(folder string) error {
	section := a.def.CustomMiddleware
	hooks := len(section.Pre) + len(section.PostKeyAuth) + len(section.Post) + len(section.Response)
	if hooks > 0 && section.Driver != apidef.GoPluginDriver {
		return fmt.Errorf("driver: %q is not supported; use %q", section.Driver, apidef.GoPluginDriver)
	}
	a.pre = loadAll[requestFunc](a, folder, section.Pre)
	a.postKeyAuth = loadAll[requestFunc](a, folder, section.PostKeyAuth)
	a.post = loadAll[requestFunc](a, folder, section.Post)
	a.response = loadAll[responseFunc](a, folder, section.Response)
	return nil
}

func loadAll[F any](a *api, folder string, defs []apidef.MiddlewareDefinition) []hook[F] {
	var hooks []hook[F]
	for _, def := range defs {
		if def.Disabled {
			continue
		}
		h := hook[F]{name: def.Name}
		path := def.Path
		if folder != "" {
			path = filepath.Join(folder, path)
		}
		symbol, err := a.gw.openHook(path, def.Name)
		if err == nil {
			var ok bool
			if h.call, ok = symbol.(F); !ok {
				err = fmt.Errorf("%s is a %T, want a %T", def.Name, symbol, h.call)
			}
		}
		if err != nil {
			a.gw.log.WithField("api_id", a.def.APIID).Errorf("plugin %s not loaded, every request of the API will fail: %v", path, err)
		}
		hooks = append(hooks, h)
	}
	return hooks
}

func (g *gateway) openHook(path, symbol string) (found any, err error) {
	file, err := pluginFile(path, version)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := recover(); e != nil {
			found, err = nil, fmt.Errorf("panic while loading: %v", e)
		}
	}()
	return g.open(file, symbol)
}

// pluginFile picks the file of this version and platform beside path: with and
// without the v, else path itself. What follows a dash in the version is cut.
func pluginFile(path, version string) (string, error) {
	release, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	base := strings.TrimSuffix(path, ".so")
	for _, candidate := range []string{
		fmt.Sprintf("%s_v%s_%s_%s.so", base, release, runtime.GOOS, runtime.GOARCH),
		fmt.Sprintf("%s_%s_%s_%s.so", base, release, runtime.GOOS, runtime.GOARCH),
		path,
	} {
		if _, err := os.Stat(candidate); err == nil {
			return candidate, nil
		}
	}
	return "", errors.New("plugin file not found")
}

func openPlugin(path, symbol string) (any, error) {
	p, err := plugin.Open(path)
	if err != nil {
		return nil, err
	}
	return p.Lookup(symbol)
}

// runHooks calls request hooks until one has answered, and reports whether none
// has. A panic of a hook drops the client's connection.
func (a *api) runHooks(hooks []hook[requestFunc], w http.ResponseWriter, r *http.Request) bool {
	for _, h := range hooks {
		if h.call == nil {
			answerError(w, r, http.StatusInternalServerError, http.StatusText(http.StatusInternalServerError))
			return false
		}
		hw := &hookWriter{ResponseWriter: w, time: hookTimeOf(r)}
		a.inject(r)
		if a.panics(hw, h.name, func() { h.call(hw, r) }) {
			panic(http.ErrAbortHandler)
		}
		if hw.status != 0 {
			return false
		}
	}
	return true
}

// runResponseHooks stops at a hook that answers with an error of its own. A
// hook that panics, or was never loaded, answers 500.
func (a *api) runResponseHooks(w http.ResponseWriter, res *http.Response, r *http.Request) {
	for _, h := range a.response {
		hw := &hookWriter{ResponseWriter: w, time: hookTimeOf(r)}
		a.inject(r)
		if h.call == nil || a.panics(hw, h.name, func() { h.call(hw, res, r) }) {
			w.WriteHeader(http.StatusInternalServerError)
		}
		if hw.status >= http.StatusBadRequest {
			return
		}
	}
}

func (a *api) panics(w *hookWriter, name string, call func()) (panicked bool) {
	w.time.begin()
	defer func() {
		w.time.end()
		if e := recover(); e != nil {
			panicked = true
			a.gw.log.WithField("api_id", a.def.APIID).Errorf("panic in plugin hook %s: %v", name, e)
		}
	}()
	call()
	return false
}

// inject puts the definition into the context: an OAS API has only its document
// there, a classic one only its definition.
func (a *api) inject(r *http.Request) {
	if a.oas != nil {
		ctx.SetOASDefinition(r, a.oas)
	} else {
		ctx.SetDefinition(r, a.def)
	}
}

// hookWriter notes whether a hook has answered.
type hookWriter struct {
	http.ResponseWriter
	status int
	time   *hookTime
}

func (w *hookWriter) WriteHeader(code int) {
	w.status = code
	w.time.tell(w.Header())
	w.ResponseWriter.WriteHeader(code)
}

func (w *hookWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

func (w *hookWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
