package httplimit

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tokenbucket.internal/limiter"
)

// A Policy is a limit with the name that clients are told.
type Policy struct {
	Name  string // printable ASCII; other characters become "?"
	Limit limiter.Limit
}

// SetRateLimit sets the RateLimit-Policy and RateLimit fields of
// draft-ietf-httpapi-ratelimit-headers-11: what the policy allows in how many
// seconds, and how many tokens are left and in how many seconds all are.
func SetRateLimit(h http.Header, p Policy, d limiter.Decision) {
	name := quote(p.Name)
	q, w := quota(p.Limit)
	h.Set("RateLimit-Policy", name+";q="+integer(q)+";w="+integer(w))
	h.Set("RateLimit", name+";r="+integer(d.Remaining)+";t="+integer(seconds(d.ResetAfter)))
}

// SetXRateLimit sets the older X-RateLimit fields: the size of the bucket, the
// tokens left in it and the unix time, in seconds, when it is full.
func SetXRateLimit(h http.Header, p Policy, d limiter.Decision, now time.Time) {
	h.Set("X-RateLimit-Limit", integer(p.Limit.Burst))
	h.Set("X-RateLimit-Remaining", integer(d.Remaining))
	h.Set("X-RateLimit-Reset", integer(now.Unix()+seconds(d.ResetAfter)))
}

// SetRetryAfter sets Retry-After to the whole seconds after which the request
// is allowed, at least 1, and up to jitter more, at random, so that refused
// clients do not all come back at once. If it can never be allowed, the field
// is not set.
func SetRetryAfter(h http.Header, d limiter.Decision, jitter time.Duration) {
	if d.RetryAfter < 0 {
		return
	}
	wait := max(1, seconds(d.RetryAfter))
	if more := seconds(jitter); more > 0 {
		wait += rand.Int64N(more + 1)
	}
	h.Set("Retry-After", integer(wait))
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
func integer(n int64) string {
	return strconv.FormatInt(min(max(n, 0), 999_999_999_999_999), 10)
}

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
