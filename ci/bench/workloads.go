package main

import (
	"math/rand"
	"strconv"
	"strings"
	"time"

	"tokenbucket.internal/limiter"
)

// A setting is what works share: the limit, and how many keys there are. What
// a peer keeps is filled once for all of them.
type setting struct {
	limit limiter.Limit
	keys  int // 0: one bucket
	max   int // keys that may be kept; 0: any number
	works []work
}

// A work is what is measured.
type work struct {
	name    string
	id      string // in benchstat's format
	refuses bool
	order   func(keys int) []int // in which keys come; its length is a power of two
	fresh   int                  // every so many-th key was never seen before; 0: none
}

var (
	// admits never runs dry, and is full again at once.
	admits = limiter.Limit{Tokens: 1e9, Period: time.Second, Burst: 1 << 31}
	// refuses admits one request a day.
	refuses = limiter.Limit{Tokens: 1, Period: 24 * time.Hour, Burst: 1}
	// lasts never runs dry either. One token is back after 10 ms, so that keys
	// in use are not full, and keys that came once soon are.
	lasts = limiter.Limit{Tokens: 100, Period: time.Second, Burst: 1e9}
)

func settings() []setting {
	return []setting{
		{limit: admits, works: []work{{name: "one bucket, admit", id: "BucketAdmit"}}},
		{limit: refuses, works: []work{{name: "one bucket, refuse", id: "BucketRefuse", refuses: true}}},
		{limit: admits, keys: 1, works: []work{{name: "one hot key, admit", id: "HotKeyAdmit", order: inTurn}}},
		{limit: refuses, keys: 1, works: []work{{name: "one hot key, refuse", id: "HotKeyRefuse", refuses: true, order: inTurn}}},
		{limit: lasts, keys: 1 << 16, works: []work{{name: "64 K keys", id: "Keys64K", order: inTurn}}},
		{limit: lasts, keys: 1 << 20, works: []work{
			{name: "1 M keys", id: "Keys1M", order: inTurn},
			{name: "1 M keys, zipf", id: "Keys1MZipf", order: zipf},
		}},
		{limit: lasts, keys: 1 << 15, max: 1 << 16, works: []work{
			{name: "10 % new keys", id: "NewKeys10", order: inTurn, fresh: 10},
			{name: "new keys only", id: "NewKeys100", order: inTurn, fresh: 1},
		}},
	}
}

// inTurn takes all keys one after the other. Tables are filled in another
// order, and hash them, so that this is a random walk for them.
func inTurn(keys int) []int {
	order := make([]int, keys)
	for i := range order {
		order[i] = i
	}
	return order
}

// zipf takes few keys often: the first in one of 15 requests, the first
// thousand in every second one.
func zipf(keys int) []int {
	r := rand.New(rand.NewSource(1))
	z := rand.NewZipf(r, 1.01, 1, uint64(keys-1))
	order := make([]int, 1<<20)
	for i := range order {
		order[i] = int(z.Uint64())
	}
	return order
}

const keyLength = 32

// keyName is the i-th key: as long as real ones, and alike except at its end.
func keyName(i int) string {
	return "5e9d9544a1dcd60001d0ed20" + strconv.FormatInt(1<<28+int64(i), 16)
}

// sequence lays the keys out in the order in which they come, one behind the
// other, as a request has its key at hand: reading it is not what is measured.
func sequence(order []int, first int) []string {
	var all strings.Builder
	all.Grow(len(order) * keyLength)
	for _, k := range order {
		all.WriteString(keyName(first + k))
	}
	seq := make([]string, len(order))
	for i := range seq {
		seq[i] = all.String()[i*keyLength : (i+1)*keyLength]
	}
	return seq
}

// fill makes the keys known, in random order, each as a string of its own.
func fill(t table, s setting) {
	for _, k := range rand.New(rand.NewSource(2)).Perm(s.keys) {
		t.take(keyName(k))
	}
	for k := s.keys; k < s.max; k++ {
		t.take(keyName(k))
	}
}

// walk takes keys one after the other, and again from the first.
func walk(t table, seq []string) job {
	mask := len(seq) - 1
	return func(from, to int) (admitted int) {
		for i := from; i < to; i++ {
			if t.take(seq[i&mask]) {
				admitted++
			}
		}
		return admitted
	}
}

// renew is walk with every so many-th key taken from fresh.
func renew(t table, seq []string, fresh *[]string, every int) job {
	mask := len(seq) - 1
	return func(from, to int) (admitted int) {
		for i := from; i < to; i++ {
			key := seq[i&mask]
			if i%every == 0 {
				key = (*fresh)[i/every]
			}
			if t.take(key) {
				admitted++
			}
		}
		return admitted
	}
}
