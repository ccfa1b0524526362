package cluster_test

import (
	"math/big"
	"math/rand"
	"strings"
	"testing"
	"time"

	"tokenbucket.internal/cluster/shared"
	"tokenbucket.internal/limiter"
)

// held is what a grant says that the bucket held before, which may be below 0.
func held(p *shared.Plan, g shared.Grant) *big.Rat {
	tokens := new(big.Rat).SetFrac64(g.Lacked, p.Lacks(shared.Grant{Tokens: 1}))
	return tokens.Sub(rat(p.Limit.Burst), tokens)
}

// A bucket under another limit keeps its tokens, at most the new burst, and is
// never fuller for it.
func TestScriptConvertsLimits(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	b := newBucket(t)
	for range 1000 {
		from, to := randomLimit(r), randomLimit(r)
		p, q := compile(t, from), compile(t, to)
		b.reset()
		g := b.ask(p, shared.Ask{Want: 1 + r.Int63n(from.Burst)})
		before := new(big.Rat).Sub(rat(from.Burst), rat(g.Tokens))
		want := before
		if full := rat(to.Burst); want.Cmp(full) > 0 {
			want = full
		}
		got := held(q, b.ask(q, shared.Ask{}))
		if got.Cmp(want) > 0 {
			t.Fatalf("%v to %v: %s tokens became %s", from, to, before.FloatString(9), got.FloatString(9))
		}
		loss := new(big.Rat).Sub(want, got)
		if loss.Cmp(new(big.Rat).Add(new(big.Rat).Mul(rat(to.Burst), big.NewRat(1, 1e12)), big.NewRat(1, 10_000))) > 0 {
			t.Fatalf("%v to %v: %s tokens became %s", from, to, want.FloatString(9), got.FloatString(9))
		}
		// There and back adds nothing.
		if again := held(p, b.ask(p, shared.Ask{})); again.Cmp(before) > 0 {
			t.Fatalf("%v to %v and back: %s tokens became %s", from, to, before.FloatString(9), again.FloatString(9))
		}
	}
}

// What was taken in advance stays so as a time: changing the limit to and fro
// does not lend the same refill twice.
func TestScriptLendsOnceWhileLimitsChange(t *testing.T) {
	slow, fast := compile(t, limiter.Limit{Tokens: 10, Period: time.Second, Burst: 1}), compile(t, limiter.Limit{Tokens: 1000, Period: time.Second, Burst: 1})
	b := newBucket(t)
	granted, start := int64(0), b.now
	for range 300 {
		granted += b.ask(fast, shared.Ask{Want: 1000}).Tokens + b.ask(slow, shared.Ask{Want: 1000}).Tokens
		b.at(b.now + 10_000)
	}
	if most := 2 + 1000*(b.now-start+int64(shared.Ahead/time.Microsecond))/1_000_000; granted > most {
		t.Errorf("granted %d of %d", granted, most)
	}
	// A slower limit is not locked out for what was lent at a fast one.
	b.ask(fast, shared.Ask{Want: 1000})
	b.ask(slow, shared.Ask{})
	b.at(b.now + int64((shared.Ahead+110*time.Millisecond)/time.Microsecond))
	if g := b.ask(slow, shared.Ask{Want: 1}); g.Tokens != 1 {
		t.Error("locked out")
	}
}

func TestScriptGivesBackAndCharges(t *testing.T) {
	p := compile(t, limiter.Limit{Tokens: 1, Period: time.Second, Burst: 10})
	b := newBucket(t)
	steps := []struct {
		after        time.Duration
		ask          shared.Ask
		tokens, left int64 // granted, and free after it
	}{
		{0, shared.Ask{Want: 4}, 4, 6},
		{0, shared.Ask{Back: 2}, 0, 8},
		{0, shared.Ask{Back: 100}, 0, 10},
		{0, shared.Ask{Charge: 3}, 0, 7},
		{0, shared.Ask{Charge: 12, Want: 1}, 0, 0}, // 5 in debt
		{4 * time.Second, shared.Ask{Want: 1}, 0, 0},
		{time.Second, shared.Ask{Want: 1}, 0, 0},
		{750 * time.Millisecond, shared.Ask{Want: 1}, 1, 0}, // 250 ms in advance
		{time.Hour, shared.Ask{Charge: 1000}, 0, 0},
		{10 * time.Second, shared.Ask{Want: 1}, 0, 0}, // the debt is a burst
		{1250 * time.Millisecond, shared.Ask{Want: 1}, 1, 0},
		{time.Hour, shared.Ask{Want: 100, Share: 2}, 5, 5},
		{0, shared.Ask{Want: 100, Share: 1, Need: 3}, 3, 2},
		{0, shared.Ask{Want: 100, Share: 1, Need: 30}, 2, 0},
	}
	for i, s := range steps {
		b.at(b.now + int64(s.after/time.Microsecond))
		g := b.ask(p, s.ask)
		if left := p.Free(p.Lacks(g)); g.Tokens != s.tokens || left != s.left {
			t.Errorf("step %d: granted %d and left %d, want %d and %d", i, g.Tokens, left, s.tokens, s.left)
		}
	}
}

// What would overflow before the taker is back is taken beyond its share.
func TestScriptLeavesNothingToOverflow(t *testing.T) {
	p := compile(t, limiter.Limit{Tokens: 1000, Period: time.Second, Burst: 1})
	b := newBucket(t)
	if g := b.ask(p, shared.Ask{Want: 1000, Share: 1, Lapse: 180 * time.Millisecond}); g.Tokens != 180 {
		t.Errorf("granted %d, want what refills in 180 ms", g.Tokens)
	}
	if g := b.ask(p, shared.Ask{Want: 10, Share: 1, Lapse: 180 * time.Millisecond}); g.Tokens != 10 {
		t.Errorf("granted %d of 10", g.Tokens)
	}
}

func TestScriptSurvivesItsClock(t *testing.T) {
	p := compile(t, limiter.Limit{Tokens: 1, Period: time.Second, Burst: 5})
	b := newBucket(t)
	b.ask(p, shared.Ask{Want: 100})
	b.now -= 3_600_000_000 // set back an hour
	b.server.SetTime(time.UnixMicro(b.now))
	if g := b.ask(p, shared.Ask{Want: 1}); g.Tokens != 0 {
		t.Error("a clock that is set back adds tokens")
	}
	b.at(b.now + 1_100_000)
	if g := b.ask(p, shared.Ask{Want: 2}); g.Tokens != 1 {
		t.Errorf("granted %d a second after the clock was set back", g.Tokens)
	}
}

func TestBucketExpiresWhenFull(t *testing.T) {
	p := compile(t, limiter.Limit{Tokens: 1, Period: time.Second, Burst: 5})
	b := newBucket(t)
	const key = "ratelimit:{k}"
	b.ask(p, shared.Ask{Want: 3})
	if ttl := b.server.TTL(key); ttl != 18*time.Second {
		t.Errorf("expires in %v, want 15 s after it is full", ttl)
	}
	b.ask(p, shared.Ask{Want: 5})
	word, _ := b.server.Get(key)
	b.ask(p, shared.Ask{Want: 5})
	if again, _ := b.server.Get(key); again != word || strings.Count(word, " ") != 4 {
		t.Errorf("a refusal writes: %q, %q", word, again)
	}
}
