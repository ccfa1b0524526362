package plugin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"tokenbucket.internal/limiter"
	"tokenbucket.internal/limiter/httplimit"
)

// limitStatus is one limit of a client, as status_path tells it.
type limitStatus struct {
	Policy     string  `json:"policy"`
	Endpoint   string  `json:"endpoint,omitempty"` // of which it is; none: of all
	Replaces   bool    `json:"replaces,omitempty"` // those without an endpoint do not count there
	Scope      string  `json:"scope"`
	Limit      string  `json:"limit"` // as in the metadata
	Tokens     int64   `json:"tokens"`
	Period     float64 `json:"period_seconds"`
	Burst      int64   `json:"burst"`
	Remaining  int64   `json:"remaining"`
	ResetAfter float64 `json:"reset_after_seconds"`
	Reset      int64   `json:"reset"` // unix time, seconds
}

// asksStatus reports a request for the client's own limits.
func (s *settings) asksStatus(t target) bool {
	return s.statusPath != "" && t.path == s.statusPath && (t.method == http.MethodGet || t.method == http.MethodHead)
}

// statusPolicy keeps clients from asking so often that it costs the gateway
// more than what is limited.
var statusPolicy = httplimit.NewPolicy("status", limiter.Limit{Tokens: 5, Period: time.Second, Burst: 20})

func (e *engine) limitStatus(w http.ResponseWriter, r *http.Request, s *settings, g *grant) {
	v := verdict{rule: &rule{policy: statusPolicy, bucket: statusIDs.with(g.who).key()}}
	if v.Decision = e.limits.own.Take(v.rule.bucket, statusPolicy.Limit(), 1); !v.Allowed {
		e.refuse(w, r, s, v)
	}
}

// answerStatus tells a client its enforced limits. It takes nothing.
func (e *engine) answerStatus(w http.ResponseWriter, r *http.Request, s *settings, p *plan) {
	type place struct {
		rule rule
		of   *endpoint
	}
	var tell []place
	var claims []limiter.Claim
	told := make(map[string]bool)
	add := func(at *endpoint, rules []rule) {
		for _, rule := range rules {
			if told[rule.bucket] || rule.total() { // what others use is not theirs to know
				continue
			}
			told[rule.bucket] = true
			claims = append(claims, limiter.Claim{Key: rule.bucket, Limit: rule.policy.Limit()})
			tell = append(tell, place{rule, at})
		}
	}
	add(nil, p.plain.enforced)
	for _, at := range p.places(s) {
		add(at.endpoint, at.charge.enforced)
	}
	e.limits.look(claims)
	out := struct {
		Limits []limitStatus `json:"limits"`
	}{[]limitStatus{}}
	now := time.Now()
	for _, p := range tell {
		out.Limits = append(out.Limits, e.statusOf(p.rule, p.of, now))
	}
	body, err := json.MarshalIndent(out, "", "    ")
	if err != nil {
		panic(err) // plain numbers and texts
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // the client may be gone
	}
}

func (e *engine) statusOf(rule rule, at *endpoint, now time.Time) limitStatus {
	l := rule.policy.Limit()
	d := e.limits.peek(&rule)
	endpoint, replaces := "", false
	if at != nil {
		endpoint, replaces = at.String(), at.replace
	}
	return limitStatus{
		Policy: rule.policy.Name(), Endpoint: endpoint, Replaces: replaces, Scope: string(rule.scope), Limit: l.String(),
		Tokens: l.Tokens, Period: l.Period.Seconds(), Burst: l.Burst,
		Remaining: d.Remaining, ResetAfter: d.ResetAfter.Seconds(), Reset: now.Add(roundUp(d)).Unix(),
	}
}

// roundUp is the time until the bucket is full, in whole seconds.
func roundUp(d limiter.Decision) time.Duration {
	return (d.ResetAfter + time.Second - 1).Truncate(time.Second)
}
