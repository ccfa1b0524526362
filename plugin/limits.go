package plugin

import (
	"errors"

	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// A rule is the limit that applies to a session on an API, and the bucket that
// it is taken from.
type rule struct {
	policy *httplimit.Policy
	bucket string
}

// policyName is what clients are told the limit is called.
const policyName = "default"

func newRule(limit limiter.Limit, bucket id) rule {
	return rule{httplimit.NewPolicy(policyName, limit), bucket.key()}
}

// inputs are the parts of a session that its rule is made from. Two are equal
// with == if their rule is the same.
type inputs struct {
	override, own   form
	group           any
	tykRate, tykPer float64
	tykScope        string
}

func inputsOf(s *user.SessionState, api string) inputs {
	m := s.MetaData
	in := inputs{
		override: formOf(m["ratelimit_override"], m["ratelimit_override_per"], m["ratelimit_override_burst"]),
		own:      formOf(m["ratelimit"], m["ratelimit_per"], m["ratelimit_burst"]),
		group:    scalar(m["ratelimit_group"]),
		tykRate:  s.Rate, tykPer: s.Per,
	}
	// Tyk's own precedence: a limit for the API replaces the key's, and counts
	// apart from it only if it has a scope.
	if access, ok := s.AccessRights[api]; ok {
		in.tykScope = access.AllowanceScope
		if !access.Limit.IsEmpty() {
			in.tykRate, in.tykPer = access.Limit.Rate, access.Limit.Per
		}
	}
	return in
}

// ruleFor picks the first limit that is there and usable; false if there is
// none. unusable is told of those that are there and are not.
func (s *settings) ruleFor(who, org id, in inputs, unusable func(field string, err error)) (rule, bool) {
	owner := who
	if in.group != nil {
		name, err := number(in.group)
		if err == nil && name != "" {
			owner = groupIDs.with(org).with(hash(name))
		} else {
			unusable("ratelimit_group", errors.New("not a name"))
		}
	}
	for _, field := range []struct {
		name string
		form form
	}{{"ratelimit_override", in.override}, {"ratelimit", in.own}} {
		if field.form.rate == nil {
			continue
		}
		limit, err := field.form.limit()
		if err == nil {
			return newRule(limit, owner), true
		}
		unusable(field.name, err)
	}
	if in.tykRate > 0 && in.tykPer > 0 { // 0 and -1 are no limit to Tyk
		limit, err := form{rate: in.tykRate, per: in.tykPer}.limit()
		if err == nil {
			if in.tykScope != "" {
				owner = owner.with(hash(in.tykScope))
			}
			return newRule(limit, owner), true
		}
		unusable("rate and per", err)
	}
	if s.byDefault != nil {
		return rule{s.byDefault, owner.with(s.id).key()}, true
	}
	return rule{}, false
}
