package plugin

import (
	"crypto/sha256"
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
	binary.BigEndian.PutUint64(b[:8], a.hi)
	binary.BigEndian.PutUint64(b[8:], a.lo)
	return string(b[:])
}

// named is the id of a part of a bucket's name: the same in every process, as
// gateways can share buckets.
func named(s string) id {
	sum := sha256.Sum256([]byte(s))
	return id{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// Ids of different kinds never meet.
var (
	sessionIDs  = named("session")
	groupIDs    = named("group")
	addressIDs  = named("address")
	unknownIDs  = named("unknown")
	endpointIDs = named("endpoint")
	windowIDs   = named("window")
	totalIDs    = named("total")
	statusIDs   = named("status")
	numberIDs   = named("number")
)

// An identity is whom an accepted key belongs to.
type identity struct {
	key  string // a secret; "": none was accepted
	name string // that all spellings of the key have in common
	who  id     // in this process
}

// bucket is the id of the identity's own bucket.
func (i identity) bucket(org string) id { return sessionIDs.with(named(org)).with(named(i.name)) }

// identity tells whom the session belongs to.
//
// One key has several spellings: with and without its organisation, and, where
// the gateway stores murmur32 hashes, with up to three characters more, which
// that hash passes over. Its hash is what all of them have in common.
func (e *engine) identity(r *http.Request, session *user.SessionState) (i identity) {
	if session == nil {
		return i
	}
	if i.key = session.KeyID; i.key == "" {
		i.key = ctx.GetAuthToken(r)
	}
	if e.keysAreHashed() && !session.KeyHashEmpty() {
		i.name = session.KeyHash()
	} else {
		i.name = inner(i.key, session.OrgID)
	}
	i.who = sessionIDs.with(hash(session.OrgID)).with(hash(i.name))
	return i
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
