package plugin

import (
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/TykTechnologies/tyk/user"
)

func who(e *engine, keyID, keyHash string) id {
	s := &user.SessionState{OrgID: "org", KeyID: keyID}
	if keyHash != "" {
		s.SetKeyHash(keyHash)
	}
	return e.identity(httptest.NewRequest("GET", "/", nil), s).who
}

// A murmur32 hash passes over up to three characters at the end of a key, and
// the gateway accepts the key with any of them.
func TestKeyWithCharactersThatItsHashIgnoresHasNoFreshBucket(t *testing.T) {
	e := newHost(t).e
	e.keysAreHashed = func() bool { return true }
	if who(e, "orgkey", "0a1b2c3d") != who(e, "orgkeyxyz", "0a1b2c3d") {
		t.Error("two spellings of one key have a bucket each")
	}
	if who(e, "orgkey", "0a1b2c3d") == who(e, "orgkey", "ffffffff") {
		t.Error("two keys share a bucket")
	}
	if first := who(e, "orgkey", ""); first != who(e, "orgkey", "") {
		t.Error("no bucket of its own without a hash")
	}
}

// A signature names its key as the client likes, and then the session does.
func TestEverySpellingOfAnUnhashedKeyIsTheSame(t *testing.T) {
	e := newHost(t).e
	token := func(id string) string {
		return base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf(`{"org":"org","id":"%s","h":"murmur64"}`, id)))
	}
	want := who(e, "customer-1", "")
	for _, spelling := range []string{"orgcustomer-1", token("customer-1")} {
		if who(e, spelling, spelling) != want {
			t.Errorf("%s: another identity", spelling)
		}
	}
	for _, other := range []string{"customer-2", token("customer-2"), "ey-no-token", "eyJub3QiOiJhIHRva2VuIn0="} {
		if who(e, other, "") == want {
			t.Errorf("%s: the same identity", other)
		}
	}
}
