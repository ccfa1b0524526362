package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"tokenbucket.internal/limiter"
)

// number writes a number that came as any JSON or Go type as text.
func number(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v), nil
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), "eE") {
			return number(f)
		}
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

// whole reads a whole number from least to most.
func whole(v any, least, most int64) (int64, error) {
	text, err := number(v)
	if err != nil {
		return 0, err
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n == math.Trunc(n) && n >= float64(least) && n <= float64(most) {
		return int64(n), nil
	}
	return 0, fmt.Errorf("%.20q is not a whole number from %d to %d", text, least, most)
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
	if d := time.Duration(seconds * float64(time.Second)); seconds < 9.2e9 && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%.20q seconds are not a period between 1 ns and 292 years", text)
}

func boolean(v any) (bool, error) {
	switch v {
	case true, "true":
		return true, nil
	case false, "false":
		return false, nil
	}
	return false, errors.New("want true or false")
}

// oneOf reads one of some words.
func oneOf(v any, words ...string) (string, error) {
	for _, word := range words {
		if v == word {
			return word, nil
		}
	}
	return "", errors.New("want " + strings.Join(words, ", "))
}

// title reads a name for clients and logs.
func title(v any) (string, error) {
	s, _ := v.(string)
	if s = strings.TrimSpace(s); s == "" || len(s) > 64 {
		return "", errors.New("want a text of 1 to 64 characters")
	}
	return s, nil
}

// list reads a list, which may be JSON in a text, or one of its elements alone.
func list(v any) ([]any, error) {
	v, err := decoded(v)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case []any:
		return v, nil
	case map[string]any:
		return []any{v}, nil
	}
	return nil, fmt.Errorf("a value of type %T is not a list", v)
}

// entriesOf is list that tells what is wrong.
func entriesOf(v any, tell told) []any {
	entries, err := list(v)
	if err != nil {
		tell("", err)
	}
	return entries
}

// sorted are the names of an object's fields, in the same order in every log.
func sorted(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// shortened is a name from outside, fit for a log.
func shortened(name string) string {
	if quoted := strconv.Quote(name); len(quoted) == len(name)+2 && len(name) <= 40 {
		return name
	}
	return fmt.Sprintf("%.40q", name)
}
