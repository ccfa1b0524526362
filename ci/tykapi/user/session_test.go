package user

import (
	"encoding/json"
	"testing"
	"time"
)

func TestKeyJSONAsTheAdminAPITakesIt(t *testing.T) {
	in := `{"rate":10,"per":60,"org_id":"default","apply_policies":["p1"],
		"access_rights":{"a1":{"api_id":"a1","limit":{"rate":5,"per":1}}},
		"meta_data":{"ratelimit":"100/s"}}`
	var s SessionState
	if err := json.Unmarshal([]byte(in), &s); err != nil {
		t.Fatal(err)
	}
	limit := s.AccessRights["a1"].Limit
	if s.Rate != 10 || s.Per != 60 || limit.Rate != 5 || limit.Duration() != 200*time.Millisecond || limit.IsEmpty() {
		t.Fatalf("%+v", s)
	}
	s.KeyID = "secret"
	b, _ := json.Marshal(s)
	var out map[string]any
	_ = json.Unmarshal(b, &out)
	if len(out) != 6 { // neither the key id nor unset fields
		t.Fatalf("%s", b)
	}
}

func TestKeyHashPanicsWhenEmpty(t *testing.T) {
	s := new(SessionState)
	if !s.KeyHashEmpty() {
		t.Fatal("want empty")
	}
	defer func() {
		if recover() == nil {
			t.Fatal("want a panic")
		}
		s.SetKeyHash("h")
		if s.KeyHash() != "h" {
			t.Fatal("want h")
		}
	}()
	_ = s.KeyHash()
}

func TestPolicyIDs(t *testing.T) {
	for _, c := range []struct {
		s    SessionState
		want int
	}{
		{SessionState{}, 0},
		{SessionState{ApplyPolicyID: "old"}, 1},
		{SessionState{ApplyPolicyID: "old", ApplyPolicies: []string{"a", "b"}}, 2},
	} {
		if got := len(c.s.PolicyIDs()); got != c.want {
			t.Errorf("%+v: got %d", c.s, got)
		}
	}
}

func TestCloneDoesNotShareTheTopMaps(t *testing.T) {
	s := SessionState{MetaData: map[string]interface{}{"a": 1}, Tags: []string{"x"}}
	c := s.Clone()
	c.MetaData["a"], c.Tags[0] = 2, "y"
	if s.MetaData["a"] != 1 || s.Tags[0] != "x" {
		t.Fatal("shared")
	}
}

func TestDurationOfUnsetRate(t *testing.T) {
	if (RateLimit{Rate: 0, Per: 1}).Duration() != 0 || (RateLimit{Rate: 1, Per: -1}).Duration() != 0 {
		t.Fatal("want 0")
	}
}
