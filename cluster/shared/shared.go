// Package shared is the bucket that several gateways have in common: one GCRA
// word in Redis, the script that takes from it, and the arithmetic around it.
// It keeps no state and does no I/O; package cluster does both.
//
// The algorithm is that of package limiter (ITU-T I.371, annex A, virtual
// scheduling), with one addition: a taker may be given up to [Ahead] of the
// refill in advance. Each token of the bucket has a time at which the plain
// bucket would have admitted it, and a taker does not spend a token before
// that time. So whoever takes how much in advance, at any time no more than
// burst + rate*time has been spent.
//
// A script's numbers are doubles, exact up to 2^53, which microseconds since
// 1970 nearly fill. So the word is split in two: the time of the last change
// in whole microseconds, and what the bucket lacked then in units of a
// fraction of a microsecond that is chosen for each limit. Where the limit's
// interval is no whole number of any unit that fits, it is rounded up, by no
// more than one part in 100 000: the bucket can only refill too slowly.
package shared

import (
	_ "embed"
	"fmt"
	"math/big"
	"math/bits"
	"time"

	"tokenbucket.internal/limiter"
)

// Script takes from a bucket. Its key is the bucket's, its arguments are those
// of [Plan.Args], and [Read] understands its answer. It needs Redis 5 or
// later, where scripts replicate by their effects.
//
//go:embed bucket.lua
var Script string

// Ahead is how much of the refill can be taken in advance.
const Ahead = 250 * time.Millisecond

const (
	whole      = 1<<53 - 1 // the largest number that the script counts up to
	resolution = 100_000   // least units in an interval that is rounded up
)

// A Plan is a limit in the units of the script. It never changes.
type Plan struct {
	Limit    limiter.Limit
	scale    int64 // units in a microsecond; below 0: microseconds in a unit
	interval int64 // units for a token
}

// Compile chooses the units. The error says why a limit cannot be shared:
// because it is none, or for a burst of more than 2.2e10 tokens.
func Compile(l limiter.Limit) (*Plan, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	// A full debt, all that can be in advance, and the rounding of both.
	ahead, _ := mulDivUp(int64(Ahead), l.Tokens, int64(l.Period))
	if l.Burst > whole/4/resolution {
		return nil, fmt.Errorf("cluster: burst %d is more than a bucket in Redis can count; at most %d", l.Burst, int64(whole/4/resolution))
	}
	most := whole / (2*l.Burst + ahead + 2) // units for a token
	p := &Plan{Limit: l}
	// A token takes exact/per units of 1/per microseconds.
	exact, per := big.NewInt(int64(l.Period)), new(big.Int).Mul(big.NewInt(1000), big.NewInt(l.Tokens))
	common := new(big.Int).GCD(nil, nil, exact, per)
	exact.Quo(exact, common)
	per.Quo(per, common)
	if exact.Cmp(big.NewInt(most)) <= 0 && per.Cmp(big.NewInt(whole/int64(Ahead/time.Microsecond))) <= 0 {
		p.scale, p.interval = per.Int64(), exact.Int64()
		return p, nil
	}
	scale := new(big.Int).Mul(big.NewInt(most), per)
	if scale.Quo(scale, exact); scale.Sign() > 0 {
		p.scale = min(scale.Int64(), whole/int64(Ahead/time.Microsecond))
		p.interval = ceilDiv(new(big.Int).Mul(exact, big.NewInt(p.scale)), per)
		return p, nil
	}
	// The clock is rounded down to whole units, so the interval is made one
	// unit longer than its rounding up; see package limiter.
	grain := ceilDiv(exact, new(big.Int).Mul(per, big.NewInt(most-2)))
	units := new(big.Int).Quo(exact, new(big.Int).Mul(per, big.NewInt(grain)))
	p.scale, p.interval = -grain, units.Int64()+2
	return p, nil
}

func ceilDiv(a, b *big.Int) int64 {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// An Ask is what a taker wants of a bucket. Back and Charge come first.
type Ask struct {
	Want   int64         // tokens, at least 0
	Need   int64         // of these, tokens that requests wait for right now
	Share  int           // quarters of what there is that may be taken, 1 to 4
	Lapse  time.Duration // until this taker is back: what would be lost until then is taken beyond the share
	Back   int64         // tokens returned
	Charge int64         // tokens taken whether there or not, down to one burst of debt
}

// Args are the script's arguments.
func (p *Plan) Args(a Ask) []any {
	return []any{
		p.scale, p.interval, p.Limit.Burst, int64(Ahead / time.Microsecond), int64(a.Lapse / time.Microsecond),
		min(a.Want, whole), min(a.Need, whole), a.Share, min(a.Back, whole), min(a.Charge, whole),
	}
}

// A Grant is the script's answer.
type Grant struct {
	Tokens int64 // granted
	Lacked int64 // units that the bucket lacked before these were taken
	At     int64 // Redis's clock, in microseconds since 1970
}

// Read understands the script's answer.
func Read(answer any, err error) (Grant, error) {
	if err != nil {
		return Grant{}, err
	}
	var n [3]int64
	values, _ := answer.([]any)
	for i, v := range values {
		if i < len(n) {
			n[i], _ = v.(int64)
		}
	}
	if len(values) != len(n) || n[0] < 0 || n[1] < 0 {
		return Grant{}, fmt.Errorf("cluster: Redis answers the script with %.60q", fmt.Sprint(answer))
	}
	return Grant{n[0], n[1], n[2]}, nil
}

// Lacks is what the bucket lacked, in units, after the grant.
func (p *Plan) Lacks(g Grant) int64 { return g.Lacked + g.Tokens*p.interval }

// Refilled is what a bucket lacks that lacked so many units a span of Redis's
// clock ago.
func (p *Plan) Refilled(lacked, micros int64) int64 {
	if p.scale < 0 {
		return max(0, lacked-micros/-p.scale)
	}
	if micros > lacked/p.scale {
		return 0
	}
	return max(0, lacked-micros*p.scale)
}

// Free is how many tokens a bucket that lacks so many units holds, those in
// advance not counted.
func (p *Plan) Free(lacked int64) int64 {
	return max(0, p.Limit.Burst*p.interval-lacked) / p.interval
}

// Earned is the time after the grant at which the bucket would have admitted
// its n-th token, rounded up: 0 for those that it held.
func (p *Plan) Earned(g Grant, n int64) time.Duration {
	return p.Time(g.Lacked + (n-p.Limit.Burst)*p.interval)
}

// Offered is the time until a bucket that lacks so many units grants a token,
// in advance or not.
func (p *Plan) Offered(lacked int64) time.Duration {
	ahead := int64(Ahead / time.Microsecond)
	if p.scale < 0 {
		ahead /= -p.scale
	} else {
		ahead *= p.scale
	}
	return p.Time(lacked + (1-p.Limit.Burst)*p.interval - ahead)
}

// Time is how long units take to refill, rounded up; 0 if they are 0 or less.
func (p *Plan) Time(units int64) time.Duration {
	if units <= 0 {
		return 0
	}
	if p.scale < 0 {
		hi, lo := bits.Mul64(uint64(units), uint64(-p.scale)*1000)
		if hi > 0 || lo > 1<<63-1 {
			return 1<<63 - 1
		}
		return time.Duration(lo)
	}
	d, _ := mulDivUp(units, 1000, p.scale)
	return time.Duration(d)
}

// Span is how long n tokens take to refill, rounded up, at most 292 years; 0
// for 0 or less.
func (p *Plan) Span(n int64) time.Duration {
	if n <= 0 {
		return 0
	}
	d, ok := mulDivUp(n, int64(p.Limit.Period), p.Limit.Tokens)
	if !ok {
		return 1<<63 - 1
	}
	return time.Duration(d)
}

// Tokens is how many refill in a span, rounded up; 0 for 0 or less.
func (p *Plan) Tokens(span time.Duration) int64 {
	if span <= 0 {
		return 0
	}
	n, ok := mulDivUp(int64(span), p.Limit.Tokens, int64(p.Limit.Period))
	if !ok {
		return 1<<63 - 1
	}
	return n
}

// mulDivUp is a*b/c, rounded up; false if it overflows.
func mulDivUp(a, b, c int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	if hi += carry; hi >= uint64(c) {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q), q < 1<<63
}
