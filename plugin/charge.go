package plugin

import (
	"fmt"
	"net/http"
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

// A charge is all that a request takes from: from every enforced bucket or from
// none, and after that from every shadow one or from none.
type charge struct{ enforced, shadow []rule }

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

// A plan says what a credential's requests on an API are charged to.
type plan struct {
	plain *charge
	at    []place // the first that matches wins over plain
}

type place struct {
	pattern
	charge *charge
}

// of finds the charge of a request.
func (p *plan) of(s *settings, r *http.Request) *charge {
	if len(p.at) > 0 {
		path := s.listen.below(r)
		for i := range p.at {
			if p.at[i].matches(r.Method, path) {
				return p.at[i].charge
			}
		}
	}
	return p.plain
}

// empty reports that nothing is limited.
func (p *plan) empty() bool {
	for _, at := range p.at {
		if !at.charge.empty() {
			return false
		}
	}
	return p.plain.empty()
}

// shadows reports that something is limited in shadow.
func (p *plan) shadows() bool {
	for _, at := range p.at {
		if len(at.charge.shadow) > 0 {
			return true
		}
	}
	return len(p.plain.shadow) > 0
}

// A verdict is what became of a charge.
type verdict struct {
	limiter.Decision
	rule     *rule // whose decision it is; nil: nothing is enforced
	shadowed *rule // that would have refused
}

// take charges tokens for a request.
func (e *engine) take(c *charge, tokens int64) (v verdict) {
	v.Decision, v.rule = e.decide(c.enforced, tokens, false)
	e.takeShadow(&v, c, tokens, false)
	return v
}

// takeKnown is take that keeps the limits that buckets have: another API may
// know better by now. It was now when the hook began.
func (e *engine) takeKnown(now time.Duration, c *charge, tokens int64) (v verdict) {
	if len(c.enforced) == 1 { // the usual one
		v.rule = &c.enforced[0]
		v.Decision = e.limits.TakeKnownAt(now, v.rule.bucket, v.rule.policy.Limit(), tokens)
	} else {
		v.Decision, v.rule = e.decide(c.enforced, tokens, true)
	}
	e.takeShadow(&v, c, tokens, true)
	return v
}

func (e *engine) takeShadow(v *verdict, c *charge, tokens int64, known bool) {
	if !v.Allowed || len(c.shadow) == 0 {
		return
	}
	if d, rule := e.decide(c.shadow, tokens, known); !d.Allowed {
		v.shadowed = rule
	}
}

func (e *engine) decide(rules []rule, tokens int64, known bool) (d limiter.Decision, of *rule) {
	var place [8]limiter.Claim // more are rare
	claims := place[:0]
	for _, rule := range rules {
		claims = append(claims, limiter.Claim{Key: rule.bucket, Limit: rule.policy.Limit(), Cost: tokens})
	}
	decide := e.limits.Decide
	if known {
		decide = e.limits.DecideKnown
	}
	d, which := decide(claims)
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
