package plugin

import (
	"errors"
	"fmt"

	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/limiter"
)

// policyName is what clients are told a limit is called, unless it has a name.
const policyName = "default"

// An author makes the rules of one session, or of one client address, on one
// API.
type author struct {
	s        *settings
	session  *user.SessionState // nil: an address
	who      id
	unusable told // what of the session's metadata is
	watched  []string
}

// An entry is where limits come from.
type entry struct {
	origin string
	reading
	perAPI bool // counts for this API alone
	scope  id   // of Tyk's, besides
}

// keyLimits picks the first source that is there and usable.
func (a *author) keyLimits() entry {
	m := a.session.MetaData
	for _, name := range []string{"ratelimit_override", "ratelimit"} {
		if m[name] == nil {
			continue
		}
		b := beside{per: m[name+"_per"], burst: m[name+"_burst"]}
		if found, ok := readLimits(policyName, m[name], b, a.at(name)); ok {
			return entry{origin: "metadata " + name, reading: found}
		}
	}
	if e, ok := a.tykLimits(); ok {
		return e
	}
	return entry{origin: "config_data.ratelimit.default", reading: a.s.byDefault, perAPI: true}
}

func (a *author) at(name string) told {
	return func(path string, err error) { a.unusable(name+path, err) }
}

// tykLimits reads the session's own rate. Tyk's precedence: a limit for the API
// replaces the key's, and counts apart from it only if it has a scope.
func (a *author) tykLimits() (e entry, ok bool) {
	rate, per := a.session.Rate, a.session.Per
	e.origin = "rate and per of the key"
	access, ok := a.session.AccessRights[a.s.api]
	if ok && !access.Limit.IsEmpty() {
		rate, per = access.Limit.Rate, access.Limit.Per
		e.origin = "access_rights"
	}
	if rate <= 0 || per <= 0 { // 0 and -1 are no limit to Tyk
		return e, false
	}
	if e.reading, ok = readLimits(policyName, rate, beside{per: per}, a.at("rate and per")); !ok {
		return e, false
	}
	if access.AllowanceScope != "" {
		e.scope = named(access.AllowanceScope)
	} else {
		e.perAPI = limitsApart(a.session, a.s.api)
	}
	return e, true
}

// limitsApart reports that the session has different limits of Tyk's for APIs
// without a scope: they cannot share the key's bucket.
func limitsApart(s *user.SessionState, api string) bool {
	limitOf := func(a user.AccessDefinition) [2]float64 {
		if a.Limit.IsEmpty() {
			return [2]float64{s.Rate, s.Per}
		}
		return [2]float64{a.Limit.Rate, a.Limit.Per}
	}
	own := limitOf(s.AccessRights[api])
	for _, access := range s.AccessRights {
		if access.AllowanceScope == "" && limitOf(access) != own {
			return true
		}
	}
	return false
}

// rules makes a rule of each limit of an entry. The first keeps the bucket that
// a single limit would have, so that tokens outlive a second window.
func (a *author) rules(e entry) []rule {
	out := make([]rule, len(e.specs))
	for i, spec := range e.specs {
		b := a.base(spec, e.perAPI)
		if e.scope != (id{}) {
			b = b.with(e.scope)
		}
		if i > 0 {
			b = b.with(windowIDs).with(numbered(i))
		}
		out[i] = rule{policy: spec.policy, bucket: b.key(), origin: e.origin, scope: a.scopeOf(spec), shadow: spec.shadow || a.s.shadow}
	}
	return out
}

func (a *author) scopeOf(spec spec) scope {
	switch {
	case a.session == nil:
		return scopeAddress
	case spec.scope != "":
		return spec.scope
	case a.s.scope != "":
		return a.s.scope
	}
	return scopeKey
}

// base is the id of those who share a limit. Those who share one but have
// another limit have another bucket: one that is refilled at two rates keeps
// neither.
func (a *author) base(spec spec, perAPI bool) id {
	b, sc := a.who, a.scopeOf(spec)
	switch {
	case a.session == nil:
	case sc == scopeKey || sc == scopeKeyAPI:
		b = a.group(spec.policy.Limit())
		perAPI = perAPI || sc == scopeKeyAPI
	default:
		if name := sc.metadata(); name != "" {
			a.watched = append(a.watched, name)
		}
		if shared, ok := sc.shared(a.session); ok {
			b = shared.with(named(spec.policy.Limit().String()))
		}
	}
	if perAPI {
		b = b.with(a.s.id)
	}
	return b
}

// group is the key, or the group that its metadata puts it into.
func (a *author) group(limit limiter.Limit) id {
	v := a.session.MetaData["ratelimit_group"]
	if v == nil {
		return a.who
	}
	name, err := number(v)
	if err != nil || name == "" {
		a.unusable("ratelimit_group", errors.New("not a name"))
		return a.who
	}
	return groupIDs.with(named(a.session.OrgID)).with(named(name)).with(named(limit.String()))
}

// endpointRules are those of an endpoint, for this API.
func (a *author) endpointRules(e *endpoint, origin string) []rule {
	at := named(e.String())
	return a.rules(entry{origin: origin, reading: e.reading, perAPI: true, scope: endpointIDs.with(at)})
}

// plan makes the plan of the session.
func (a *author) plan() *plan {
	key := a.rules(a.keyLimits())
	p := &plan{plain: a.s.charge(key)}
	own := "ratelimit_endpoints"
	if v := a.session.MetaData[own]; v != nil {
		a.addEndpoints(p, key, readEndpoints(v, a.at(own)), "metadata "+own)
	}
	a.addEndpoints(p, key, a.s.endpoints, "config_data.ratelimit.endpoints")
	return p
}

func (a *author) addEndpoints(p *plan, key []rule, endpoints []endpoint, origin string) {
	for i := range endpoints {
		e := &endpoints[i]
		rules := a.endpointRules(e, fmt.Sprintf("%s[%d]", origin, e.index))
		if !e.replace {
			rules = append(append([]rule(nil), key...), rules...)
		}
		p.at = append(p.at, place{e.pattern, a.s.charge(rules)})
	}
}

// addressCharge is what a request without a session is charged to.
func (s *settings) addressCharge(who id, limits reading, method, path string) *charge {
	a := &author{s: s, who: who}
	e := entry{origin: "config_data.ratelimit", reading: limits, perAPI: true}
	for i := range s.endpoints {
		if at := &s.endpoints[i]; at.matches(method, path) {
			rules := a.endpointRules(at, fmt.Sprintf("config_data.ratelimit.endpoints[%d]", at.index))
			if !at.replace {
				rules = append(a.rules(e), rules...)
			}
			return s.charge(rules)
		}
	}
	return s.charge(a.rules(e))
}
