package e2e

import (
	"strings"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

var stripped = shared.api(rig.API{ID: "stripped", Fields: rig.Object{"strip_auth_data": true}, Auth: rig.Object{
	"use_param": true, "param_name": "api_key", "use_cookie": true, "cookie_name": "api_cookie",
}})

func TestStrippedCredentialIsLimitedAndDoesNotReachTheUpstream(t *testing.T) {
	t.Parallel()
	c := of(t, stripped)
	for place, request := range map[string]func(key string) rig.Request{
		"header":    func(key string) rig.Request { return rig.Request{Key: "Bearer " + key} },
		"parameter": func(key string) rig.Request { return rig.Request{Path: "?api_key=" + key + "&other=1"} },
		"cookie": func(key string) rig.Request {
			return rig.Request{Header: rig.Header{"Cookie": "other=1; api_cookie=" + key}}
		},
	} {
		key := c.key(limits("1/h burst 3"))
		for range 2 { // learned, then known
			if r := c.send(request(key)); !r.OK() || strings.Contains(r.Body, key) {
				t.Errorf("%s: %v, want it admitted and the key not at the upstream", place, r)
			}
		}
		c.admits(1, 3, request(key))
	}
}
