package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tokenbucket.internal/limiter"
)

// A form is a limit as operators write it: a text that limiter.Parse takes, or
// a number of tokens, with per and burst beside it or in one object with it.
// It holds no reference to the session that it is from, whose nested values
// are shared with other requests.
type form struct {
	rate, per, burst any    // scalars; no rate: no limit
	fault            string // what cannot be read at all
}

// formOf takes an object apart. What the object says wins over what is beside
// it.
func formOf(rate, per, burst any) form {
	object, ok := rate.(map[string]any)
	if !ok {
		return form{rate: scalar(rate), per: scalar(per), burst: scalar(burst)}
	}
	f := form{rate: scalar(object["rate"]), per: scalar(object["per"]), burst: scalar(object["burst"])}
	for name := range object {
		if name != "rate" && name != "per" && name != "burst" {
			f.fault = fmt.Sprintf("%.20q is not one of rate, per and burst", name)
		}
	}
	if f.rate == nil {
		f.rate, f.fault = "", "rate is missing"
	}
	return f
}

// other stands for a value that is neither a number nor a text.
type other string

// scalar is v if it can be compared and kept.
func scalar(v any) any {
	switch v.(type) {
	case nil, string, bool, float64, float32, int, int64, int32, json.Number:
		return v
	}
	return other(fmt.Sprintf("%T", v))
}

// limit reads the form. The rate's own text wins over per and burst. A burst
// beside it that cannot be read does not make the rate void: burstFault says
// why the default one applies.
func (f form) limit() (l limiter.Limit, burstFault, err error) {
	if f.fault != "" {
		return l, nil, errors.New(f.fault)
	}
	text, err := number(f.rate)
	if err != nil {
		return l, nil, fmt.Errorf("rate: %w", err)
	}
	before, own, hasBurst := strings.Cut(strings.ToLower(text), "burst")
	if f.per != nil && !strings.Contains(before, "/") && !strings.Contains(before, "per") {
		span, err := duration(f.per)
		if err != nil {
			return l, nil, fmt.Errorf("per: %w", err)
		}
		before += "/" + span.String()
	}
	if hasBurst {
		l, err = limiter.Parse(before + " burst " + own)
		return l, nil, err
	}
	if l, err = limiter.Parse(before); err != nil || f.burst == nil {
		return l, nil, err
	}
	burst, burstFault := number(f.burst)
	if burstFault == nil {
		var with limiter.Limit
		if with, burstFault = limiter.Parse(before + " burst " + burst); burstFault == nil {
			l = with
		}
	}
	return l, burstFault, nil
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
	if v, ok := v.(other); ok {
		return "", fmt.Errorf("a value of type %s is not a number or a text", string(v))
	}
	return "", fmt.Errorf("a value of type %T is not a number or a text", v)
}

// duration reads seconds, or a period as limiter.Parse knows them.
func duration(v any) (time.Duration, error) {
	text, err := number(v)
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return limiter.ParsePeriod(text)
	}
	if d := time.Duration(seconds * float64(time.Second)); seconds < 1e9 && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%.20q seconds are not a period between 1 ns and 31 years", text)
}
