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

// limit reads the form. The rate's own text wins over per and burst.
func (f form) limit() (limiter.Limit, error) {
	if f.fault != "" {
		return limiter.Limit{}, errors.New(f.fault)
	}
	text, err := number(f.rate)
	if err != nil {
		return limiter.Limit{}, fmt.Errorf("rate: %w", err)
	}
	text, burst, hasBurst := strings.Cut(strings.ToLower(text), "burst")
	if f.per != nil && !strings.Contains(text, "/") && !strings.Contains(text, "per") {
		span, err := duration(f.per)
		if err != nil {
			return limiter.Limit{}, fmt.Errorf("per: %w", err)
		}
		text += "/" + span.String()
	}
	if f.burst != nil && !hasBurst {
		if burst, err = number(f.burst); err != nil {
			return limiter.Limit{}, fmt.Errorf("burst: %w", err)
		}
		hasBurst = true
	}
	if hasBurst {
		text += " burst " + burst
	}
	return limiter.Parse(text)
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
