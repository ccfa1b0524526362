package cluster_test

import (
	"context"
	"math/big"
	"math/rand"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tokenbucket.internal/cluster/shared"
	"tokenbucket.internal/limiter"
)

// bucket is one bucket in a miniredis whose clock the test moves.
type bucket struct {
	t      *testing.T
	server *miniredis.Miniredis
	client *redis.Client
	now    int64 // microseconds
}

func newBucket(t *testing.T) *bucket {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	b := &bucket{t: t, server: server, client: client}
	b.reset()
	return b
}

func (b *bucket) reset() {
	b.server.FlushAll()
	b.now = 0
	b.at(1_750_000_000_123_456)
}

func (b *bucket) at(micros int64) {
	if d := micros - b.now; d > 0 && b.now > 0 {
		b.server.FastForward(time.Duration(d) * time.Microsecond) // expires keys
	}
	b.now = micros
	b.server.SetTime(time.UnixMicro(micros))
}

func (b *bucket) ask(p *shared.Plan, a shared.Ask) shared.Grant {
	b.t.Helper()
	if a.Share == 0 {
		a.Share = 4
	}
	g, err := shared.Read(b.client.Eval(context.Background(), shared.Script, []string{"ratelimit:{k}"}, p.Args(a)...).Result())
	if err != nil {
		b.t.Fatal(err)
	}
	if g.At != b.now {
		b.t.Fatalf("the script's clock is %d, not %d", g.At, b.now)
	}
	return g
}

func compile(t *testing.T, l limiter.Limit) *shared.Plan {
	t.Helper()
	p, err := shared.Compile(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// model is the bucket in rational numbers: tokens held at a time in
// microseconds, below 0 what was taken in advance or is owed.
type model struct {
	limit limiter.Limit
	held  *big.Rat
	at    int64
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// rate is tokens in a microsecond.
func (m *model) rate() *big.Rat {
	r := big.NewRat(m.limit.Tokens, int64(m.limit.Period))
	return r.Mul(r, rat(1000))
}

func (m *model) advance(now int64) {
	m.add(new(big.Rat).Mul(m.rate(), rat(max(0, now-m.at))))
	m.at = now
}

func (m *model) add(tokens *big.Rat) {
	m.held.Add(m.held, tokens)
	if full := rat(m.limit.Burst); m.held.Cmp(full) > 0 {
		m.held.Set(full)
	}
}

// free is the tokens that can be granted, those in advance included.
func (m *model) free() *big.Rat {
	ahead := new(big.Rat).Mul(m.rate(), rat(int64(shared.Ahead/time.Microsecond)))
	return ahead.Add(ahead, m.held)
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func randomLimit(r *rand.Rand) limiter.Limit {
	for {
		l := limiter.Limit{Tokens: 1 + r.Int63n(1<<uint(r.Intn(31))), Burst: 1 + r.Int63n(1<<uint(r.Intn(32)))}
		l.Period = []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour, 97 * time.Second, 1}[r.Intn(8)]
		if l.Validate() == nil {
			return l
		}
	}
}

// The script never grants what the exact bucket does not hold, and grants all
// of it but for rounding: nothing where the interval is a whole number of
// units, one part in 1e5 of what has refilled otherwise.
func TestScriptIsExact(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	b := newBucket(t)
	for range 300 {
		limit := randomLimit(r)
		p := compile(t, limit)
		b.reset()
		m := &model{limit: limit, held: rat(limit.Burst), at: b.now}
		passed, started := rat(0), b.now
		for range 12 {
			b.at(b.now + step(r, p))
			m.advance(b.now)
			passed.Mul(m.rate(), rat(b.now-started))
			free := m.free()
			back := int64(0)
			if r.Intn(4) == 0 {
				back = r.Int63n(1 + limit.Burst/8)
				m.add(rat(back))
				free = m.free()
			}
			g := b.ask(p, shared.Ask{Want: 1 << 50, Back: back})
			if rat(g.Tokens).Cmp(free) > 0 {
				t.Fatalf("%v: granted %d of %s", limit, g.Tokens, free.FloatString(6))
			}
			loss := new(big.Rat).Add(passed, rat(limit.Burst))
			loss.Mul(loss, big.NewRat(1, 100_000))
			if floor(free)-g.Tokens > 1+floor(loss) {
				t.Fatalf("%v: granted %d of %s; rounding explains %s", limit, g.Tokens, free.FloatString(6), loss.FloatString(6))
			}
			m.held.Sub(m.held, rat(g.Tokens))
		}
	}
}

// step is a time in which a few tokens refill, or many, or less than one.
func step(r *rand.Rand, p *shared.Plan) int64 {
	d := int64(p.Span(1+r.Int63n(1+p.Limit.Burst)) / time.Microsecond)
	return min(r.Int63n(1+d), 10*365*24*3600*1_000_000)
}

func TestScriptIsExactToTheMicrosecond(t *testing.T) {
	for _, limit := range []limiter.Limit{
		{Tokens: 3, Period: time.Second, Burst: 3},
		{Tokens: 1000, Period: time.Second, Burst: 1},
		{Tokens: 7, Period: 97 * time.Second, Burst: 2},
		{Tokens: 1, Period: time.Minute, Burst: 1},
		{Tokens: 100, Period: time.Hour, Burst: 1_000_000},
	} {
		p := compile(t, limit)
		b := newBucket(t)
		start := b.now
		if g := b.ask(p, shared.Ask{Want: limit.Burst}); g.Tokens != limit.Burst {
			t.Errorf("%v: a full bucket gives %d", limit, g.Tokens)
		}
		ahead := b.ask(p, shared.Ask{Want: 1 << 40}).Tokens
		for n := ahead + 1; n < ahead+50; n++ {
			// The n-th token past the burst, Ahead before it is earned.
			exact := new(big.Rat).Mul(rat(n), big.NewRat(int64(limit.Period), 1000*limit.Tokens))
			due := start - floor(new(big.Rat).Neg(exact)) - int64(shared.Ahead/time.Microsecond)
			b.at(due - 1)
			if g := b.ask(p, shared.Ask{Want: 1}); g.Tokens != 0 {
				t.Fatalf("%v: token %d a microsecond early", limit, n)
			}
			b.at(due)
			g := b.ask(p, shared.Ask{Want: 1})
			if g.Tokens != 1 {
				t.Fatalf("%v: token %d is late", limit, n)
			}
			if early := p.Earned(g, 1) - shared.Ahead; early > 0 || early < -time.Microsecond {
				t.Fatalf("%v: token %d is earned %v after its due time", limit, n, early)
			}
		}
	}
}

func TestScriptOffersWhatItSays(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	b := newBucket(t)
	for range 200 {
		p := compile(t, randomLimit(r))
		b.reset()
		g := b.ask(p, shared.Ask{Want: 1 << 50})
		wait := p.Offered(p.Lacks(g)) / time.Microsecond
		if wait > 100*365*24*3600*1e6 {
			continue
		}
		b.at(b.now + int64(wait) + 1)
		if g := b.ask(p, shared.Ask{Want: 1}); g.Tokens != 1 {
			t.Fatalf("%v: nothing after %v", p.Limit, wait)
		}
	}
}
