package main

import (
	"strings"
	"testing"

	"github.com/TykTechnologies/tyk/user"
)

func access(ids ...string) map[string]user.AccessDefinition {
	m := make(map[string]user.AccessDefinition)
	for _, id := range ids {
		m[id] = user.AccessDefinition{APIID: id, Versions: []string{"Default"}}
	}
	return m
}

func policy(id string, rate float64, parts user.PolicyPartitions, apis ...string) user.Policy {
	return user.Policy{ID: id, OrgID: "org", Rate: rate, Per: 1, Partitions: parts, AccessRights: access(apis...),
		MetaData: map[string]interface{}{"by": id, "from_" + id: true}, Tags: []string{id}, LastUpdated: "20"}
}

func TestPoliciesMergeIntoTheSession(t *testing.T) {
	acl, rateOnly, perAPI := user.PolicyPartitions{Acl: true}, user.PolicyPartitions{RateLimit: true}, user.PolicyPartitions{PerAPI: true}
	set := policySet{
		"slow":  policy("slow", 10, user.PolicyPartitions{}, "a"),
		"fast":  policy("fast", 50, user.PolicyPartitions{}, "a", "b"),
		"acl":   policy("acl", 99, acl, "a"),
		"rate":  policy("rate", 7, rateOnly, "a"),
		"api":   policy("api", 30, perAPI, "a"),
		"api2":  policy("api2", 40, perAPI, "a"),
		"both":  policy("both", 1, user.PolicyPartitions{PerAPI: true, Acl: true}, "a"),
		"empty": policy("empty", 5, user.PolicyPartitions{}),
	}
	foreign := policy("foreign", 1, user.PolicyPartitions{}, "a")
	foreign.OrgID = "else"
	set["foreign"] = foreign
	off := policy("off", 1, user.PolicyPartitions{}, "a")
	off.IsInactive = true
	set["off"] = off

	for _, c := range []struct {
		policies string
		rate     float64 // the session's own is 3
		apiRate  float64 // of API a
		by       string
		problem  string
	}{
		{policies: "", rate: 3, by: "key"},
		{policies: "slow", rate: 10, apiRate: 10, by: "slow"},
		{policies: "slow fast", rate: 50, apiRate: 50, by: "fast"},
		{policies: "fast slow", rate: 50, apiRate: 50, by: "slow"}, // the last one's metadata, the highest rate
		{policies: "acl", rate: 3, apiRate: 3, by: "acl"},
		{policies: "acl rate", rate: 7, apiRate: 7, by: "rate"},
		{policies: "api", rate: 30, apiRate: 30, by: "api"},
		{policies: "api api2", rate: 40, apiRate: 40, by: "api2"},
		{policies: "api2 api", rate: 40, apiRate: 40, by: "api"},
		{policies: "slow gone", rate: 10, apiRate: 10, by: "slow"},
		{policies: "off", rate: 1, apiRate: 1, by: "off"},
		{policies: "gone", problem: "policy not found"},
		{policies: "foreign", problem: "policy not found"},
		{policies: "rate", problem: "access to nothing"},
		{policies: "empty", problem: "access to nothing"},
		{policies: "both", problem: "excludes"},
		{policies: "acl api", problem: "do not mix"},
		{policies: "api acl", problem: "do not mix"},
	} {
		s := &user.SessionState{OrgID: "org", Rate: 3, Per: 1, LastUpdated: "10", Tags: []string{"own"},
			MetaData: map[string]interface{}{"by": "key", "own": 1}, ApplyPolicies: strings.Fields(c.policies)}
		err := set.apply(s, "org")
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q: got %v", c.policies, err)
			}
			continue
		}
		if err != nil || s.Rate != c.rate || s.AccessRights["a"].Limit.Rate != c.apiRate || s.MetaData["by"] != c.by || s.MetaData["own"] != 1 {
			t.Errorf("%q: %v %+v", c.policies, err, s)
		}
		if s.IsInactive != (c.policies == "off") {
			t.Errorf("%q: inactive %v", c.policies, s.IsInactive)
		}
		if c.policies == "slow fast" && (len(s.Tags) != 3 || s.LastUpdated != "20" || s.MetaData["from_slow"] != true || s.AccessRights["b"].Limit.Rate != 50) {
			t.Errorf("%+v", s)
		}
	}
}

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
