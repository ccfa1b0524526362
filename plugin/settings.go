package plugin

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
	"github.com/TykTechnologies/tyk/ctx"

	"tokenbucket.internal/limiter/httplimit"
)

// settings are what the plugin needs to know of an API.
type settings struct {
	api     string
	id      id // of api
	keyless bool
	sources []source // of credentials; none if they must not be learned

	byDefault     *httplimit.Policy // for keys without a limit of their own
	anonymous     *httplimit.Policy // for requests without a key
	refresh       time.Duration     // how often a drained key is looked at again
	closedOnFault bool
}

const (
	defaultRefresh = 2 * time.Second
	minRefresh     = 100 * time.Millisecond
	maxRefresh     = time.Hour
)

// configure reads config_data.ratelimit. What is unusable keeps its default
// and is told, with its path.
func (s *settings) configure(config map[string]any, problem func(path string, err error)) {
	s.refresh = defaultRefresh
	section, ok := config["ratelimit"].(map[string]any)
	if !ok {
		if config["ratelimit"] != nil {
			problem("ratelimit", errors.New("not an object"))
		}
		return
	}
	names := make([]string, 0, len(section))
	for name := range section {
		names = append(names, name)
	}
	sort.Strings(names) // the same order in every log
	for _, name := range names {
		if err := s.set(name, section[name]); err != nil {
			problem("ratelimit."+name, err)
		}
	}
}

func (s *settings) set(name string, value any) error {
	switch name {
	case "default", "anonymous":
		limit, burstFault, err := formOf(value, nil, nil).limit()
		if err != nil {
			return err
		}
		if name == "default" {
			s.byDefault = httplimit.NewPolicy(policyName, limit)
		} else {
			s.anonymous = httplimit.NewPolicy(policyName, limit)
		}
		return burstFault // the rate holds with the default burst
	case "refresh":
		d, err := duration(value)
		if err != nil {
			return err
		}
		if d < minRefresh || d > maxRefresh {
			return fmt.Errorf("%v is not between %v and %v", d, minRefresh, maxRefresh)
		}
		s.refresh = d
	case "on_fault":
		if value != "open" && value != "closed" {
			return errors.New("want open or closed")
		}
		s.closedOnFault = value == "closed"
	default:
		return errors.New("no such setting; there are default, anonymous, refresh and on_fault")
	}
	return nil
}

// apis caches the settings of all APIs. A reload gives every API a new
// definition, so each keeps its latest two, for the requests still under way
// with the older one.
type apis struct {
	warn         *warner
	none         *settings
	byDefinition sync.Map // *apidef.APIDefinition or *oas.OAS to *settings

	mu    sync.Mutex
	byAPI map[string]*loadedAPI
}

type loadedAPI struct {
	settings    *settings
	definitions []any // at most two
}

func newAPIs(w *warner) *apis {
	return &apis{warn: w, none: &settings{refresh: defaultRefresh}, byAPI: make(map[string]*loadedAPI)}
}

// of returns the settings of the API that the request is for. The definitions
// are read where the gateway keeps them: its accessors clone them each time.
func (a *apis) of(r *http.Request) *settings {
	c := r.Context()
	if d, _ := c.Value(ctx.Definition).(*apidef.APIDefinition); d != nil {
		if s, ok := a.byDefinition.Load(d); ok {
			return s.(*settings)
		}
		return a.add(d, func() (definition, error) { return fromClassic(d), nil })
	}
	if d, _ := c.Value(ctx.OASDefinition).(*oas.OAS); d != nil {
		if s, ok := a.byDefinition.Load(d); ok {
			return s.(*settings)
		}
		return a.add(d, func() (definition, error) { return fromOAS(d) })
	}
	return a.none
}

func (a *apis) add(key any, read func() (definition, error)) *settings {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, ok := a.byDefinition.Load(key); ok {
		return s.(*settings)
	}
	d, err := read()
	if err != nil {
		a.warn.log.Warningf("API definition: %v; its settings are not in force", err)
	}
	s := a.settingsFrom(d)
	loaded := a.byAPI[d.api]
	if loaded == nil {
		loaded = &loadedAPI{}
		a.byAPI[d.api] = loaded
	}
	// Settings that did not change stay the same ones, so that what was
	// learned under them stays valid over a reload.
	if loaded.settings == nil || !reflect.DeepEqual(loaded.settings, s) {
		loaded.settings = s
	}
	loaded.definitions = append(loaded.definitions, key)
	a.byDefinition.Store(key, loaded.settings)
	for len(loaded.definitions) > 2 {
		a.byDefinition.Delete(loaded.definitions[0])
		loaded.definitions = loaded.definitions[1:]
	}
	return loaded.settings
}

func (a *apis) settingsFrom(d definition) *settings {
	s := &settings{api: d.api, id: hash(d.api), keyless: d.keyless, sources: d.sources}
	s.configure(d.config, func(path string, err error) {
		a.warn.log.Warningf("API %s: config_data.%s: %s; see the README", d.api, path, strings.TrimPrefix(err.Error(), "limiter: "))
	})
	return s
}
