package limiter

import "hash/maphash"

// An id stands for a key: 128 bits of two hashes with random seeds. Keys
// themselves are not kept. Half of it alone is not relied on to be unique.
type id struct{ hi, lo uint64 }

type hasher func(key string) id

func newHasher() hasher {
	hi, lo := maphash.MakeSeed(), maphash.MakeSeed()
	return func(key string) id {
		return id{maphash.String(hi, key), maphash.String(lo, key)}
	}
}
