package plugin

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
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
	org     string
	keyless bool
	sources []source // of credentials; none if they must not be learned
	listen  listenPath

	byDefault    entry      // for keys without a limit of their own
	anonymous    entry      // for requests without a key
	forAddresses entry      // on a keyless API: one of these
	unknown      entry      // for credentials that were not accepted before, by address
	endpoints    []endpoint // with limits of their own
	costs        []cost
	scope        scope  // of limits that name none
	totals       []rule // that all requests are charged to, besides
	shadow       bool   // nothing is refused

	refresh       time.Duration // how often a drained key is looked at again
	closedOnFault bool
	refunds       statuses
	needsResponse bool   // refunds or costs that answers tell
	statusPath    string // "": none
	looksAtPaths  bool
	fields        httplimit.Fields
	shadowField   bool

	learning  expectation // of the post_key_auth hook
	answering expectation // of the response hook
}

// An expectation finds out that a hook which is needed is not registered.
type expectation struct {
	came   atomic.Bool
	waited atomic.Int32
}

const overdueAfter = 100 // requests

// overdue is true once, if the hook is not called.
func (x *expectation) overdue() bool { return !x.came.Load() && x.waited.Add(1) == overdueAfter }

func (x *expectation) met() {
	if !x.came.Load() { // not to write for each request
		x.came.Store(true)
	}
}

const (
	defaultRefresh = 2 * time.Second
	minRefresh     = 100 * time.Millisecond
	maxRefresh     = time.Hour
)

// newSettings reads a definition. What is unusable keeps its default and is
// told, with its path in config_data.
func newSettings(d definition, tell told) *settings {
	s := &settings{
		api: d.api, id: named(d.api), org: d.org, keyless: d.keyless, sources: d.sources,
		refresh: defaultRefresh, fields: httplimit.RateLimit | httplimit.XRateLimit,
		byDefault: perAPI("default"), anonymous: perAPI("anonymous"), unknown: perAPI("unknown"),
	}
	var err error
	if s.listen, err = newListenPath(d.listenPath); err != nil {
		tell("", fmt.Errorf("listen path: %w", err))
	}
	section, ok := d.config["ratelimit"].(map[string]any)
	if !ok && d.config["ratelimit"] != nil {
		tell("ratelimit", errors.New("not an object"))
	}
	var totals entries
	for _, name := range sorted(section) {
		at := func(path string, err error) { tell("ratelimit."+shortened(name)+path, err) }
		if set, ok := setters[name]; ok {
			set(s, &totals, section[name], at)
		} else {
			at("", errors.New("no such setting; there are "+strings.Join(sortedSetters(), ", ")))
		}
	}
	s.totals = totals.rules(s)
	if len(s.unknown.specs) > 0 && !s.keyless && len(s.sources) == 0 {
		tell("ratelimit.unknown", errors.New("the credentials of this API cannot be known again: it means nothing here"))
		s.unknown.reading = reading{}
	}
	s.looksAtPaths = s.statusPath != "" || len(s.endpoints)+len(s.costs) > 0
	s.needsResponse = s.refunds.classes != 0 || len(s.refunds.codes) > 0
	for _, c := range s.costs {
		s.needsResponse = s.needsResponse || c.response != ""
	}
	if s.forAddresses = s.anonymous; len(s.anonymous.specs) == 0 && !s.anonymous.unlimited {
		s.forAddresses = s.byDefault
	}
	return s
}

// perAPI is the entry of a setting that counts for its API alone.
func perAPI(setting string) entry {
	return entry{origin: "config_data.ratelimit." + setting, perAPI: true}
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
	read        definition // that they are from
	definitions []any      // at most two
}

func newAPIs(w *warner) *apis {
	return &apis{warn: w, none: newSettings(definition{}, nil), byAPI: make(map[string]*loadedAPI)}
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
	s := newSettings(d, func(path string, err error) {
		if path != "" {
			path = "config_data." + path + ": "
		}
		a.warn.log.Warningf("API %s: %s%s; see the README", d.api, path, strings.TrimPrefix(err.Error(), "limiter: "))
	})
	loaded := a.byAPI[d.api]
	if loaded == nil {
		loaded = &loadedAPI{}
		a.byAPI[d.api] = loaded
	}
	// Settings that did not change stay the same ones, so that what was
	// learned under them stays valid over a reload.
	if loaded.settings == nil || !reflect.DeepEqual(loaded.read, d) {
		loaded.settings, loaded.read = s, d
	}
	loaded.definitions = append(loaded.definitions, key)
	a.byDefinition.Store(key, loaded.settings)
	for len(loaded.definitions) > 2 {
		a.byDefinition.Delete(loaded.definitions[0])
		loaded.definitions = loaded.definitions[1:]
	}
	return loaded.settings
}
