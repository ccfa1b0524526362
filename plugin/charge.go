package plugin

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// A rule is one limit for somebody: what clients are told of it, and the bucket
// that it is taken from.
type rule struct {
	policy *httplimit.Policy
	bucket string
	origin string // where an operator wrote it
	scope  scope
	shadow bool
}

// total reports a rule that is of all requests.
func (r *rule) total() bool { return r.scope == scopeAPITotal || r.scope == scopeOrgTotal }

// A charge is all that a request takes from: from every enforced bucket or from
// none, and after that from every shadow one or from none.
type charge struct {
	enforced, shadow []rule
	local            bool // of this gateway, also if it shares limits with others
}

func (c *charge) empty() bool { return len(c.enforced)+len(c.shadow) == 0 }

// String says what is in force, for the log.
func (c *charge) String() string {
	if c.empty() {
		return "no limit"
	}
	var texts []string
	for _, rules := range [][]rule{c.enforced, c.shadow} {
		for _, rule := range rules {
			texts = append(texts, fmt.Sprintf("%v from %s", rule.policy.Limit(), rule.origin))
		}
	}
	return strings.Join(texts, ", ")
}

// charge puts rules and the API's totals together.
func (s *settings) charge(rules []rule) *charge { return charged(rules, s.totals) }

func charged(lists ...[]rule) *charge {
	c := new(charge)
	for _, list := range lists {
		for _, rule := range list {
			if rule.shadow {
				c.shadow = append(c.shadow, rule)
			} else {
				c.enforced = append(c.enforced, rule)
			}
		}
	}
	return c
}

// A plan says what a credential's requests on an API are charged to. What those
// to an endpoint are charged to is made when one comes: few keys use all.
type plan struct {
	plain  *charge
	key    []rule     // of it, those that are not the API's
	own    []endpoint // of the key's metadata, before the API's
	author *author    // of the endpoints' rules; nil: there are none
	made   sync.Map   // by *endpoint
}

// of finds the charge of a request.
func (p *plan) of(s *settings, t target) *charge {
	if p.author == nil {
		return p.plain
	}
	if e, origin := p.find(s, t); e != nil {
		return p.at(e, origin)
	}
	return p.plain
}

// find finds the endpoint of a request: the first that matches.
func (p *plan) find(s *settings, t target) (e *endpoint, origin string) {
	for i := range p.own {
		if p.own[i].matches(t) {
			return &p.own[i], "metadata " + ownEndpoints
		}
	}
	for i := range s.endpoints {
		if s.endpoints[i].matches(t) {
			return &s.endpoints[i], apiEndpoints
		}
	}
	return nil, ""
}

func (p *plan) at(e *endpoint, origin string) *charge {
	if c, ok := p.made.Load(e); ok {
		return c.(*charge)
	}
	c := p.author.endpointCharge(e, origin, p.key)
	p.made.Store(e, c)
	return c
}

// A place is an endpoint with the charge of its requests.
type place struct {
	*endpoint
	charge *charge
}

// places lists all endpoints in the order in which they are looked at.
func (p *plan) places(s *settings) []place {
	var out []place
	for i := range p.own {
		out = append(out, place{&p.own[i], p.at(&p.own[i], "metadata "+ownEndpoints)})
	}
	for i := range s.endpoints {
		out = append(out, place{&s.endpoints[i], p.at(&s.endpoints[i], apiEndpoints)})
	}
	return out
}

// empty reports that nothing is limited.
func (p *plan) empty() bool { return p.author == nil && p.plain.empty() }

// A verdict is what became of a charge.
type verdict struct {
	limiter.Decision
	rule     *rule // whose decision it is; nil: nothing is enforced
	shadowed *rule // that would have refused
}

// take charges tokens for a request.
func (e *engine) take(c *charge, tokens int64) (v verdict) {
	v.Decision, v.rule = decide(e.limits.of(c), c.enforced, tokens, false)
	e.takeShadow(&v, c, tokens, false)
	return v
}

// takeKnown is take that keeps the limits that buckets have: another API may
// know better by now. It was now when the hook began.
func (e *engine) takeKnown(now time.Duration, c *charge, tokens int64) (v verdict) {
	if len(c.enforced) == 1 { // the usual one
		v.rule = &c.enforced[0]
		v.Decision = e.limits.of(c).takeKnownAt(now, v.rule, tokens)
	} else {
		v.Decision, v.rule = decide(e.limits.of(c), c.enforced, tokens, true)
	}
	e.takeShadow(&v, c, tokens, true)
	return v
}

func (e *engine) takeShadow(v *verdict, c *charge, tokens int64, known bool) {
	if !v.Allowed || len(c.shadow) == 0 {
		return
	}
	if d, rule := decide(e.limits.of(c), c.shadow, tokens, known); !d.Allowed {
		v.shadowed = rule
	}
}

func decide(from buckets, rules []rule, tokens int64, known bool) (d limiter.Decision, of *rule) {
	var few [8]limiter.Claim // more are rare
	claims := few[:0]
	for _, rule := range rules {
		claims = append(claims, limiter.Claim{Key: rule.bucket, Limit: rule.policy.Limit(), Cost: tokens})
	}
	d, which := from.decide(claims, known)
	if which >= 0 {
		of = &rules[which]
	}
	return d, of
}

// policyCache shares policies between the many who have the same limit.
type policyCache struct {
	mu   sync.Mutex
	made map[policyKey]*httplimit.Policy
}

type policyKey struct {
	name  string
	limit limiter.Limit
}

// maxPolicies bounds the cache; those in use live on when it is emptied.
const maxPolicies = 4096

var policies = policyCache{made: make(map[policyKey]*httplimit.Policy)}

func (c *policyCache) of(name string, limit limiter.Limit) *httplimit.Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := policyKey{name, limit}
	p := c.made[key]
	if p == nil {
		if len(c.made) >= maxPolicies {
			clear(c.made)
		}
		p = httplimit.NewPolicy(name, limit)
		c.made[key] = p
	}
	return p
}
