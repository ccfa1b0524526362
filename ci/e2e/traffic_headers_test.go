package e2e

import (
	"slices"
	"strings"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

const (
	fields     = "Content-Length Content-Type Date Ratelimit Ratelimit-Policy X-Ratelimit-Limit X-Ratelimit-Remaining X-Ratelimit-Reset "
	ofAdmitted = fields + "X-Upstream"
	ofRefused  = fields + "Retry-After"
)

// wantHeader wants these names in the answer, each once, and no other.
func wantHeader(t *testing.T, r rig.Reply, names string) {
	t.Helper()
	var got []string
	for name, values := range r.Header {
		for range values {
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

// headerAPIs are an API of every kind.
func headerAPIs(plugin rig.From) []rig.API {
	apis := []rig.API{
		{ID: "header-classic"},
		{ID: "header-oas", OAS: true},
		{ID: "header-keyless", Keyless: true},
		{ID: "header-oas-keyless", OAS: true, Keyless: true},
	}
	for i := range apis {
		apis[i].RateLimit, apis[i].Plugin = rig.Object{"default": "1/h burst 2"}, plugin
	}
	return apis
}

func init() { shared.apis = append(shared.apis, headerAPIs(rig.FromBundle)...) }

// rate_limit_response_headers says which limits the gateway's own X-RateLimit
// fields are of: quotas, its default, or its own rate limits.
func TestHeaderIsCompleteAndNothingIsDoubled(t *testing.T) {
	t.Parallel()
	gateways := map[string]*rig.Gateway{"quotas": shared.start(t)}
	if theRig.Real() { // the development gateway has no limits of its own
		gateways["rate_limits"] = own(t, rig.Options{
			APIs: headerAPIs(rig.AllHooks), Conf: rig.Object{"rate_limit_response_headers": "rate_limits"},
		})
	}
	for mode, g := range gateways {
		for _, api := range headerAPIs(0) {
			t.Run(mode+"/"+api.ID, func(t *testing.T) { clientOf(t, g, api.ID).headers() })
		}
	}
}

func (c *client) headers() {
	key := c.key(nil)
	for left := 1; left >= 0; left-- { // learned, then known
		r := c.get(key)
		if !r.OK() || remaining(c.t, r) != left {
			c.t.Errorf("%v, want %d left", r, left)
		}
		wantHeader(c.t, r, ofAdmitted)
	}
	refused := c.wantRefused(key)
	wantHeader(c.t, refused, ofRefused)
	for name, want := range map[string]string{
		"RateLimit-Policy": `"default";q=1;w=3600`, "RateLimit": `"default";r=0;t=7200`, "Retry-After": "3600",
		"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "Content-Type": "application/json",
	} {
		if got := refused.Header.Get(name); got != want {
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
		wantHeader(t, c.get(key), strings.ReplaceAll(ofAdmitted, "Ratelimit Ratelimit-Policy ", ""))
	}
}
