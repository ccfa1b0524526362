package shared

import (
	"math/big"
	"math/rand"
	"testing"
	"time"

	"tokenbucket.internal/limiter"
)

// No number of the script leaves the whole numbers that a double counts, and
// the interval is never shorter than the limit's, nor longer by more than one
// part in 1e5.
func TestPlansFitTheScript(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 20_000 {
		l := limiter.Limit{Tokens: 1 + r.Int63n(1<<uint(r.Intn(31))), Period: time.Duration(1 + r.Int63n(1<<uint(1+r.Intn(62)))), Burst: 1 + r.Int63n(1<<uint(r.Intn(32)))}
		p, err := Compile(l)
		if err != nil {
			if l.Validate() == nil {
				t.Fatalf("%v: %v", l, err)
			}
			continue
		}
		units := new(big.Rat).SetInt64(p.scale) // in a microsecond
		lent := new(big.Int).SetInt64(p.scale * int64(Ahead/time.Microsecond))
		if p.scale < 0 {
			units.SetFrac64(1, -p.scale)
			lent.SetInt64(int64(Ahead/time.Microsecond) / -p.scale)
		}
		most := new(big.Int).Mul(big.NewInt(2*l.Burst), big.NewInt(p.interval))
		if most.Add(most, lent).Cmp(big.NewInt(whole)) > 0 {
			t.Fatalf("%v: %s units do not fit", l, most)
		}
		exact := new(big.Rat).Mul(big.NewRat(int64(l.Period), l.Tokens), big.NewRat(1, 1000))
		ratio := new(big.Rat).SetInt64(p.interval)
		ratio.Quo(ratio, units).Quo(ratio, exact)
		if f, _ := ratio.Float64(); ratio.Cmp(big.NewRat(1, 1)) < 0 || f > 1+1e-5 {
			t.Fatalf("%v: the interval is %v times too long", l, f)
		}
	}
}

func TestLimitsThatCannotBeShared(t *testing.T) {
	for _, l := range []limiter.Limit{{}, {Tokens: -1, Period: 1, Burst: 1}, {Tokens: 1, Period: time.Second, Burst: 1 << 40}} {
		if p, err := Compile(l); err == nil {
			t.Errorf("%v: %+v", l, p)
		}
	}
}

func TestReadRefusesStrangeAnswers(t *testing.T) {
	for _, answer := range []any{nil, "OK", []any{}, []any{int64(1), int64(2)}, []any{int64(-1), int64(0), int64(0)}} {
		if g, err := Read(answer, nil); err == nil {
			t.Errorf("%v: %+v", answer, g)
		}
	}
	if g, err := Read([]any{int64(1), int64(2), int64(3)}, nil); err != nil || g != (Grant{1, 2, 3}) {
		t.Errorf("%+v %v", g, err)
	}
}
