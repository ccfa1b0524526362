package ctx

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
	"github.com/TykTechnologies/tyk/user"
)

func newRequest() *http.Request { return httptest.NewRequest("GET", "/", nil) }

func TestKeyNumbersAreTheGateways(t *testing.T) {
	for key, want := range map[Key]uint{
		SessionData: 0, AuthToken: 2, CheckLoopLimits: 21, Definition: 24, OASDefinition: 29, SelfLooping: 30,
	} {
		if uint(key) != want {
			t.Errorf("got %d, want %d", key, want)
		}
	}
}

func TestEmptyContextHasNothing(t *testing.T) {
	r := newRequest()
	if GetSession(r) != nil || GetAuthToken(r) != "" || GetDefinition(r) != nil || GetOASDefinition(r) != nil {
		t.Fatal("want nil and empty")
	}
}

func TestSessionRoundTrip(t *testing.T) {
	r := newRequest()
	seen := r // a later middleware holds the same pointer
	s := &user.SessionState{KeyID: "key-1", OrgID: "org"}
	SetSession(r, s, false)
	if GetSession(seen) != s || GetAuthToken(seen) != "key-1" || s.KeyHash() != "key-1" {
		t.Fatalf("session %+v, token %q", GetSession(seen), GetAuthToken(seen))
	}

	other := &user.SessionState{} // takes the token that is there
	SetSession(r, other, false, true)
	if other.KeyID != "key-1" {
		t.Fatalf("key id %q", other.KeyID)
	}

	defer func() {
		if recover() == nil {
			t.Fatal("want a panic for a nil session")
		}
	}()
	SetSession(r, nil, false)
}

func TestDefinitionIsADeepCopy(t *testing.T) {
	r := newRequest()
	d := &apidef.APIDefinition{APIID: "a1", ConfigData: map[string]interface{}{
		"ratelimit": map[string]interface{}{"default": "5/s"},
	}}
	SetDefinition(r, d)
	got := GetDefinition(r)
	if got == d || got.APIID != "a1" {
		t.Fatalf("got %p %+v", got, got)
	}
	got.ConfigData["ratelimit"].(map[string]interface{})["default"] = "9/s"
	if d.ConfigData["ratelimit"].(map[string]interface{})["default"] != "5/s" {
		t.Fatal("the copy shares its config data")
	}
	if r.Context().Value(Definition).(*apidef.APIDefinition) != d {
		t.Fatal("the context lost the original pointer")
	}
}

func TestOASDefinitionKeepsTheDocument(t *testing.T) {
	r := newRequest()
	d := new(oas.OAS)
	doc := `{"openapi":"3.0.3","x-tyk-api-gateway":{"info":{"id":"o1"}}}`
	if err := json.Unmarshal([]byte(doc), d); err != nil {
		t.Fatal(err)
	}
	SetOASDefinition(r, d)
	got := GetOASDefinition(r)
	b, err := json.Marshal(got)
	if err != nil || string(b) != doc || got == d {
		t.Fatalf("%s, %v", b, err)
	}
}
