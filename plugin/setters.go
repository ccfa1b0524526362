package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tokenbucket.internal/limiter/httplimit"
)

// A setter reads one setting of config_data.ratelimit. What is unusable is told
// and changes nothing.
type setter func(s *settings, totals *entries, v any, tell told)

var setters = map[string]setter{
	"default":   limitsSetter(policyName, func(s *settings) *reading { return &s.byDefault.reading }),
	"anonymous": limitsSetter(policyName, func(s *settings) *reading { return &s.anonymous.reading }),
	"unknown":   limitsSetter("unknown", func(s *settings) *reading { return &s.unknown.reading }),
	"endpoints": func(s *settings, _ *entries, v any, tell told) { s.endpoints = readEndpoints(v, tell) },
	"costs":     func(s *settings, _ *entries, v any, tell told) { s.costs = readCosts(v, tell) },
	"api_total": func(_ *settings, t *entries, v any, tell told) { t.api, _ = readLimits("api-total", v, beside{}, tell) },
	"org_total": func(_ *settings, t *entries, v any, tell told) { t.org, _ = readLimits("org-total", v, beside{}, tell) },

	"scope": plain(func(s *settings, v any) (err error) {
		s.scope, err = parseScope(v)
		return err
	}),
	"mode": plain(func(s *settings, v any) error {
		mode, err := oneOf(v, "enforce", "shadow")
		s.shadow = mode == "shadow"
		return err
	}),
	"refresh": plain(func(s *settings, v any) error {
		d, err := duration(v)
		if err != nil {
			return err
		}
		if d < minRefresh || d > maxRefresh {
			return fmt.Errorf("%v is not between %v and %v", d, minRefresh, maxRefresh)
		}
		s.refresh = d
		return nil
	}),
	"on_fault": plain(func(s *settings, v any) error {
		verdict, err := oneOf(v, "open", "closed")
		s.closedOnFault = verdict == "closed"
		return err
	}),
	"headers": plain(func(s *settings, v any) error {
		fields, err := oneOf(v, "ietf", "legacy", "both", "none")
		if err != nil {
			return err
		}
		s.fields = map[string]httplimit.Fields{
			"ietf": httplimit.RateLimit, "legacy": httplimit.XRateLimit, "both": httplimit.RateLimit | httplimit.XRateLimit,
		}[fields]
		return nil
	}),
	"shadow_header": plain(func(s *settings, v any) (err error) {
		s.shadowField, err = boolean(v)
		return err
	}),
	"status_path": plain(func(s *settings, v any) error {
		path, _ := v.(string)
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "*{?") {
			return errors.New(`want a path such as "/rate-limit", below the listen path`)
		}
		s.statusPath = clean(path)
		return nil
	}),
	"refund": func(s *settings, _ *entries, v any, tell told) { s.refunds = readStatuses(v, tell) },
}

func sortedSetters() []string {
	names := make([]string, 0, len(setters))
	for name := range setters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func plain(set func(s *settings, v any) error) setter {
	return func(s *settings, _ *entries, v any, tell told) {
		if err := set(s, v); err != nil {
			tell("", err)
		}
	}
}

func limitsSetter(usual string, of func(s *settings) *reading) setter {
	return func(s *settings, _ *entries, v any, tell told) {
		*of(s), _ = readLimits(usual, v, beside{}, tell)
	}
}

// entries are the totals as they are written.
type entries struct{ api, org reading }

// rules makes the rules that all requests are charged to.
func (t entries) rules(s *settings) []rule {
	var out []rule
	add := func(read reading, of id, sc scope) {
		for i, spec := range read.specs {
			b := of.with(numbered(i))
			if sc == scopeOrgTotal { // APIs that disagree have a bucket each
				b = b.with(named(spec.policy.Limit().String()))
			}
			out = append(out, rule{policy: spec.policy, bucket: b.key(), origin: "config_data.ratelimit." + string(sc), scope: sc, shadow: spec.shadow || s.shadow})
		}
	}
	add(t.api, totalIDs.with(s.id), scopeAPITotal)
	add(t.org, totalIDs.with(named("org")).with(named(s.org)), scopeOrgTotal)
	return out
}

// readStatuses reads a list such as ["5xx", 429], or one of its elements alone.
func readStatuses(v any, tell told) (out statuses) {
	entries, err := list(v)
	if err != nil {
		entries = []any{v}
	}
	out.codes = make(map[int]bool)
	for i, entry := range entries {
		text, err := number(entry)
		class := len(text) == 3 && text[0] >= '1' && text[0] <= '5' && strings.EqualFold(text[1:], "xx")
		switch code, notCode := whole(text, 100, 599); {
		case err == nil && class:
			out.classes |= 1 << (text[0] - '0')
		case err == nil && notCode == nil:
			out.codes[int(code)] = true
		default:
			tell(fmt.Sprintf("[%d]", i), errors.New(`want a status such as 429 or a class such as "5xx"`))
		}
	}
	return out
}
