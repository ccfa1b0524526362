package plugin

import (
	"encoding/json"
	"math"

	"github.com/TykTechnologies/tyk/user"
)

// inputsOf is the id of all that a session's plan is made from: a plan is made
// anew when it has changed. watched are fields of the metadata, besides.
func inputsOf(s *user.SessionState, api string, watched []string) id {
	m := s.MetaData
	sum := valueID(m["ratelimit_override"])
	for _, name := range [...]string{"ratelimit_override_per", "ratelimit_override_burst", "ratelimit", "ratelimit_per", "ratelimit_burst", "ratelimit_group", "ratelimit_endpoints"} {
		sum = sum.with(valueID(m[name]))
	}
	for _, name := range watched {
		sum = sum.with(valueID(m[name]))
	}
	for _, policy := range s.PolicyIDs() {
		sum = sum.with(hash(policy))
	}
	if s.OauthClientID != "" {
		sum = sum.with(hash(s.OauthClientID))
	}
	rate, per := s.Rate, s.Per
	if access, ok := s.AccessRights[api]; ok {
		if access.AllowanceScope != "" {
			sum = sum.with(hash(access.AllowanceScope))
		}
		if !access.Limit.IsEmpty() {
			rate, per = access.Limit.Rate, access.Limit.Per
		}
	}
	return sum.with(numbered(math.Float64bits(rate))).with(numbered(math.Float64bits(per)))
}

// numbered is the id of a number.
func numbered[N int | uint64](n N) id {
	return id{uint64(n) * 0x9e3779b97f4a7c15, uint64(n) * 0xc2b2ae3d27d4eb4f}.with(numberIDs)
}

// valueID is the id of a value of any JSON type. It keeps nothing of it: the
// gateway shares nested values between requests.
func valueID(v any) id {
	switch v := v.(type) {
	case nil:
		return id{}
	case string:
		return hash(v)
	case float64:
		return numbered(math.Float64bits(v))
	case bool:
		if v {
			return numbered(1)
		}
		return numbered(2)
	case json.Number:
		return hash(string(v)).with(numberIDs)
	case []any:
		sum := numbered(len(v))
		for _, element := range v {
			sum = sum.with(valueID(element))
		}
		return sum
	case map[string]any:
		sum := numbered(len(v)).with(groupIDs)
		for name, element := range v { // in any order
			field := hash(name).with(valueID(element))
			sum.hi += field.hi
			sum.lo += field.lo
		}
		return sum
	}
	text, err := number(v)
	if err != nil {
		return numberIDs
	}
	return hash(text).with(numberIDs)
}
