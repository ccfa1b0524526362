package cluster

import (
	"math/rand"
	"testing"
	"time"

	"tokenbucket.internal/cluster/shared"
	"tokenbucket.internal/limiter"
)

func plan(t *testing.T, l limiter.Limit) *shared.Plan {
	t.Helper()
	p, err := shared.Compile(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The n-th token of a part can be spent from part.at(n) on, and not before.
func TestPartIsSpentInItsTime(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 2000 {
		p := part{first: time.Duration(r.Int63n(1e9)), span: time.Duration(r.Int63n(3e8)), n: 1 + r.Int63n(1e6)}
		if p.n == 1 {
			p.span = 0
		}
		n := 1 + r.Int63n(p.n)
		at := p.at(n)
		if got := p.earned(at); got < n {
			t.Fatalf("%+v: %d earned when token %d is due", p, got, n)
		}
		if got := p.earned(at - 1); got >= n && at > p.first {
			t.Fatalf("%+v: %d earned before token %d is due", p, got, n)
		}
	}
}

// Whatever is granted and however often, no token of a lease can be spent
// before the shared bucket would have admitted it.
func TestLeaseIsNeverAheadOfTheBucket(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 50 {
		limit := limiter.Limit{Tokens: 1 + r.Int63n(5000), Period: time.Second, Burst: 1 + r.Int63n(50)}
		p := plan(t, limit)
		token := p.Lacks(shared.Grant{Tokens: 1})
		ls := &lease{plan: p}
		var due []time.Duration // of every token granted
		lacks, now := int64(0), time.Duration(0)
		for range 20 {
			step := time.Duration(r.Int63n(150)) * time.Millisecond
			now += step
			lacks = p.Refilled(lacks, step.Microseconds())
			lacks = max(0, lacks+(r.Int63n(9)-3)*token) // others take and give back
			most := (limit.Burst*token + int64(shared.Ahead/time.Microsecond)*token*limit.Tokens/1e6 - lacks) / token
			if most <= 0 {
				continue
			}
			g := shared.Grant{Tokens: 1 + r.Int63n(most), Lacked: lacks}
			for n := range g.Tokens {
				due = append(due, now+p.Earned(g, n+1))
			}
			next := &lease{plan: p}
			spent := r.Int63n(1 + max(0, ls.usable(now)))
			next.inherit(ls, spent, now)
			next.base += spent // counted below as if nothing was spent
			next.total += spent
			next.add(g, now, time.Duration(r.Intn(2))*period)
			if ls, lacks = next, p.Lacks(g); len(ls.parts) > maxParts || ls.total != int64(len(due)) {
				t.Fatalf("%v: %d parts, %d tokens of %d", limit, len(ls.parts), ls.total, len(due))
			}
			for at := now; at < now+600*time.Millisecond; at += 7 * time.Millisecond {
				earned := int64(0)
				for _, d := range due {
					if d <= at {
						earned++
					}
				}
				if got := ls.usable(at); got > earned {
					t.Fatalf("%v: %d can be spent, %d are earned", limit, got, earned)
				}
			}
			if got := ls.usable(now + time.Second); got != ls.total {
				t.Fatalf("%v: %d of %d can ever be spent", limit, got, ls.total)
			}
		}
	}
}

func TestRefusalTellsWhen(t *testing.T) {
	p := plan(t, limiter.Limit{Tokens: 10, Period: time.Second, Burst: 5})
	ls := &lease{plan: p, base: 2, total: 4, parts: []part{{first: 100 * time.Millisecond, span: 100 * time.Millisecond, n: 2}}, fullAt: 900 * time.Millisecond}
	for cost, want := range map[int64]time.Duration{3: 100 * time.Millisecond, 4: 200 * time.Millisecond, 5: 500 * time.Millisecond} {
		if d := (view{ls, 0, 2}).refusal(0, cost); d.RetryAfter != want || d.Remaining != 2 {
			t.Errorf("cost %d: %+v, want %v", cost, d, want)
		}
	}
}
