package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

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

// inputs are the parts of a session that its rule is made from.
type inputs struct {
	override, overridePer, overrideBurst any
	rate, per, burst                     any
	group                                any
	tykRate, tykPer                      float64
	tykScope                             string
}

func inputsOf(s *user.SessionState, api string) inputs {
	in := inputs{
		override: s.MetaData["ratelimit_override"], overridePer: s.MetaData["ratelimit_override_per"], overrideBurst: s.MetaData["ratelimit_override_burst"],
		rate: s.MetaData["ratelimit"], per: s.MetaData["ratelimit_per"], burst: s.MetaData["ratelimit_burst"],
		group:   s.MetaData["ratelimit_group"],
		tykRate: s.Rate, tykPer: s.Per,
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

// same reports that the rule of a is the rule of b. Nested values are not
// compared: they are shared with other requests and may not be kept.
func (a inputs) same(b inputs) bool {
	return plain(b.override) && plain(b.overridePer) && plain(b.overrideBurst) &&
		plain(b.rate) && plain(b.per) && plain(b.burst) && plain(b.group) && a == b
}

func plain(v any) bool {
	switch v.(type) {
	case nil, string, bool, float64, float32, int, int64, int32, json.Number:
		return true
	}
	return false
}

// keep drops what may not be kept.
func (a inputs) keep() inputs {
	for _, v := range []*any{&a.override, &a.overridePer, &a.overrideBurst, &a.rate, &a.per, &a.burst, &a.group} {
		if !plain(*v) {
			*v = nil
		}
	}
	return a
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
		name             string
		rate, per, burst any
	}{
		{"ratelimit_override", in.override, in.overridePer, in.overrideBurst},
		{"ratelimit", in.rate, in.per, in.burst},
	} {
		if field.rate == nil {
			continue
		}
		limit, err := limitFrom(field.rate, field.per, field.burst)
		if err == nil {
			return newRule(limit, owner), true
		}
		unusable(field.name, err)
	}
	if in.tykRate > 0 && in.tykPer > 0 { // 0 and -1 are no limit to Tyk
		limit, err := limitFrom(in.tykRate, in.tykPer, nil)
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

// limitFrom reads a limit as operators write it: a text that limiter.Parse
// takes, a number of tokens, or an object of rate, per and burst. The rate's
// own text wins over per and burst beside it.
func limitFrom(rate, per, burst any) (limiter.Limit, error) {
	if object, ok := rate.(map[string]any); ok {
		for name := range object {
			if name != "rate" && name != "per" && name != "burst" {
				return limiter.Limit{}, fmt.Errorf("%.20q is not one of rate, per and burst", name)
			}
		}
		if object["rate"] == nil {
			return limiter.Limit{}, errors.New("rate is missing")
		}
		if _, nested := object["rate"].(map[string]any); nested {
			return limiter.Limit{}, errors.New("rate is not a number or a text")
		}
		return limitFrom(object["rate"], object["per"], object["burst"])
	}
	text, err := number(rate)
	if err != nil {
		return limiter.Limit{}, fmt.Errorf("rate: %w", err)
	}
	before, given, hasBurst := strings.Cut(strings.ToLower(text), "burst")
	if per != nil && !strings.Contains(before, "/") && !strings.Contains(before, "per") {
		span, err := duration(per)
		if err != nil {
			return limiter.Limit{}, fmt.Errorf("per: %w", err)
		}
		before += "/" + span.String()
	}
	if burst != nil && !hasBurst {
		if given, err = number(burst); err != nil {
			return limiter.Limit{}, fmt.Errorf("burst: %w", err)
		}
		hasBurst = true
	}
	if hasBurst {
		before += " burst " + given
	}
	return limiter.Parse(before)
}

// number writes a number that came as any JSON or Go type as text.
func number(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v), nil
	case json.Number:
		return v.String(), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", fmt.Errorf("%v is not a number", v)
		}
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case float32:
		return number(float64(v))
	case int:
		return strconv.Itoa(v), nil
	case int32:
		return strconv.FormatInt(int64(v), 10), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	return "", fmt.Errorf("a value of type %T is not a number or a text", v)
}

// duration reads seconds, or a text with units.
func duration(v any) (time.Duration, error) {
	text, err := number(v)
	if err != nil {
		return 0, err
	}
	if strings.Trim(text, "0123456789.+-e") == "" {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%.20q is not a duration above 0, such as 60, 10s or 1h30m", text)
	}
	return d, nil
}
