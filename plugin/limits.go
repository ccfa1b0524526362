package plugin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/TykTechnologies/tyk/user"
)

// policyName is what clients are told a limit is called, unless it has a name.
const policyName = "default"

// An author makes the rules of one session, or of one client address, on one
// API. It goes on to make those of endpoints when the session is gone.
type author struct {
	s        *settings
	session  *user.SessionState // nil: an address, or gone
	address  bool
	who      id
	bases    map[scope]base
	unusable told // what of the session's metadata is
	watched  []string
}

// A base is the id of those who share a limit in a scope.
type base struct {
	id
	shared bool // by many, who may have different limits
}

func (s *settings) address(who id) *author {
	return &author{s: s, address: true, who: who, bases: map[scope]base{scopeAddress: {id: who}}}
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
	return a.s.byDefault
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
	out := make([]rule, 0, len(e.specs))
	for i, spec := range e.specs {
		sc := a.scopeOf(spec)
		from := a.base(sc)
		b := from.id
		if from.shared {
			// One bucket that is refilled at two rates keeps neither.
			b = b.with(named(spec.policy.Limit().String()))
		}
		if e.perAPI || sc == scopeKeyAPI {
			b = b.with(a.s.id)
		}
		if e.scope != (id{}) {
			b = b.with(e.scope)
		}
		if i > 0 && !from.shared {
			b = b.with(windowIDs).with(numbered(i))
		}
		r := rule{policy: spec.policy, bucket: b.key(), origin: e.origin, scope: sc, shadow: spec.shadow || a.s.shadow}
		if !holds(out, r.bucket) { // the same limit twice, for the same many
			out = append(out, r)
		}
	}
	return out
}

func holds(rules []rule, bucket string) bool {
	for i := range rules {
		if rules[i].bucket == bucket {
			return true
		}
	}
	return false
}

func (a *author) scopeOf(spec spec) scope {
	switch {
	case a.address:
		return scopeAddress
	case spec.scope != "":
		return spec.scope
	case a.s.scope != "":
		return a.s.scope
	}
	return scopeKey
}

// base finds who share a limit in a scope, once for each.
func (a *author) base(sc scope) base {
	b, ok := a.bases[sc]
	if !ok {
		b = a.findBase(sc)
		if a.bases == nil {
			a.bases = make(map[scope]base)
		}
		a.bases[sc] = b
	}
	return b
}

func (a *author) findBase(sc scope) base {
	if sc == scopeKey || sc == scopeKeyAPI {
		return a.group()
	}
	if name := sc.metadata(); name != "" && !slices.Contains(a.watched, name) {
		a.watched = append(a.watched, name)
	}
	if shared, ok := sc.shared(a.session); ok {
		return base{shared, true}
	}
	return base{id: a.who}
}

// group is the key, or the group that its metadata puts it into.
func (a *author) group() base {
	v := a.session.MetaData["ratelimit_group"]
	if v == nil {
		return base{id: a.who}
	}
	name, err := number(v)
	if err != nil || name == "" {
		a.unusable("ratelimit_group", errors.New("not a name"))
		return base{id: a.who}
	}
	return base{groupIDs.with(named(a.session.OrgID)).with(named(name)), true}
}

// plan makes the plan of the session.
func (a *author) plan() *plan {
	p := &plan{key: a.rules(a.keyLimits())}
	p.plain = a.s.charge(p.key)
	if v := a.session.MetaData[ownEndpoints]; v != nil {
		p.own = endpointLists.read(v, a.at(ownEndpoints))
	}
	if len(p.own)+len(a.s.endpoints) == 0 {
		return p
	}
	for _, endpoints := range [][]endpoint{p.own, a.s.endpoints} {
		for _, e := range endpoints {
			for _, spec := range e.specs {
				a.base(a.scopeOf(spec))
			}
		}
	}
	p.author = &author{s: a.s, bases: a.bases}
	return p
}

const (
	ownEndpoints = "ratelimit_endpoints"
	apiEndpoints = "config_data.ratelimit.endpoints"
)

// endpointCharge is what requests to an endpoint are charged to, of those whose
// other limits are key.
func (a *author) endpointCharge(e *endpoint, origin string, key []rule) *charge {
	rules := a.rules(entry{
		origin: fmt.Sprintf("%s[%d]", origin, e.index), reading: e.reading,
		perAPI: true, scope: endpointIDs.with(named(e.String())),
	})
	if !e.replace {
		rules = append(append([]rule(nil), key...), rules...)
	}
	return a.s.charge(rules)
}

// addressPlan is the plan of a client address.
func (s *settings) addressPlan(who id, limits entry) *plan {
	a := s.address(who)
	p := &plan{key: a.rules(limits)}
	p.plain = s.charge(p.key)
	if len(s.endpoints) > 0 {
		p.author = a
	}
	return p
}
