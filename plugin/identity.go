package plugin

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"math/bits"
	"net/http"
	"strings"

	"github.com/TykTechnologies/tyk/config"
	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/user"
)

// An id stands for something that must not be kept as it is, or that comes in
// any length: 128 bits of two hashes with seeds of this process.
type id struct{ hi, lo uint64 }

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hash(s string) id { return id{maphash.String(seeds[0], s), maphash.String(seeds[1], s)} }

// with makes the id of an ordered pair.
func (a id) with(b id) id {
	return id{bits.RotateLeft64(a.hi, 23)*0x9e3779b97f4a7c15 ^ b.hi, bits.RotateLeft64(a.lo, 23)*0x9e3779b97f4a7c15 ^ b.lo}
}

// key is the id as a key of the limiter.
func (a id) key() string {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], a.hi)
	binary.NativeEndian.PutUint64(b[8:], a.lo)
	return string(b[:])
}

// Ids of different kinds never meet.
var (
	sessionIDs  = hash("session")
	groupIDs    = hash("group")
	addressIDs  = hash("address")
	unknownIDs  = hash("unknown")
	endpointIDs = hash("endpoint")
	windowIDs   = hash("window")
	totalIDs    = hash("total")
	numberIDs   = hash("number")
)

// identity is the key that was accepted, which is a secret, and the id of whom
// it belongs to; "" if none was accepted.
//
// One key has several spellings: with and without its organisation, and, where
// the gateway stores murmur32 hashes, with up to three characters more, which
// that hash passes over. Its hash is what all of them have in common.
func (e *engine) identity(r *http.Request, session *user.SessionState) (key string, who id) {
	if session == nil {
		return "", who
	}
	if key = session.KeyID; key == "" {
		key = ctx.GetAuthToken(r)
	}
	name := ""
	if e.keysAreHashed() && !session.KeyHashEmpty() {
		name = session.KeyHash()
	} else {
		name = inner(key, session.OrgID)
	}
	return key, sessionIDs.with(hash(session.OrgID)).with(hash(name))
}

// inner is a key without the organisation that the gateway puts around it.
func inner(key, org string) string {
	if id := tokenID(key); id != "" {
		return id
	}
	return strings.TrimPrefix(key, org)
}

// tokenID is the id in a key of Tyk's newer form; "" if it has another.
func tokenID(key string) string {
	if !strings.HasPrefix(key, "ey") { // {" in base64
		return ""
	}
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return ""
	}
	var token struct{ ID string }
	_ = json.Unmarshal(raw, &token)
	return token.ID
}

// keysAreHashed is not to be called before the gateway runs.
func keysAreHashed() bool { return config.Global != nil && config.Global().HashKeys }
