// Package httplimit limits the rate of HTTP requests: a net/http middleware on
// the limiter package, the header fields that tell clients about their limit,
// and the answer to a request above it.
package httplimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tokenbucket.internal/limiter"
)

type options struct {
	name   string
	jitter time.Duration
}

// An Option changes what [Middleware] does.
type Option func(*options)

// WithName sets the policy's name in the header fields; "default" without it.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithJitter adds up to so much, at random, to Retry-After.
func WithJitter(d time.Duration) Option { return func(o *options) { o.jitter = d } }

// Middleware takes a token from the bucket of key(r) for each request, at the
// given limit. A request above it is answered by [Refuse]; the others get the
// fields of [SetRateLimit] and [SetXRateLimit] and go on. Requests for which
// key returns "" share one bucket. The error is that of [limiter.Limit.Validate].
func Middleware(l *limiter.Limiter, limit limiter.Limit, key func(*http.Request) string, opts ...Option) (func(http.Handler) http.Handler, error) {
	if l == nil || key == nil {
		return nil, errors.New("httplimit: Middleware needs a limiter and a key function")
	}
	if err := limit.Validate(); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	o := options{name: "default"}
	for _, opt := range opts {
		opt(&o)
	}
	p := NewPolicy(o.name, limit)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d := l.Take(key(r), limit, 1)
			if !d.Allowed {
				Refuse(w, r, p, d, o.jitter)
				return
			}
			SetRateLimit(w.Header(), p, d)
			SetXRateLimit(w.Header(), p, d, time.Now())
			next.ServeHTTP(w, r)
		})
	}, nil
}

const (
	refusedJSON = "{\n    \"error\": \"Rate limit exceeded\"\n}\n"
	refusedXML  = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<error>Rate limit exceeded</error>\n"
)

// Fields are kinds of header fields that tell clients about their limit.
type Fields uint8

// The kinds of fields.
const (
	RateLimit  Fields = 1 << iota // RateLimit-Policy and RateLimit
	XRateLimit                    // X-RateLimit-Limit, -Remaining and -Reset
)

// Refuse answers 429 with all header fields and a body: XML for a request
// that has an XML body, otherwise JSON.
func Refuse(w http.ResponseWriter, r *http.Request, p *Policy, d limiter.Decision, jitter time.Duration) {
	RefuseWith(w, r, p, d, jitter, RateLimit|XRateLimit)
}

// RefuseWith is Refuse with some kinds of fields, and always Retry-After.
func RefuseWith(w http.ResponseWriter, r *http.Request, p *Policy, d limiter.Decision, jitter time.Duration, f Fields) {
	var b batch
	if f&RateLimit != 0 {
		b.rateLimit(p, d)
	}
	if f&XRateLimit != 0 {
		b.xRateLimit(p, d, time.Now())
	}
	b.retryAfter(d, jitter)
	contentType, body := bodyFor(r, refusedJSON, refusedXML)
	b.fixed("Content-Type", contentType)
	b.fixed("Content-Length", strconv.Itoa(len(body)))
	b.set(w.Header())
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, body) // the client may be gone
}

// Answer writes a status with one of two bodies: the XML one for a request
// that has an XML body.
func Answer(w http.ResponseWriter, r *http.Request, status int, json, xml string) {
	contentType, body := bodyFor(r, json, xml)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", integer(int64(len(body))))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may be gone
}

func bodyFor(r *http.Request, json, xml string) (contentType, body string) {
	if isXML(r.Header.Get("Content-Type")) {
		return "application/xml", xml
	}
	return "application/json", json
}

func isXML(contentType string) bool {
	if contentType == "" {
		return false
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/xml", "text/xml", "application/soap+xml":
		return true
	}
	return false
}
