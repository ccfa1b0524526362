package plugin

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/limiter/httplimit"
)

// Schema is the JSON Schema of config_data.ratelimit and of the metadata.
//
//go:embed schema.json
var Schema string

// A Question is what Explain answers: of an API and, unless they are left out,
// of a key and a request.
type Question struct {
	Classic *apidef.APIDefinition
	OAS     *oas.OAS           // instead of Classic
	Session *user.SessionState // of the key, its policies merged

	MetadataFrom map[string]string // the policy that has set a field of the metadata
	RateFrom     string            // the policy that has set the session's rate and per
	AccessFrom   string            // the policy that has set the limit in access_rights

	Method, Path string // of a request, as it comes in
}

// A Report says what the plugin makes of an API, a key and a request.
type Report struct {
	API        string           `json:"api"`
	Definition string           `json:"definition"` // classic or oas
	ListenPath string           `json:"listen_path"`
	Keyless    bool             `json:"keyless"`
	Settings   SettingsReport   `json:"settings"`
	Of         string           `json:"of"`   // whose limits these are
	From       string           `json:"from"` // the source that was there and usable; "": none
	Unlimited  bool             `json:"unlimited"`
	Limits     []LimitReport    `json:"limits"` // with the API's totals
	Endpoints  []EndpointReport `json:"endpoints"`
	Anonymous  []LimitReport    `json:"anonymous"`
	Unknown    []LimitReport    `json:"unknown"`
	Costs      []CostReport     `json:"costs"`
	Request    *RequestReport   `json:"request,omitempty"`
	Notes      []string         `json:"notes"`
	Unusable   []Problem        `json:"unusable"`
}

// A SettingsReport has the settings that are no limits.
type SettingsReport struct {
	Mode         string   `json:"mode"`
	Scope        string   `json:"scope"`
	Refresh      string   `json:"refresh"`
	OnFault      string   `json:"on_fault"`
	Headers      string   `json:"headers"`
	ShadowHeader bool     `json:"shadow_header"`
	StatusPath   string   `json:"status_path"`
	Refund       []string `json:"refund"`
}

// A LimitReport is one limit for somebody.
type LimitReport struct {
	Limit  string  `json:"limit"`
	Policy string  `json:"policy"` // the name that clients see
	Tokens int64   `json:"tokens"`
	Period float64 `json:"period_seconds"`
	Burst  int64   `json:"burst"`
	Scope  string  `json:"scope"`
	Bucket string  `json:"bucket"` // who shares it
	Shadow bool    `json:"shadow"`
	From   string  `json:"from"`
}

// An EndpointReport has the limits that an endpoint has of its own.
type EndpointReport struct {
	Endpoint string        `json:"endpoint"`
	Replace  bool          `json:"replace"` // the key's limits do not count here
	Limits   []LimitReport `json:"limits"`
}

// A CostReport says what requests of a pattern cost.
type CostReport struct {
	Endpoint       string `json:"endpoint"`
	Cost           int64  `json:"cost"` // unless a field says otherwise
	Header         string `json:"header,omitempty"`
	ResponseHeader string `json:"response_header,omitempty"`
	Min            int64  `json:"min,omitempty"`
	Max            int64  `json:"max,omitempty"`
}

// A RequestReport says what a request is charged to.
type RequestReport struct {
	Method   string        `json:"method"`
	Path     string        `json:"path"`               // below the listen path
	Endpoint string        `json:"endpoint,omitempty"` // whose limits apply
	Status   bool          `json:"status"`             // answered by the plugin itself
	Tokens   int64         `json:"tokens"`             // from each bucket
	Cost     *CostReport   `json:"cost,omitempty"`     // that says so; none: one token
	Limits   []LimitReport `json:"limits"`
}

// A Problem is a value that was unusable.
type Problem struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"` // the policy that it is from
	Why  string `json:"why"`
}

// read reads the definition, and says of which kind it is.
func (q *Question) read() (d definition, kind string, err error) {
	switch {
	case q.OAS != nil:
		d, err = fromOAS(q.OAS)
		return d, "oas", err
	case q.Classic != nil:
		return fromClassic(q.Classic), "classic", nil
	}
	return d, "", errors.New("no API definition")
}

// API is the id and the organisation of the API.
func (q *Question) API() (id, org string, err error) {
	d, _, err := q.read()
	return d.api, d.org, err
}

// Explain answers with the code that limits requests. The error says that there
// is no answer; what is unusable is in the report.
func Explain(q Question) (*Report, error) {
	d, kind, err := q.read()
	if err != nil {
		return nil, err
	}
	x := &explanation{q: q, session: q.Session, out: &Report{
		API: d.api, Definition: kind, ListenPath: d.listenPath, Keyless: d.keyless,
		Endpoints: []EndpointReport{}, Costs: []CostReport{}, Notes: []string{}, Unusable: []Problem{},
		Anonymous: []LimitReport{}, Unknown: []LimitReport{},
	}}
	x.s = newSettings(d, x.unusableSetting)
	x.settings()
	x.limits()
	x.others()
	x.notes()
	return x.out, x.request()
}

// An explanation is a report in the making.
type explanation struct {
	q       Question
	s       *settings
	session *user.SessionState // nil on a keyless API
	source  entry
	plan    *plan
	plain   map[string]LimitReport // of the plan, by bucket
	out     *Report
}

func (x *explanation) unusableSetting(path string, err error) {
	if strings.HasPrefix(path, "ratelimit") {
		path = "config_data." + path
	}
	x.problem(Problem{Path: path, Why: err.Error()})
}

func (x *explanation) unusableMetadata(path string, err error) {
	name := field(path)
	if strings.HasPrefix(name, "ratelimit") {
		path = "meta_data." + path
	}
	x.problem(Problem{Path: path, From: x.q.MetadataFrom[name], Why: err.Error()})
}

// problem leaves out what was told already: a value counts for several limits.
func (x *explanation) problem(p Problem) {
	p.Why = strings.TrimPrefix(p.Why, "limiter: ")
	if !slices.Contains(x.out.Unusable, p) {
		x.out.Unusable = append(x.out.Unusable, p)
	}
}

// field is the name in a path such as ratelimit[0].burst.
func field(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

func (x *explanation) settings() {
	s, out := x.s, &x.out.Settings
	*out = SettingsReport{
		Mode: "enforce", Scope: or(string(s.scope), string(scopeKey)), Refresh: s.refresh.String(), OnFault: "open",
		ShadowHeader: s.shadowField, StatusPath: s.statusPath, Refund: s.refunds.names(),
	}
	if s.shadow {
		out.Mode = "shadow"
	}
	if s.closedOnFault {
		out.OnFault = "closed"
	}
	out.Headers = map[httplimit.Fields]string{
		0: "none", httplimit.RateLimit: "ietf", httplimit.XRateLimit: "legacy", httplimit.RateLimit | httplimit.XRateLimit: "both",
	}[s.fields]
	for i := range s.costs {
		x.out.Costs = append(x.out.Costs, s.costs[i].report())
	}
}

// names are the statuses as an operator writes them.
func (s *statuses) names() []string {
	out := []string{}
	for class := 1; class <= 5; class++ {
		if s.classes>>class&1 == 1 {
			out = append(out, strconv.Itoa(class)+"xx")
		}
	}
	for code := range s.codes {
		out = append(out, strconv.Itoa(code))
	}
	slices.Sort(out)
	return out
}

func (c *cost) report() CostReport {
	out := CostReport{Endpoint: c.String(), Cost: c.fixed, Header: c.request, ResponseHeader: c.response}
	if c.max >= 0 {
		out.Min, out.Max = c.min, c.max
	}
	return out
}

// author makes the rules of the session or, without one, of an address.
func (x *explanation) author(tell told) *author {
	return &author{s: x.s, session: x.session, who: sessionIDs, unusable: tell}
}

func silent(string, error) {}

// limits reports the plan of the key, of keys that have no limit of their own,
// or of addresses.
func (x *explanation) limits() {
	if x.s.keyless {
		x.session, x.out.Of = nil, "client addresses"
		x.source = x.s.forAddresses
		x.plan = x.s.addressPlan(addressIDs, x.s.forAddresses)
	} else {
		x.out.Of = "the key"
		if x.session == nil {
			x.session, x.out.Of = &user.SessionState{OrgID: x.s.org}, "keys without a limit of their own"
		}
		x.source = x.author(silent).keyLimits()
		x.plan = x.author(x.unusableMetadata).plan()
	}
	if x.out.Unlimited = x.source.unlimited; x.out.Unlimited || len(x.source.specs) > 0 {
		x.out.From = x.from(x.source.origin)
	}
	x.plain = make(map[string]LimitReport)
	x.out.Limits = x.all(x.plan.plain, x.source)
	for i, limit := range x.out.Limits {
		x.plain[both(x.plan.plain)[i].bucket] = limit
	}
	reached := make(map[string]bool)
	for _, at := range x.plan.places(x.s) {
		x.out.Endpoints = append(x.out.Endpoints, x.endpoint(at))
		if same := at.method + at.path.String(); !reached[same] {
			reached[same] = true
		} else {
			x.note("endpoint %s is there more than once: the first counts", at)
		}
	}
}

func both(c *charge) []rule { return append(slices.Clip(c.enforced), c.shadow...) }

// all reports the limits of a charge; those of an entry are in the plan for all
// requests, too.
func (x *explanation) all(c *charge, of entry) []LimitReport {
	out := []LimitReport{}
	for _, r := range both(c) {
		limit, known := x.plain[r.bucket]
		if !known {
			limit = x.limit(r, of)
		}
		out = append(out, limit)
	}
	return out
}

var ofEndpoint = entry{perAPI: true}

// endpoint tells what is an endpoint's own from what counts everywhere.
func (x *explanation) endpoint(at place) EndpointReport {
	out := EndpointReport{Endpoint: at.String(), Limits: []LimitReport{}}
	out.Replace = at.replace && len(x.plan.key) > 0
	for _, r := range both(at.charge) {
		if _, everywhere := x.plain[r.bucket]; !everywhere {
			out.Limits = append(out.Limits, x.limit(r, ofEndpoint))
		}
	}
	return out
}

// others reports what is taken without a session.
func (x *explanation) others() {
	if x.s.keyless {
		return
	}
	addresses := x.s.address(addressIDs)
	x.out.Anonymous = x.all(x.s.charge(addresses.rules(x.s.anonymous)), ofEndpoint)
	x.out.Unknown = x.all(charged(addresses.rules(x.s.unknown)), ofEndpoint)
}

func (x *explanation) limit(r rule, of entry) LimitReport {
	l := r.policy.Limit()
	return LimitReport{
		Limit: l.String(), Policy: r.policy.Name(), Tokens: l.Tokens, Period: l.Period.Seconds(), Burst: l.Burst,
		Scope: string(r.scope), Bucket: x.bucket(r, of), Shadow: r.shadow, From: x.from(r.origin),
	}
}

// bucket says who shares the bucket of a rule.
func (x *explanation) bucket(r rule, of entry) string {
	switch r.scope {
	case scopeAddress:
		return "each client address on this API"
	case scopeAPITotal:
		return "all requests to this API"
	case scopeOrgTotal:
		return "all requests to the organisation"
	}
	switch who := x.who(r); {
	case of.perAPI || r.scope == scopeKeyAPI:
		return who + " on this API"
	case of.scope != id{}:
		return who + " in its allowance_scope"
	default:
		return who + " on all APIs"
	}
}

func (x *explanation) who(r rule) string {
	_, shared := r.scope.shared(x.session)
	ofKey := r.scope == scopeKey || r.scope == scopeKeyAPI
	switch a := x.author(silent); {
	case x.q.Session == nil && ofKey:
		return "each key"
	case x.q.Session == nil:
		return "each " + string(r.scope)
	case ofKey && a.group().shared:
		return "its ratelimit_group"
	case ofKey:
		return "the key"
	case shared:
		return "its " + string(r.scope)
	}
	return "the key, which has no " + string(r.scope) + ","
}

// from names the policy that an origin's value is from.
func (x *explanation) from(origin string) string {
	by, what := "", origin
	switch name, metadata := strings.CutPrefix(origin, "metadata "); {
	case metadata:
		by = x.q.MetadataFrom[field(name)]
	case origin == "access_rights":
		by = x.q.AccessFrom
	case strings.HasPrefix(origin, "rate and per"):
		by, what = x.q.RateFrom, "rate and per"
	default:
		return origin
	}
	if by == "" {
		return what + " of the key"
	}
	return what + " of policy " + by
}

func (x *explanation) note(format string, args ...any) {
	x.out.Notes = append(x.out.Notes, fmt.Sprintf(format, args...))
}

// notes says what the limits do not tell.
func (x *explanation) notes() {
	if !x.s.keyless && len(x.s.sources) == 0 {
		x.note("the API's credentials cannot be known again: requests are limited after authentication")
	}
	if x.s.needsResponse {
		x.note("refund and response_header need the response hook, RateLimitResponse")
	}
	switch s := x.q.Session; {
	case s == nil:
	case x.s.keyless:
		x.note("the API is keyless: keys do not count")
	default:
		if refusedNext(s, x.s.api) {
			x.note("the gateway refuses the key on this API: it is inactive, has expired or has no access")
		} else if len(s.AccessRights) == 0 {
			x.note("the key has no access_rights: only a gateway with allow_master_keys accepts it")
		}
		if s.MetaData["ratelimit"] != nil && x.source.origin == "metadata ratelimit_override" {
			x.note("metadata ratelimit is not looked at: ratelimit_override applies")
		}
	}
}

func (x *explanation) request() error {
	if x.q.Path == "" {
		return nil
	}
	u, err := url.ParseRequestURI(x.q.Path)
	if err != nil {
		return errors.New("the request's path is not one") // it may hold a key
	}
	r := &http.Request{Method: x.q.Method, URL: u, Header: make(http.Header)}
	t := target{r.Method, x.s.listen.below(r)}
	out := &RequestReport{Method: t.method, Path: t.path, Limits: []LimitReport{}}
	x.out.Request = out
	if out.Status = x.s.asksStatus(t); out.Status {
		return nil
	}
	charge := x.plan.of(x.s, t)
	if e, _ := x.plan.find(x.s, t); e != nil {
		out.Endpoint = e.String()
	}
	c := x.s.costOf(t)
	if out.Tokens = c.tokens(r); c != nil {
		cost := c.report()
		out.Cost = &cost
	}
	out.Limits = x.all(charge, ofEndpoint)
	return nil
}
