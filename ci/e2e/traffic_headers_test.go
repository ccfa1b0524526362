package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

const (
	always   = "Content-Length Content-Type Date "
	fields   = "Ratelimit Ratelimit-Policy "
	ofTyk    = "X-Ratelimit-Limit X-Ratelimit-Remaining X-Ratelimit-Reset " // and of a refusal
	upstream = "X-Upstream"

	ofRefused = always + fields + ofTyk + "Retry-After"
)

// wantHeader wants these names in the answer, each once, and no other but that
// with which the development gateway tells what the hooks cost.
func wantHeader(t *testing.T, r rig.Reply, names string) {
	t.Helper()
	var got []string
	for name, values := range r.Header {
		for range values {
			if name == "Server-Timing" && !theRig.Real() {
				continue
			}
			got = append(got, name)
		}
	}
	want := strings.Fields(names)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("header %v, want %v", got, want)
	}
}

// headerAPIs are an API of every kind, without Tyk's own limits, and one with.
func headerAPIs(plugin rig.From) []rig.API {
	apis := []rig.API{
		{ID: "header-classic"},
		{ID: "header-oas", OAS: true},
		{ID: "header-keyless", Keyless: true},
		{ID: "header-oas-keyless", OAS: true, Keyless: true},
		{ID: headerBoth, Fields: rig.Object{"disable_rate_limit": false}},
	}
	for i := range apis {
		apis[i].RateLimit, apis[i].Plugin = rig.Object{"default": "1/h burst 2"}, plugin
	}
	return apis
}

const headerBoth = "header-both-limiters"

// Each kind of bundle has a gateway of its own.
var hookCounts = map[string]struct {
	gateway *sharedGateway
	bundle  rig.From
}{"two hooks": {&shared, rig.FromBundle}, "three hooks": {&hooked, rig.ResponseBundle}}

func init() {
	for _, h := range hookCounts {
		h.gateway.apis = append(h.gateway.apis, headerAPIs(h.bundle)...)
		h.gateway.apis = append(h.gateway.apis, upstreamFieldAPIs(h.bundle)...)
	}
}

func TestHeaderIsCompleteAndNothingIsDoubled(t *testing.T) {
	t.Parallel()
	for hooks, h := range hookCounts {
		g := h.gateway.start(t)
		for _, api := range headerAPIs(h.bundle) {
			t.Run(hooks+" "+api.ID, func(t *testing.T) { clientOf(t, g, api.ID).headers(always + fields + ofTyk + upstream) })
		}
	}
}

// In this mode the gateway tells of its own rate limits instead of quotas, if
// it has some.
func TestHeaderIsCompleteInTheModeForRateLimits(t *testing.T) {
	const setting = "rate_limit_response_headers"
	realOnly(t, setting)
	if !theRig.HasSetting(setting) {
		t.Skip("this release has no " + setting)
	}
	t.Parallel()
	for hooks, h := range hookCounts {
		apis := headerAPIs(h.bundle)
		g := own(t, rig.Options{APIs: apis, Conf: rig.Object{setting: "rate_limits"}})
		for _, api := range apis {
			t.Run(hooks+" "+api.ID, func(t *testing.T) {
				want := always + fields + upstream
				if api.ID == headerBoth {
					want += " " + ofTyk
				}
				clientOf(t, g, api.ID).headers(want)
			})
		}
	}
}

func upstreamFieldAPIs(plugin rig.From) []rig.API {
	return []rig.API{{ID: "upstream-fields", Plugin: plugin}, {ID: "upstream-fields-oas", OAS: true, Plugin: plugin}}
}

// An upstream may limit too. Without the response hook a client gets its fields
// beside ours; with it, only ours.
func TestFieldsOfTheUpstreamAreDoubledWithoutTheResponseHook(t *testing.T) {
	t.Parallel()
	for hooks, h := range hookCounts {
		for _, api := range upstreamFieldAPIs(h.bundle) {
			c := clientOf(t, h.gateway.start(t), api.ID)
			key := c.key(limits("1/h burst 9"))
			for _, field := range []string{`RateLimit: "theirs";r=7;t=60`, `RateLimit-Policy: "theirs";q=8;w=60`} {
				r := c.send(rig.Request{Key: key, Header: rig.Header{"X-Upstream-Header": field}})
				name, _, _ := strings.Cut(field, ":")
				var of []string
				for _, value := range r.Header.Values(name) {
					limit, _, _ := strings.Cut(value, ";")
					of = append(of, limit)
				}
				slices.Sort(of)
				want := []string{`"default"`, `"theirs"`}
				if h.bundle == rig.ResponseBundle {
					want = want[:1]
				}
				if !r.OK() || !slices.Equal(of, want) {
					t.Errorf("%s, %s: %s of %v, want %v", hooks, api.ID, name, of, want)
				}
			}
		}
	}
}

func (c *client) headers(ofAdmitted string) {
	key := c.newKey(rig.Key{Metadata: limits("1/h burst 2"), Fields: rig.Object{"rate": 1000, "per": 60}})
	for left := 1; left >= 0; left-- { // learned, then known
		r := c.get(key)
		if !r.OK() || remaining(c.t, r) != left {
			c.t.Errorf("%v, want %d left", r, left)
		}
		wantHeader(c.t, r, ofAdmitted)
	}
	refused := c.wantRefused(key)
	wantHeader(c.t, refused, ofRefused)
	for name, want := range map[string]string{ // a busy machine may take a minute
		"RateLimit-Policy": `"default";q=1;w=3600`, "RateLimit": `"default";r=0;t=7(1[4-9].|200)`, "Retry-After": "3(5[4-9].|600)",
		"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "Content-Type": "application/json",
	} {
		if got := refused.Header.Get(name); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			c.t.Errorf("refused with %s: %s, want %s", name, got, want)
		}
	}
}

var unlimited = shared.api(rig.API{ID: "header-unlimited"})

func TestUnlimitedAnswerHasNoFields(t *testing.T) {
	t.Parallel()
	c := of(t, unlimited)
	key := c.key(nil)
	for range 3 {
		wantHeader(t, c.get(key), always+ofTyk+upstream)
	}
}
