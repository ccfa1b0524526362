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

// ruleFor picks the first limit that is there and usable; false if there is
// none. apart is limitsApart of the session. unusable is told of those that are
// there and are not.
func (s *settings) ruleFor(who, org id, in inputs, apart bool, unusable func(field string, err error)) (rule, bool) {
	bucket := func(limiter.Limit) id { return who }
	if in.group != nil {
		name, err := number(in.group)
		if err == nil && name != "" {
			// Keys of a group that have another limit have another bucket: one
			// that is refilled at two rates keeps neither.
			group := groupIDs.with(org).with(hash(name))
			bucket = func(l limiter.Limit) id { return group.with(hash(l.String())) }
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
		limit, burstFault, err := field.form.limit()
		if burstFault != nil {
			unusable(field.name+"'s burst", burstFault)
		}
		if err == nil {
			return newRule(limit, bucket(limit)), true
		}
		unusable(field.name, err)
	}
	if in.tykRate > 0 && in.tykPer > 0 { // 0 and -1 are no limit to Tyk
		limit, _, err := form{rate: in.tykRate, per: in.tykPer}.limit()
		if err == nil {
			b := bucket(limit)
			switch {
			case in.tykScope != "":
				b = b.with(hash(in.tykScope))
			case apart:
				b = b.with(s.id)
			}
			return newRule(limit, b), true
		}
		unusable("rate and per", err)
	}
	if s.byDefault != nil {
		return rule{s.byDefault, bucket(s.byDefault.Limit()).with(s.id).key()}, true
	}
	return rule{}, false
}
