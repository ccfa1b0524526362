package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// A spec is one limit as an operator wrote it.
type spec struct {
	policy *httplimit.Policy
	scope  scope // "": the API's
	shadow bool
}

// A reading is what a value says: some limits, or that there shall be none.
type reading struct {
	specs     []spec
	unlimited bool
}

// told is called with each unusable part: its path below the value, and why.
type told func(path string, err error)

// beside are the values next to a plain rate.
type beside struct {
	per, burst any
	inObject   bool // where the burst is
}

// maxWindows bounds the limits of one value.
const maxWindows = 8

// readLimits reads a value of any JSON or Go type: a rate, a text of one or
// more limits, an object, a list of these, or a text that holds them as JSON.
// Parts that are usable count even if others are not; false: none is. usual is
// the name of a single limit that has none of its own.
func readLimits(usual string, v any, b beside, tell told) (reading, bool) {
	r := reader{usual: usual, tell: tell}
	v, err := decoded(v)
	if err != nil {
		tell("", err)
		return reading{}, false
	}
	switch v := v.(type) {
	case string:
		r.text(v, b)
	case []any:
		r.list(v, b)
	case map[string]any:
		r.object("", v, b)
	default:
		r.one("", v, b)
	}
	return r.result()
}

// decoded is v, or what a text that holds JSON holds.
func decoded(v any) (any, error) {
	text, ok := v.(string)
	if text = strings.TrimSpace(text); !ok || text == "" || !strings.ContainsRune(`[{"`, rune(text[0])) {
		return v, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out any
	err := d.Decode(&out)
	if _, end := d.Token(); err != nil || end != io.EOF {
		return nil, errors.New("looks like JSON and is none")
	}
	return out, nil
}

// A draft is a spec that has no name of its own yet.
type draft struct {
	limit  limiter.Limit
	name   string
	scope  scope
	shadow bool
}

type reader struct {
	usual     string
	drafts    []draft
	unlimited bool
	tell      told
}

func (r *reader) result() (reading, bool) {
	if len(r.drafts) > maxWindows {
		r.tell("", fmt.Errorf("%d limits; only the first %d count", len(r.drafts), maxWindows))
		r.drafts = r.drafts[:maxWindows]
	}
	if len(r.drafts) == 0 {
		return reading{unlimited: r.unlimited}, r.unlimited
	}
	if r.unlimited {
		r.tell("", errors.New("unlimited beside limits; the limits count"))
	}
	out := reading{specs: make([]spec, len(r.drafts))}
	names := make(map[string]int)
	for i, d := range r.drafts {
		name := d.name
		switch {
		case name != "":
		case len(r.drafts) == 1:
			name = r.usual
		case r.usual == policyName:
			name = windowName(d.limit)
		default:
			name = r.usual + " " + windowName(d.limit)
		}
		if names[name]++; names[name] > 1 {
			name += " " + strconv.Itoa(names[name])
		}
		out.specs[i] = spec{policies.of(name, d.limit), d.scope, d.shadow}
	}
	return out, true
}

// text reads one limit, or several with commas in between.
func (r *reader) text(s string, b beside) {
	parts := strings.Split(s, ",")
	if len(parts) == 1 {
		r.one("", s, b)
		return
	}
	for _, part := range parts {
		if !hasPeriod(part) {
			r.tell("", fmt.Errorf("%.20q of several limits has no period (a fraction is written with a point)", strings.TrimSpace(part)))
			return
		}
	}
	r.alone(b)
	for _, part := range parts {
		r.one("", part, beside{})
	}
}

func (r *reader) alone(b beside) {
	if b != (beside{}) {
		r.tell("", errors.New("per and burst beside several limits mean nothing"))
	}
}

func (r *reader) list(values []any, b beside) {
	r.alone(b)
	if len(values) == 0 {
		r.tell("", errors.New("an empty list"))
	}
	for i, v := range values {
		path := fmt.Sprintf("[%d]", i)
		if object, ok := v.(map[string]any); ok {
			r.object(path, object, beside{})
		} else {
			r.one(path, v, beside{})
		}
	}
}

// object reads {"rate": 100, "per": "1m", "burst": 200}. What it says wins over
// what is beside it.
func (r *reader) object(path string, object map[string]any, b beside) {
	if object["rate"] == nil {
		r.tell(path, errors.New("rate is missing"))
		return
	}
	before := len(r.drafts)
	if object["per"] != nil {
		b.per = object["per"]
	}
	if object["burst"] != nil {
		b.burst, b.inObject = object["burst"], true
	}
	d := new(draft) // of an unlimited rate, or of none that is usable
	if r.one(path, object["rate"], b); len(r.drafts) > before {
		d = &r.drafts[before]
	}
	for _, name := range sorted(object) {
		var err error
		switch v := object[name]; name {
		case "rate", "per", "burst":
		case "name":
			d.name, err = title(v)
		case "scope":
			d.scope, err = parseScope(v)
		case "shadow":
			d.shadow, err = boolean(v)
		default:
			err = errors.New("no such field; there are rate, per, burst, name, scope and shadow")
		}
		if err != nil {
			r.tell(path+"."+shortened(name), err)
		}
	}
}

// one reads a single limit. Its own text wins over what is beside it. A burst
// that cannot be read does not make the rate void.
func (r *reader) one(path string, rate any, b beside) {
	text, err := number(rate)
	if err != nil {
		r.tell(path, err)
		return
	}
	if saysUnlimited(text) {
		r.unlimited = true
		return
	}
	limit, burstFault, err := parseLimit(text, b)
	if err != nil {
		r.tell(path, err)
		return
	}
	if burstFault != nil {
		at := "_burst"
		if b.inObject {
			at = ".burst"
		}
		r.tell(path+at, burstFault)
	}
	r.drafts = append(r.drafts, draft{limit: limit})
}

// saysUnlimited is true for what Tyk takes for no limit: 0 and -1, in any period.
func saysUnlimited(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "unlimited" {
		return true
	}
	end := strings.IndexAny(text, "/pb ")
	if end < 0 {
		end = len(text)
	}
	rate := text[:end]
	zero := strings.Contains(rate, "0") && strings.Trim(strings.TrimLeft(rate, "+-"), "0.") == ""
	if whole, fraction, _ := strings.Cut(rate, "."); !zero && (whole != "-1" || strings.Trim(fraction, "0") != "") {
		return false
	}
	_, err := limiter.Parse("1" + text[end:])
	return err == nil && !strings.Contains(text, "burst")
}

func hasPeriod(text string) bool {
	text, _, _ = strings.Cut(strings.ToLower(text), "burst")
	return strings.Contains(text, "/") || strings.Contains(text, "per")
}

// parseLimit reads a text with per and burst beside it. burstFault says why the
// default burst applies.
func parseLimit(text string, b beside) (l limiter.Limit, burstFault, err error) {
	before, own, hasBurst := strings.Cut(strings.ToLower(text), "burst")
	before, own = strings.TrimSpace(before), strings.TrimSpace(own)
	if b.per != nil && !hasPeriod(text) {
		span, err := duration(b.per)
		if err != nil {
			return l, nil, fmt.Errorf("per: %w", err)
		}
		before += "/" + span.String()
	}
	if hasBurst {
		l, err = limiter.Parse(before + " burst " + own)
		return l, nil, err
	}
	if l, err = limiter.Parse(before); err != nil || b.burst == nil {
		return l, nil, err
	}
	burst, burstFault := number(b.burst)
	if burstFault == nil {
		var with limiter.Limit
		if with, burstFault = limiter.Parse(before + " burst " + burst); burstFault == nil {
			l = with
		}
	}
	return l, burstFault, nil
}

// windowName tells the limits of one key apart.
func windowName(l limiter.Limit) string {
	switch l.Period {
	case time.Second:
		return "per-second"
	case time.Minute:
		return "per-minute"
	case time.Hour:
		return "per-hour"
	case 24 * time.Hour:
		return "per-day"
	}
	_, period, _ := strings.Cut(limiter.Limit{Tokens: 1, Period: l.Period, Burst: 1}.String(), "/")
	return "per-" + period
}
