package plugin

import (
	"encoding/json"
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
		{`{"rate": 100, "per": "1m", "burst": 200}`, nil, nil, limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 200}},
		{` "10/s" `, nil, nil, ten},
		{`{"rate": 1e1, "burst": 5e1}`, nil, nil, limiter.Limit{Tokens: 10, Period: time.Second, Burst: 50}},
		{meta{"rate": 10.0, "brust": 2.0}, nil, nil, ten},
		{meta{"rate": "100", "per": "1m", "burst": 200.0}, 1.0, 1.0, limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 200}},
	} {
		got, ok := readLimits(policyName, c.rate, beside{per: c.per, burst: c.burst}, func(string, error) {})
		if !ok || len(got.specs) != 1 || got.specs[0].policy.Limit() != c.want {
			t.Errorf("%#v per %v burst %v: %v; want %v", c.rate, c.per, c.burst, got, c.want)
		}
	}
}

// unusable are values that are there and are no limit.
var unusable = map[string]any{
	"abc": "abc", "empty": "", "NaN": math.NaN(), "NaN text": "NaN", "infinity": math.Inf(1),
	"negative": -5.0, "negative text": "-5", "huge": "1e400", "list": []any{}, "bool": true,
	"empty object": meta{}, "nested": meta{"rate": meta{"rate": 1.0}},
	"no period": "0/fortnight", "underflow": "1e-400/s", "nested list": []any{[]any{"1/s"}}, "decimal comma": "0,5/s", "no JSON": `{"rate":`, "more than JSON": `["1/s"] x`, "text of an empty list": "[]",
	"too fast": 2e9, "object with a bad per": meta{"rate": 1.0, "per": -1.0},
}

func TestUnusableLimitsSayWhy(t *testing.T) { // H14
	for name, v := range unusable {
		problems := 0
		if r, ok := readLimits(policyName, v, beside{}, func(string, error) { problems++ }); ok || problems == 0 {
			t.Errorf("%s: %v, %d problems", name, r, problems)
		}
	}
	for want, v := range map[string]struct {
		v any
		b beside
	}{
		": per:":                                  {10.0, beside{per: "soon"}},
		": per: a value of type []interface":      {10.0, beside{per: []any{}}},
		"_burst: ":                                {10.0, beside{burst: "many"}},
		"[1]: a value of type bool":               {[]any{"1/s", true}, beside{}},
		"[0].brust: no such field":                {[]any{meta{"rate": 1.0, "brust": 2.0}}, beside{}},
		".scope: want key, ":                      {meta{"rate": 1.0, "scope": "everybody"}, beside{}},
		".shadow: want true or false":             {meta{"rate": 1.0, "shadow": 1.0}, beside{}},
		".name: want a text":                      {meta{"rate": 1.0, "name": ""}, beside{}},
		": rate is missing":                       {meta{"burst": 1.0}, beside{}},
		": unlimited beside limits":               {[]any{"1/s", 0.0}, beside{}},
		".burst: limiter: ":                       {meta{"rate": 1.0, "burst": "many"}, beside{}},
		".brust: no such field":                   {meta{"rate": 0.0, "brust": 2.0}, beside{}},
		": looks like JSON":                       {`["1/s"]]`, beside{}},
		": 9 limits; only the first 8 count":      {"1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s,1/s", beside{}},
		": per and burst beside several":          {"1/s,1/m", beside{per: 60.0}},
		": \"1\" of several limits has no period": {"1,500/h", beside{}},
	} {
		var told []string
		readLimits(policyName, v.v, v.b, func(path string, err error) { told = append(told, path+": "+err.Error()) })
		if len(told) != 1 || !strings.Contains(told[0], want) {
			t.Errorf("%v: %q, want it to contain %q", v, told, want)
		}
	}
}

func TestSeveralWindows(t *testing.T) {
	for _, v := range []any{
		"10/s, 1000/h burst 100", `["10/s", "1000/h burst 100"]`, []any{"10/s", "1000/h burst 100"},
		[]any{10.0, meta{"rate": 1000.0, "per": "1h", "burst": 100.0}}, `[10, {"rate": "1000/h", "burst": "100"}]`,
	} {
		got, ok := readLimits(policyName, v, beside{}, func(path string, err error) { t.Errorf("%v: %s: %v", v, path, err) })
		if !ok || len(got.specs) != 2 || got.specs[0].policy.Limit().String() != "10/s" || got.specs[1].policy.Limit().String() != "1000/h burst 100" ||
			got.specs[0].policy.Name() != "per-second" || got.specs[1].policy.Name() != "per-hour" {
			t.Errorf("%v: %+v", v, got)
		}
	}
	named, _ := readLimits("endpoint", `[{"rate": 1, "name": "slow", "shadow": "true", "scope": "org"}, "1/10s", "1/d", "1/m"]`, beside{}, nil)
	if s := named.specs[0]; s.policy.Name() != "slow" || !s.shadow || s.scope != scopeOrg {
		t.Errorf("%+v", s)
	}
	twice, _ := readLimits(policyName, "10/s, 5/s", beside{}, nil)
	if got := twice.specs[1].policy.Name(); got != "per-second 2" {
		t.Errorf("the second of two windows of a second is %q", got)
	}
	for i, want := range []string{"endpoint per-10s", "endpoint per-day", "endpoint per-minute"} {
		if got := named.specs[i+1].policy.Name(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNoLimitOnPurpose(t *testing.T) {
	for _, v := range []any{0.0, -1.0, 0, "0", "-1", " Unlimited ", "0/s", "-1 per m", "0.0", meta{"rate": 0.0, "per": 60.0}, `{"rate": -1}`, "[0]"} {
		got, ok := readLimits(policyName, v, beside{}, func(path string, err error) { t.Errorf("%v: %s: %v", v, path, err) })
		if !ok || !got.unlimited || len(got.specs) != 0 {
			t.Errorf("%v: %+v, %v", v, got, ok)
		}
		h := newHost(t)
		h.key("vip", meta{"ratelimit_override": v, "ratelimit": "1/h burst 2"}).Rate = 1
		h.keys["vip"].Per = 3600
		h.expect(h.codes(9, func() outcome { return h.send(keyed("a", limits(meta{"default": "1/h"})), get("vip")) }), "map[200:9]")
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
		if line := h.log.String(); strings.Contains(line, "secret-key") || !strings.Contains(line, "(ACME): ratelimit") {
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
	if before, after := inputsOf(s, "a", nil), inputsOf(s, "a", nil); before != after {
		t.Error("the same object is learned anew each time")
	}
	m["burst"] = 2.0
	h.expect(h.codes(3, send), "map[200:2 429:1]")
}

func FuzzForm(f *testing.F) {
	f.Add(`"100/s"`, `60`, `"20"`)
	f.Add(`{"rate":10,"per":"1m","burst":5}`, `null`, `null`)
	f.Add(`1e400`, `"x"`, `[]`)
	f.Add(`"10/s, 1000/h burst 5"`, `60`, `null`)
	f.Add(`["10/s", {"rate": 1, "name": "n", "scope": "metadata:x", "shadow": true}, 0]`, `null`, `null`)
	f.Add(`"[\"1/s\"]"`, `null`, `null`)
	f.Fuzz(func(t *testing.T, rate, per, burst string) {
		var v [3]any
		for i, text := range []string{rate, per, burst} {
			if json.Unmarshal([]byte(text), &v[i]) != nil {
				v[i] = text
			}
		}
		problems := 0
		r, ok := readLimits(policyName, v[0], beside{per: v[1], burst: v[2]}, func(path string, err error) {
			if problems++; err.Error() == "" {
				t.Errorf("%s: no reason", path)
			}
		})
		if !ok && problems == 0 || ok && len(r.specs) == 0 && !r.unlimited || len(r.specs) > maxWindows {
			t.Errorf("%v, %v, %d problems", r, ok, problems)
		}
		for _, spec := range r.specs {
			if err := spec.policy.Limit().Validate(); err != nil {
				t.Error(err)
			}
		}
		if !ok && len(r.specs) > 0 {
			t.Errorf("not ok with %v", r)
		}
	})
}
