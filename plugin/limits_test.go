package plugin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tokenbucket.internal/limiter"
)

func TestFormsOfALimit(t *testing.T) { // H13
	ten := limiter.Limit{Tokens: 10, Period: time.Second, Burst: 10}
	for _, c := range []struct {
		rate, per, burst any
		want             limiter.Limit
	}{
		{10.0, nil, nil, ten},
		{"10", nil, nil, ten},
		{" 10 ", nil, nil, ten},
		{"10/s", nil, nil, ten},
		{meta{"rate": 10.0}, nil, nil, ten},
		{json.Number("10"), nil, nil, ten},
		{10, nil, nil, ten},
		{int64(10), nil, nil, ten},
		{float32(10), nil, nil, ten},
		{100.0, 60.0, 20.0, limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 20}},
		{"100", "60", "20", limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 20}},
		{"100", "1m", " 20 ", limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 20}},
		{0.5, nil, nil, limiter.Limit{Tokens: 1, Period: 2 * time.Second, Burst: 1}},
		{4.0, 0.5, nil, limiter.Limit{Tokens: 4, Period: 500 * time.Millisecond, Burst: 4}},
		{0.3333333333333333, nil, nil, limiter.Limit{Tokens: 1, Period: 3 * time.Second, Burst: 1}},
		{100.0, "day", nil, limiter.Limit{Tokens: 100, Period: 24 * time.Hour, Burst: 100}},
		{100.0, "10 min", nil, limiter.Limit{Tokens: 100, Period: 10 * time.Minute, Burst: 100}},
		{"100", "1e3", nil, limiter.Limit{Tokens: 100, Period: 1000 * time.Second, Burst: 100}},
		{"10/s", nil, 0.0, ten}, // a rate is not void for its burst
		{"10/s", nil, "1.5", ten},
		{meta{"rate": 10.0, "burst": "many"}, nil, nil, ten},
		{"10/s", nil, 50.0, limiter.Limit{Tokens: 10, Period: time.Second, Burst: 50}},
		{"10/s BURST 30", 60.0, 50.0, limiter.Limit{Tokens: 10, Period: time.Second, Burst: 30}},
		{"5 per day", 60.0, nil, limiter.Limit{Tokens: 5, Period: 24 * time.Hour, Burst: 5}},
		{meta{"rate": "100", "per": "1m", "burst": 200.0}, 1.0, 1.0, limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 200}},
	} {
		got, _, err := formOf(c.rate, c.per, c.burst).limit()
		if err != nil || got != c.want {
			t.Errorf("%#v per %v burst %v: %v, %v; want %v", c.rate, c.per, c.burst, got, err, c.want)
		}
	}
}

// unusable are values that are there and are no limit.
var unusable = map[string]any{
	"abc": "abc", "empty": "", "NaN": math.NaN(), "NaN text": "NaN", "infinity": math.Inf(1),
	"negative": -5.0, "negative text": "-5", "zero": 0.0, "huge": "1e400", "list": []any{}, "bool": true,
	"empty object": meta{}, "unknown field": meta{"rate": 1.0, "brust": 2.0}, "nested": meta{"rate": meta{"rate": 1.0}},
	"too fast": 2e9, "object with a bad per": meta{"rate": 1.0, "per": -1.0},
}

func TestUnusableLimitsSayWhy(t *testing.T) { // H14
	for name, v := range unusable {
		if l, _, err := formOf(v, nil, nil).limit(); err == nil {
			t.Errorf("%s: %v", name, l)
		}
	}
	for want, v := range map[string][3]any{
		"per:":                   {10.0, "soon", nil},
		"not a number or a text": {10.0, nil, []any{}},
		"burst ":                 {10.0, nil, "many"},
	} {
		_, burstFault, err := formOf(v[0], v[1], v[2]).limit()
		if err = cmp.Or(err, burstFault); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want it to name %q", v, err, want)
		}
	}
}

func TestUnusableMetadataGoesToTheNextSource(t *testing.T) { // H14
	for name, v := range unusable {
		h := newHost(t)
		api := keyed("a", limits(meta{"default": "1/h burst 4"}))
		h.key("secret-key-of-"+name, meta{"ratelimit": v}).Alias = "ACME"
		send := func() outcome { return h.send(api, get("secret-key-of-"+name)) }
		h.expect(h.codes(6, send), "map[200:4 429:2]")
		for range 3 {
			h.now += defaultRefresh
			send()
		}
		if n := strings.Count(h.log.String(), "\n"); n != 1 {
			t.Errorf("%s: %d lines in the log:\n%s", name, n, h.log.String())
		}
		if line := h.log.String(); strings.Contains(line, "secret-key") || !strings.Contains(line, "(ACME): ratelimit: ") {
			t.Errorf("%s: %s", name, line)
		}
		h.now += time.Minute
		send()
		if n := strings.Count(h.log.String(), "\n"); n != 2 {
			t.Errorf("%s: %d lines after a minute", name, n)
		}
	}
}

func TestOrderOfSources(t *testing.T) { // H15
	all := func() meta {
		return meta{"ratelimit_override": "1/h burst 7", "ratelimit": "1/h burst 50"}
	}
	for name, c := range map[string]struct {
		change func(m meta)
		want   string
	}{
		"override":          {func(meta) {}, "map[200:7 429:53]"},
		"metadata":          {func(m meta) { delete(m, "ratelimit_override") }, "map[200:50 429:10]"},
		"bad override":      {func(m meta) { m["ratelimit_override"] = "lots" }, "map[200:50 429:10]"},
		"rate and per":      {func(m meta) { clear(m) }, "map[200:20 429:40]"},
		"bad metadata":      {func(m meta) { clear(m); m["ratelimit"] = true }, "map[200:20 429:40]"},
		"group by number":   {func(m meta) { clear(m); m["ratelimit_group"] = 42.0 }, "map[200:20 429:40]"},
		"unusable group":    {func(m meta) { m["ratelimit_group"] = []any{"x"} }, "map[200:7 429:53]"},
		"override's burst":  {func(m meta) { m["ratelimit_override"] = 0.001; m["ratelimit_override_burst"] = 9.0 }, "map[200:9 429:51]"},
		"not another burst": {func(m meta) { m["ratelimit_override"] = "0.001"; m["ratelimit_burst"] = 9.0 }, "map[200:1 429:59]"},
	} {
		h := newHost(t)
		m := all()
		c.change(m)
		s := h.key("k", m)
		s.Rate, s.Per = 20, 36000
		if got := h.codes(60, func() outcome { return h.send(keyed("a", limits(meta{"default": "1/h burst 3"})), get("k")) }); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A limit as an object is shared with other requests of the gateway: a change
// in place is seen, and nothing of it is kept.
func TestLimitAsAnObjectIsNotKept(t *testing.T) {
	h := newHost(t)
	api := keyed("a", nil)
	m := meta{"rate": 1.0, "per": 3600.0, "burst": 5.0}
	s := h.key("k", meta{"ratelimit": m})
	send := func() outcome { return h.send(api, get("k")) }
	h.expect(h.codes(2, send), "map[200:2]")
	if before, after := inputsOf(s, "a"), inputsOf(s, "a"); before != after {
		t.Error("the same object is learned anew each time")
	}
	m["burst"] = 2.0
	h.expect(h.codes(3, send), "map[200:2 429:1]")
}

func FuzzForm(f *testing.F) {
	f.Add(`"100/s"`, `60`, `"20"`)
	f.Add(`{"rate":10,"per":"1m","burst":5}`, `null`, `null`)
	f.Add(`1e400`, `"x"`, `[]`)
	f.Fuzz(func(t *testing.T, rate, per, burst string) {
		var v [3]any
		for i, text := range []string{rate, per, burst} {
			if json.Unmarshal([]byte(text), &v[i]) != nil {
				v[i] = text
			}
		}
		l, _, err := formOf(v[0], v[1], v[2]).limit()
		if err == nil {
			err = l.Validate()
		} else if l != (limiter.Limit{}) {
			err = fmt.Errorf("%v with error %w", l, err)
		} else {
			return
		}
		if err != nil {
			t.Error(err)
		}
	})
}
