package policy

import (
	"encoding/json"
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
	set := Set{
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
		source   string // policy of both rates
		problem  string
	}{
		{policies: "", rate: 3, by: "key"},
		{policies: "slow", rate: 10, apiRate: 10, by: "slow", source: "slow"},
		{policies: "slow fast", rate: 50, apiRate: 50, by: "fast", source: "fast"},
		{policies: "fast slow", rate: 50, apiRate: 50, by: "slow", source: "fast"}, // the last one's metadata, the highest rate
		{policies: "acl", rate: 3, apiRate: 3, by: "acl"},
		{policies: "acl rate", rate: 7, apiRate: 7, by: "rate", source: "rate"},
		{policies: "api", rate: 30, apiRate: 30, by: "api", source: "api"},
		{policies: "api api2", rate: 40, apiRate: 40, by: "api2", source: "api2"},
		{policies: "api2 api", rate: 40, apiRate: 40, by: "api", source: "api2"},
		{policies: "slow gone", rate: 10, apiRate: 10, by: "slow", source: "slow"},
		{policies: "off", rate: 1, apiRate: 1, by: "off", source: "off"},
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
		from, err := set.Apply(s, "org")
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q: got %v", c.policies, err)
			}
			continue
		}
		if err != nil || s.Rate != c.rate || s.AccessRights["a"].Limit.Rate != c.apiRate || s.MetaData["by"] != c.by || s.MetaData["own"] != 1 {
			t.Errorf("%q: %v %+v", c.policies, err, s)
		}
		if c.policies != "" && (from.Metadata["by"] != c.by || from.Metadata["own"] != "") || c.policies == "" && len(from.Metadata) > 0 {
			t.Errorf("%q: metadata is from %v", c.policies, from.Metadata)
		}
		if gone := strings.HasSuffix(c.policies, " gone"); gone != (len(from.Skipped) == 1) {
			t.Errorf("%q: skipped %q", c.policies, from.Skipped)
		}
		if from.Rate != c.source || from.Access["a"] != c.source {
			t.Errorf("%q: the rates are from %q and %v, want %q", c.policies, from.Rate, from.Access, c.source)
		}
		if s.IsInactive != (c.policies == "off") {
			t.Errorf("%q: inactive %v", c.policies, s.IsInactive)
		}
		if c.policies == "slow fast" && (len(s.Tags) != 3 || s.LastUpdated != "20" || s.MetaData["from_slow"] != true || s.AccessRights["b"].Limit.Rate != 50) {
			t.Errorf("%+v", s)
		}
	}
}

func TestSetIsThePolicyFile(t *testing.T) {
	var set Set
	err := json.Unmarshal([]byte(`{"gold": {"id": "another", "org_id": "org", "meta_data": {"ratelimit": "5/s"}}}`), &set)
	if p := set["gold"]; err != nil || p.ID != "gold" || p.OrgID != "org" || p.MetaData["ratelimit"] != "5/s" {
		t.Errorf("%v %+v", err, set)
	}
	if err := json.Unmarshal([]byte(`{"gold": 1}`), &set); err == nil {
		t.Error("a policy that is a number")
	}
}
