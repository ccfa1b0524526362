package limiter

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Limit
	}{
		{"100/s", Limit{100, time.Second, 100}},
		{"6000/m burst 200", Limit{6000, time.Minute, 200}},
		{"1/100s", Limit{1, 100 * time.Second, 1}},
		{"10", Limit{10, time.Second, 10}},
		{" 10 / s ", Limit{10, time.Second, 10}},
		{"100 per 10s", Limit{100, 10 * time.Second, 100}},
		{"5/day", Limit{5, 24 * time.Hour, 5}},
		{"5 PER Hour BURST 1", Limit{5, time.Hour, 1}},
		{"0.5/s", Limit{1, 2 * time.Second, 1}},
		{"0.3/s", Limit{3, 10 * time.Second, 1}},
		{"2.5/m burst 7", Limit{5, 2 * time.Minute, 7}},
		{"0.3333333333333333/s", Limit{1, 3 * time.Second, 1}},
		{"1.6666666666666667", Limit{5, 3 * time.Second, 1}},
		{"0.08333333333333333/m burst 2", Limit{1, 12 * time.Minute, 2}},
		{"1e3/s", Limit{1000, time.Second, 1000}},
		{"1/500ms", Limit{1, 500 * time.Millisecond, 1}},
		{"10 per 1m30s", Limit{10, 90 * time.Second, 10}},
		{"3/10 min", Limit{3, 10 * time.Minute, 3}},
		{"1000000000/s", Limit{1e9, time.Second, 1e9}},
		{"1/365d burst 2147483647", Limit{1, 365 * 24 * time.Hour, math.MaxInt32}},
	} {
		got, err := Parse(c.in)
		if err != nil || got != c.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", c.in, got, err, c.want)
		}
	}
}

func TestParseErrorNamesTheFault(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "empty",
		"abc":                         `rate "abc" is not a decimal number`,
		"/s":                          `rate "" is not`,
		"NaN":                         "is not a decimal number",
		"inf/s":                       "is not a decimal number",
		"0x10/s":                      "is not a decimal number",
		"1_000/s":                     "is not a decimal number",
		"1e-10/s":                     "slower than one token in 292 years",
		"-5/s":                        "must be above 0",
		"0/s":                         "must be above 0",
		"1e400":                       "is not a number between",
		"1e-300/s":                    "is not a number between",
		"1e99999999999999999/s":       "is not a number between",
		"10/":                         `period ""`,
		"10/fortnight":                `period "fortnight" is not a duration`,
		"10/0s":                       "must be above 0",
		"10/-1s":                      "must be above 0",
		"10/300000d":                  "below 292 years",
		"10/s burst":                  `burst "" is not a whole number`,
		"10/s burst 2.5":              `burst "2.5" is not a whole number`,
		"10/s burst 0":                "burst 0: must be at least 1",
		"10/s burst -1":               "burst -1: must be at least 1",
		"10/s/s":                      `period "s/s"`,
		"2000000000/s":                "above 1e9 a second",
		"1/d burst 99999999999999999": "lower the burst",
		strings.Repeat("9", 99):       "is not a decimal number",
	} {
		l, err := Parse(in)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "limiter: limit ") {
			t.Errorf("Parse(%q) = %+v, %v; want an error with %q", in, l, err, want)
		}
	}
}

func TestLimitString(t *testing.T) {
	for want, l := range map[string]Limit{
		"100/s":            {100, time.Second, 100},
		"6000/m burst 200": {6000, time.Minute, 200},
		"1/100s":           {1, 100 * time.Second, 1},
		"5/d":              {5, 24 * time.Hour, 5},
		"1/1500ms burst 3": {1, 1500 * time.Millisecond, 3},
	} {
		if got := l.String(); got != want {
			t.Errorf("%#v: got %q, want %q", l, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		want  string // "" is valid
	}{
		{Limit{}, "0 tokens"},
		{Limit{-1, time.Second, 1}, "-1 tokens"},
		{Limit{1, 0, 1}, "period 0s"},
		{Limit{1, -time.Second, 1}, "period -1s"},
		{Limit{1, time.Second, 0}, "burst 0"},
		{Limit{2e9, time.Second, 1}, "above 1e9 a second"},
		{Limit{1e9, time.Second, math.MaxInt32}, ""},
		{Limit{1, math.MaxInt64, math.MaxInt32}, ""},
		{Limit{1, year, math.MaxInt32}, ""},
		{Limit{1, time.Minute, math.MaxInt32}, ""},
		{Limit{1, time.Second, math.MaxInt64}, "lower the burst"},
		{Limit{99_991, time.Second, 1e15}, "lower the burst"},
		{Limit{1e5, time.Second, 1e12}, ""},
		{Limit{math.MaxInt64, math.MaxInt64, 1}, ""},
	} {
		err := c.limit.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.limit, err, c.want)
		}
	}
}
