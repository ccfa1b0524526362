package plugin

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
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
	sessionIDs = hash("session")
	groupIDs   = hash("group")
	addressIDs = hash("address")
)
