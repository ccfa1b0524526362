package httplimit

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tokenbucket.internal/limiter"
)

// A Policy is a limit with the name that clients are told. It is made once and
// used for many answers.
type Policy struct {
	limit         limiter.Limit
	name          string
	quoted, whole string // the name; the RateLimit-Policy field
	burst         string
}

// NewPolicy makes a policy. The name is printable ASCII; other characters
// become "?".
func NewPolicy(name string, l limiter.Limit) *Policy {
	quoted := quote(name)
	q, w := quota(l)
	return &Policy{
		limit:  l,
		name:   name,
		quoted: quoted,
		whole:  quoted + ";q=" + integer(q) + ";w=" + integer(w),
		burst:  integer(l.Burst),
	}
}

// Limit is the policy's limit.
func (p *Policy) Limit() limiter.Limit { return p.limit }

// Name is the policy's name, as it was given.
func (p *Policy) Name() string { return p.name }

// The fields, as http.Header spells them.
const (
	rateLimit       = "Ratelimit"
	rateLimitPolicy = "Ratelimit-Policy"
	xLimit          = "X-Ratelimit-Limit"
	xRemaining      = "X-Ratelimit-Remaining"
	xReset          = "X-Ratelimit-Reset"
	retryAfter      = "Retry-After"
)

// SetRateLimit sets the RateLimit-Policy and RateLimit fields of
// draft-ietf-httpapi-ratelimit-headers-11: what the policy allows in how many
// seconds, and how many tokens are left and in how many seconds all are.
func SetRateLimit(h http.Header, p *Policy, d limiter.Decision) {
	var b batch
	b.rateLimit(p, d)
	b.set(h)
}

// DelRateLimit deletes the fields that SetRateLimit sets.
func DelRateLimit(h http.Header) {
	delete(h, rateLimitPolicy)
	delete(h, rateLimit)
}

// SetXRateLimit sets the older X-RateLimit fields: the size of the bucket, the
// tokens left in it and the unix time, in seconds, when it is full.
func SetXRateLimit(h http.Header, p *Policy, d limiter.Decision, now time.Time) {
	var b batch
	b.xRateLimit(p, d, now)
	b.set(h)
}

// SetRetryAfter sets Retry-After to the whole seconds after which the request
// is allowed, at least 1, and up to jitter more, at random, so that refused
// clients do not all come back at once. If it can never be allowed, the field
// is not set.
func SetRetryAfter(h http.Header, d limiter.Decision, jitter time.Duration) {
	var b batch
	b.retryAfter(d, jitter)
	b.set(h)
}

// A batch collects fields and sets them all with two allocations: an answer
// has up to eight.
type batch struct {
	names  [8]string
	values [8]string // of those that are not in text
	ends   [8]int    // in text
	n      int
	text   [192]byte
}

// fixed adds a field whose value is there already.
func (b *batch) fixed(name, value string) {
	b.names[b.n], b.values[b.n], b.ends[b.n] = name, value, b.end()
	b.n++
}

// made adds a field whose value was appended to the text.
func (b *batch) made(name string, text []byte) {
	b.names[b.n], b.ends[b.n] = name, len(text)
	b.n++
}

func (b *batch) end() int {
	if b.n == 0 {
		return 0
	}
	return b.ends[b.n-1]
}

func (b *batch) set(h http.Header) {
	text, values, from := string(b.text[:b.end()]), make([]string, b.n), 0
	for i := range values {
		if values[i] = b.values[i]; values[i] == "" {
			values[i] = text[from:b.ends[i]]
		}
		from = b.ends[i]
		h[b.names[i]] = values[i : i+1 : i+1]
	}
}

func (b *batch) rateLimit(p *Policy, d limiter.Decision) {
	b.fixed(rateLimitPolicy, p.whole)
	if len(p.quoted) > 96 { // a long name goes its own way
		b.fixed(rateLimit, p.quoted+";r="+integer(d.Remaining)+";t="+integer(seconds(d.ResetAfter)))
		return
	}
	text := append(b.text[:b.end()], p.quoted...)
	text = appendInteger(append(text, ";r="...), d.Remaining)
	text = appendInteger(append(text, ";t="...), seconds(d.ResetAfter))
	b.made(rateLimit, text)
}

func (b *batch) xRateLimit(p *Policy, d limiter.Decision, now time.Time) {
	b.fixed(xLimit, p.burst)
	b.made(xRemaining, appendInteger(b.text[:b.end()], d.Remaining))
	b.made(xReset, appendInteger(b.text[:b.end()], now.Unix()+seconds(d.ResetAfter)))
}

func (b *batch) retryAfter(d limiter.Decision, jitter time.Duration) {
	if d.RetryAfter < 0 {
		return
	}
	wait := max(1, seconds(d.RetryAfter))
	if more := seconds(jitter); more > 0 {
		wait += rand.Int64N(more + 1)
	}
	b.made(retryAfter, appendInteger(b.text[:b.end()], wait))
}

// quota is the limit as a quota for a window of whole seconds, rounded down.
func quota(l limiter.Limit) (tokens, window int64) {
	window = max(1, seconds(l.Period))
	if whole := time.Duration(window) * time.Second; whole == l.Period || l.Period <= 0 {
		return l.Tokens, window
	}
	return int64(float64(l.Tokens) * float64(window) * float64(time.Second) / float64(l.Period)), window
}

// seconds rounds up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// integer writes an integer of a structured field, which has 15 digits.
func integer(n int64) string { return strconv.FormatInt(fit(n), 10) }

func appendInteger(b []byte, n int64) []byte { return strconv.AppendInt(b, fit(n), 10) }

func fit(n int64) int64 { return min(max(n, 0), 999_999_999_999_999) }

// quote writes a string of a structured field.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c > '~':
			b.WriteByte('?')
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
