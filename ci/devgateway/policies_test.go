package main

import (
	"strings"
	"testing"
)

func TestPoliciesFromTheFile(t *testing.T) {
	h := newHost(t)
	upstream := echo(t)
	h.define("a", upstream.URL, nil)
	write := func(ratelimit string) {
		h.file("policies.json", toJSON(object{"gold": object{
			"org_id": "default", "rate": 50, "per": 1, "access_rights": object{"a": object{"api_id": "a"}},
			"meta_data": object{"ratelimit": ratelimit},
		}}))
	}
	write("50/s")
	h.gw.conf.Policies = policiesConf{Source: "file", RecordName: h.path("policies.json")}
	h.reload()
	h.key("kay", object{"apply_policies": []string{"gold"}, "meta_data": object{"ratelimit": "10/s", "ratelimit_override": "7/s"}})
	h.admin("POST", "/tyk/keys/bad", keyJSON(object{"apply_policies": []string{"none"}}, "a"))

	meta := func() string {
		_, o := h.admin("GET", "/tyk/keys/kay?org_id=default", "")
		return strings.TrimSpace(toJSON(o["meta_data"]))
	}
	if got := meta(); got != `{"ratelimit":"50/s","ratelimit_override":"7/s"}` {
		t.Errorf("saved %s", got)
	}
	if _, s := h.gw.keys.find("default", "kay"); s.MetaData["ratelimit"] != "50/s" {
		t.Errorf("the merge is not saved: %v", s.MetaData)
	}
	write("60/s")
	h.reload()
	if got := meta(); !strings.Contains(got, "60/s") {
		t.Errorf("after a reload: %s", got)
	}
	for key, want := range map[string]int{"kay": 200, "bad": 403} {
		if got := h.do("GET", "/a/", "", "Authorization: "+key); got.code != want {
			t.Errorf("%s: %+v", key, got)
		}
	}

	h.file("policies.json", `{"gold": {"rate": "fast"}}`)
	err := h.gw.reload()
	if err == nil || !strings.Contains(err.Error(), "policies.json: gold.rate: want float64, got string") && !strings.Contains(err.Error(), "policies.json: rate: want float64, got string") {
		t.Errorf("got %v", err)
	}
	if got := h.do("GET", "/a/", "", "Authorization: kay"); got.code != 200 {
		t.Errorf("a failed reload must leave everything as it was: %+v", got)
	}
}
