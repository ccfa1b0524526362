package limiter

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// A Limit says how fast a bucket refills and how much it holds. The zero
// value is not a limit: everything that is asked for it is refused.
type Limit struct {
	Tokens int64         // refilled, evenly, every Period; at least 1
	Period time.Duration // more than 0; Tokens/Period is at most 1e9 a second
	Burst  int64         // capacity; a new bucket is full; at least 1
}

// Validate reports whether a bucket can keep the limit, and if not, why. Any
// rate from one token in 292 years to 1e9 tokens a second is kept with any
// burst up to math.MaxInt32, and larger bursts as long as one 64-bit word
// resolves them.
func (l Limit) Validate() error {
	_, err := compile(l)
	return err
}

// String writes the limit in the form that [Parse] reads.
func (l Limit) String() string {
	s := strconv.FormatInt(l.Tokens, 10) + "/" + period(l.Period)
	if l.Burst != l.Tokens {
		s += " burst " + strconv.FormatInt(l.Burst, 10)
	}
	return s
}

// units are the names of periods; the first of each length is the one that
// String writes.
var units = []struct {
	name   string
	length time.Duration
}{
	{"d", 24 * time.Hour}, {"day", 24 * time.Hour}, {"days", 24 * time.Hour},
	{"h", time.Hour}, {"hour", time.Hour}, {"hours", time.Hour}, {"hr", time.Hour},
	{"m", time.Minute}, {"min", time.Minute}, {"minute", time.Minute}, {"minutes", time.Minute},
	{"s", time.Second}, {"sec", time.Second}, {"second", time.Second}, {"seconds", time.Second},
	{"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond},
}

func period(p time.Duration) string {
	for _, u := range units {
		if p == u.length {
			return u.name
		}
		if p > 0 && p%u.length == 0 {
			return strconv.FormatInt(int64(p/u.length), 10) + u.name
		}
	}
	return p.String()
}

// Parse reads a limit:
//
//	rate ["/" period | "per" period] ["burst" tokens]
//
// The rate is a decimal number of tokens. The period is a unit (s, m, h, d,
// ms, us, ns or their English names), a number with a unit (100s, 10 min) or
// a Go duration (1m30s); without one it is a second. Without a burst the
// bucket holds the tokens of one period, and at least one:
//
//	"100/s", "6000/m burst 200", "1/100s", "0.5/s", "5 per day", "10"
//
// The error says what is wrong with which part.
func Parse(s string) (Limit, error) {
	l, err := parse(strings.ToLower(strings.TrimSpace(s)))
	if err != nil {
		return Limit{}, fmt.Errorf("limiter: limit %.40q: %w", s, err)
	}
	return l, nil
}

func parse(s string) (Limit, error) {
	if s == "" {
		return Limit{}, errors.New(`empty; want a rate such as "100/s burst 200"`)
	}
	s, burst, hasBurst := strings.Cut(s, "burst")
	number, per, hasPeriod := cutPeriod(s)
	l := Limit{Period: time.Second}
	var err error
	if hasPeriod {
		if l.Period, err = parsePeriod(per); err != nil {
			return Limit{}, err
		}
	}
	if l, err = perPeriod(number, l.Period); err != nil {
		return Limit{}, err
	}
	if hasBurst {
		burst = strings.TrimSpace(burst)
		if l.Burst, err = strconv.ParseInt(burst, 10, 64); err != nil {
			return Limit{}, fmt.Errorf("burst %.20q is not a whole number of tokens", burst)
		}
	}
	_, err = compile(l)
	return l, unprefix(err)
}

func cutPeriod(s string) (number, period string, found bool) {
	if number, period, found = strings.Cut(s, "/"); found {
		return number, period, true
	}
	return strings.Cut(s, "per")
}

func parsePeriod(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	count := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz ")
	name := strings.TrimSpace(s[len(count):])
	n := int64(1)
	if count != "" {
		var err error
		if n, err = strconv.ParseInt(count, 10, 64); err != nil {
			return goDuration(s)
		}
	}
	for _, u := range units {
		if u.name != name {
			continue
		}
		if n <= 0 || n > math.MaxInt64/int64(u.length) {
			return 0, fmt.Errorf("period %.20q must be above 0 and below 292 years", s)
		}
		return time.Duration(n) * u.length, nil
	}
	return goDuration(s)
}

func goDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("period %.20q is not a duration; want for example s, 10s, m, 1h30m, day", s)
	}
	if d <= 0 {
		return 0, fmt.Errorf("period %.20q must be above 0", s)
	}
	return d, nil
}

// perPeriod reads a decimal number of tokens for each period, exactly: 0.3/s
// is 3 tokens in 10 s.
func perPeriod(number string, period time.Duration) (Limit, error) {
	number = strings.TrimSpace(number)
	if len(number) > 40 || strings.Trim(number, "0123456789.+-e") != "" {
		return Limit{}, fmt.Errorf("rate %.20q is not a decimal number", number)
	}
	// big.Rat would write 1e999999999 out in full.
	if f, err := strconv.ParseFloat(number, 64); err != nil || f > 1e18 || (f != 0 && math.Abs(f) < 1e-12) {
		return Limit{}, fmt.Errorf("rate %.20q is not a number between 1e-12 and 1e18", number)
	}
	rate, ok := new(big.Rat).SetString(number)
	if !ok {
		return Limit{}, fmt.Errorf("rate %.20q is not a decimal number", number)
	}
	if rate.Sign() <= 0 {
		return Limit{}, fmt.Errorf("rate %.20q must be above 0", number)
	}
	whole := new(big.Int).Quo(rate.Num(), rate.Denom())
	rate = simplified(rate, period)
	length := new(big.Int).Mul(rate.Denom(), big.NewInt(int64(period)))
	if !rate.Num().IsInt64() || !length.IsInt64() {
		return Limit{}, fmt.Errorf("rate %.20q is slower than one token in 292 years", number)
	}
	return Limit{
		Tokens: rate.Num().Int64(),
		Period: time.Duration(length.Int64()),
		Burst:  max(1, whole.Int64()),
	}, nil
}

// simplified is the rate if its tokens and period fit, or else the simplest
// fraction within one part in 1e12 of it: 0.3333333333333333 is taken for 1/3.
func simplified(rate *big.Rat, period time.Duration) *big.Rat {
	if rate.Num().IsInt64() && new(big.Int).Mul(rate.Denom(), big.NewInt(int64(period))).IsInt64() {
		return rate
	}
	near := new(big.Rat).Mul(rate, big.NewRat(1, 1e12))
	// The convergents of its continued fraction.
	n0, d0, n1, d1 := big.NewInt(0), big.NewInt(1), big.NewInt(1), big.NewInt(0)
	for rest := new(big.Rat).Set(rate); ; rest.Inv(rest) {
		whole := new(big.Int).Quo(rest.Num(), rest.Denom())
		n0, n1 = n1, new(big.Int).Add(n0, new(big.Int).Mul(whole, n1))
		d0, d1 = d1, new(big.Int).Add(d0, new(big.Int).Mul(whole, d1))
		convergent := new(big.Rat).SetFrac(n1, d1)
		if off := new(big.Rat).Sub(convergent, rate); off.Abs(off).Cmp(near) <= 0 && n1.Sign() > 0 {
			return convergent
		}
		rest.Sub(rest, new(big.Rat).SetInt(whole))
	}
}

// ParsePeriod reads a period as [Parse] does: "m", "10 min", "1h30m", "day".
func ParsePeriod(s string) (time.Duration, error) {
	d, err := parsePeriod(strings.ToLower(s))
	if err != nil {
		return 0, fmt.Errorf("limiter: %w", err)
	}
	return d, nil
}
