package plugin

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/user"
)

// text is the limits of a report, one a line.
func (r *Report) text() string {
	var b strings.Builder
	list := func(of string, limits []LimitReport) {
		for _, l := range limits {
			b.WriteString(of + ": " + strings.Join([]string{l.Limit, l.Policy, l.Scope, l.Bucket, l.From}, " | "))
			if l.Shadow {
				b.WriteString(" | shadow")
			}
			b.WriteString("\n")
		}
	}
	list("all", r.Limits)
	for _, e := range r.Endpoints {
		if e.Replace {
			e.Endpoint += " instead"
		}
		list(e.Endpoint, e.Limits)
	}
	list("anonymous", r.Anonymous)
	list("unknown", r.Unknown)
	return b.String()
}

func explain(t *testing.T, q Question) *Report {
	t.Helper()
	r, err := Explain(q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Report) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := r.text(); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("got\n%swant\n%s", got, strings.Join(want, "\n"))
	}
}

func explainedAPI() *apidef.APIDefinition {
	api := keyed("a", limits(meta{
		"default": "100/m", "anonymous": "10/m", "unknown": "5/s burst 20", "api_total": "1000/s",
		"endpoints": []any{
			meta{"method": "POST", "path": "/orders", "limit": "10/m", "replace": true},
			meta{"path": "/reports/*", "limit": meta{"rate": "5/h", "name": "reports", "shadow": true}},
		},
		"costs":       []any{meta{"path": "/reports/*", "cost": 3.0, "header": "X-Cost", "max": 9.0}},
		"status_path": "/limits", "refund": []any{"5xx", 429.0}, "headers": "ietf", "on_fault": "closed", "shadow_header": true,
	}))
	api.OrgID, api.Proxy.ListenPath = "org", "/api/"
	return api
}

func TestExplainSettingsAlone(t *testing.T) {
	r := explain(t, Question{Classic: explainedAPI()})
	r.expect(t,
		"all: 100/m | default | key | each key on this API | config_data.ratelimit.default",
		"all: 1000/s | api-total | api_total | all requests to this API | config_data.ratelimit.api_total",
		"POST /orders instead: 10/m | POST /orders | key | each key on this API | config_data.ratelimit.endpoints[0]",
		"/reports/*: 5/h | reports | key | each key on this API | config_data.ratelimit.endpoints[1] | shadow",
		"anonymous: 10/m | default | address | each client address on this API | config_data.ratelimit.anonymous",
		"anonymous: 1000/s | api-total | api_total | all requests to this API | config_data.ratelimit.api_total",
		"unknown: 5/s burst 20 | unknown | address | each client address on this API | config_data.ratelimit.unknown",
	)
	want := `{"mode":"enforce","scope":"key","refresh":"2s","on_fault":"closed","headers":"ietf","shadow_header":true,"status_path":"/limits","refund":["429","5xx"]}`
	if got := toJSON(t, r.Settings); got != want || r.Definition != "classic" || r.API != "a" || r.ListenPath != "/api/" || r.Of != "keys without a limit of their own" {
		t.Errorf("%s %+v", got, r)
	}
	if got := toJSON(t, r.Costs); got != `[{"endpoint":"/reports/*","cost":3,"header":"X-Cost","min":1,"max":9}]` {
		t.Error(got)
	}
	if len(r.Unusable) > 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "RateLimitResponse") {
		t.Errorf("%v %q", r.Unusable, r.Notes)
	}
}

func TestExplainSources(t *testing.T) {
	rights := func(access user.AccessDefinition) map[string]user.AccessDefinition {
		return map[string]user.AccessDefinition{"a": access}
	}
	own := user.APILimit{RateLimit: user.RateLimit{Rate: 7, Per: 60}}
	api := keyed("a", limits(meta{"default": "1/h"}))
	for name, c := range map[string]struct {
		q    Question
		want string
	}{
		"metadata": {Question{Session: &user.SessionState{MetaData: meta{"ratelimit": "10/s, 100/m"}}},
			"all: 10/s | per-second | key | the key on all APIs | metadata ratelimit of the key\nall: 100/m | per-minute | key | the key on all APIs | metadata ratelimit of the key"},
		"metadata of a policy": {Question{MetadataFrom: map[string]string{"ratelimit": "gold"}, Session: &user.SessionState{MetaData: meta{"ratelimit": "10/s"}}},
			"all: 10/s | default | key | the key on all APIs | metadata ratelimit of policy gold"},
		"rate and per": {Question{Session: &user.SessionState{Rate: 5, Per: 1}},
			"all: 5/s | default | key | the key on all APIs | rate and per of the key"},
		"rate and per of a policy": {Question{RateFrom: "gold", Session: &user.SessionState{Rate: 5, Per: 1}},
			"all: 5/s | default | key | the key on all APIs | rate and per of policy gold"},
		"access_rights": {Question{Session: &user.SessionState{Rate: 5, Per: 1, AccessRights: rights(user.AccessDefinition{Limit: own})}},
			"all: 7/m | default | key | the key on all APIs | access_rights of the key"},
		"allowance_scope": {Question{AccessFrom: "gold", Session: &user.SessionState{AccessRights: rights(user.AccessDefinition{Limit: own, AllowanceScope: "x"})}},
			"all: 7/m | default | key | the key in its allowance_scope | access_rights of policy gold"},
		"nothing": {Question{Session: &user.SessionState{}},
			"all: 1/h | default | key | the key on this API | config_data.ratelimit.default"},
		"group": {Question{Session: &user.SessionState{MetaData: meta{"ratelimit": "10/s", "ratelimit_group": "team"}}},
			"all: 10/s | default | key | its ratelimit_group on all APIs | metadata ratelimit of the key"},
		"scope": {Question{Session: &user.SessionState{MetaData: meta{"plan": "x", "ratelimit": []any{meta{"rate": 10.0, "scope": "metadata:plan"}, meta{"rate": "5/m", "scope": "policy"}, meta{"rate": "1/d", "scope": "key+api"}}}}},
			"all: 10/s | per-second | metadata:plan | its metadata:plan on all APIs | metadata ratelimit of the key\n" +
				"all: 5/m | per-minute | policy | the key, which has no policy, on all APIs | metadata ratelimit of the key\n" +
				"all: 1/d | per-day | key+api | the key on this API | metadata ratelimit of the key"},
		"endpoint": {Question{Session: &user.SessionState{MetaData: meta{"ratelimit": "10/s", "ratelimit_endpoints": meta{"path": "/x", "limit": "1/s"}}}},
			"all: 10/s | default | key | the key on all APIs | metadata ratelimit of the key\n" +
				"/x: 1/s | /x | key | the key on this API | metadata ratelimit_endpoints[0] of the key"},
	} {
		t.Run(name, func(t *testing.T) {
			c.q.Classic = api
			explain(t, c.q).expect(t, c.want)
		})
	}
}

func TestExplainUnlimited(t *testing.T) {
	r := explain(t, Question{Classic: explainedAPI(), Session: &user.SessionState{MetaData: meta{"ratelimit_override": "unlimited", "ratelimit": "1/s"}}})
	if !r.Unlimited || r.From != "metadata ratelimit_override of the key" || len(r.Limits) != 1 || !strings.Contains(r.text(), "all: 1000/s | api-total") || strings.Contains(r.text(), "instead") {
		t.Errorf("%+v", r)
	}
	if len(r.Notes) != 3 || !strings.Contains(strings.Join(r.Notes, "\n"), "ratelimit is not looked at") {
		t.Errorf("%q", r.Notes)
	}
}

func TestExplainKeyless(t *testing.T) {
	api := explainedAPI()
	api.UseKeylessAccess = true
	r := explain(t, Question{Classic: api, Session: &user.SessionState{MetaData: meta{"ratelimit": "1/s"}}, Method: "GET", Path: "/api/reports/1"})
	r.expect(t,
		"all: 10/m | default | address | each client address on this API | config_data.ratelimit.anonymous",
		"all: 1000/s | api-total | api_total | all requests to this API | config_data.ratelimit.api_total",
		"POST /orders instead: 10/m | POST /orders | address | each client address on this API | config_data.ratelimit.endpoints[0]",
		"/reports/*: 5/h | reports | address | each client address on this API | config_data.ratelimit.endpoints[1] | shadow",
	)
	if len(r.Notes) != 2 || r.Of != "client addresses" || len(r.Request.Limits) != 3 || r.Request.Tokens != 3 {
		t.Errorf("%+v", r)
	}
	delete(api.ConfigData["ratelimit"].(meta), "anonymous")
	if r := explain(t, Question{Classic: api}); r.From != "config_data.ratelimit.default" || r.Limits[0].Limit != "100/m" {
		t.Errorf("%+v", r)
	}
}

func TestExplainOAS(t *testing.T) {
	doc := oasDocument(t, "oas", `{"enabled":true,"securitySchemes":{"key":{"enabled":true}}}`, ``, `{"default":"1/h burst 2","mode":"shadow"}`)
	r := explain(t, Question{OAS: doc})
	if r.Definition != "oas" || r.API != "oas" || r.Settings.Mode != "shadow" || !r.Limits[0].Shadow {
		t.Errorf("%+v", r)
	}
}

// A request is charged to what the report says, of the hooks' own plans.
func TestExplainRequest(t *testing.T) {
	q := Question{Classic: explainedAPI(), Session: &user.SessionState{OrgID: "org", MetaData: meta{"ratelimit": "50/s"}}}
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/api/", "GET / 1 50/s,1000/s"},
		{"GET", "/api/orders", "GET /orders 1 50/s,1000/s"},
		{"POST", "/api/orders", "POST /orders (POST /orders) 1 10/m,1000/s"},
		{"POST", "/orders", "POST /orders (POST /orders) 1 10/m,1000/s"}, // without the listen path
		{"POST", "/api//orders/?x=1", "POST /orders (POST /orders) 1 10/m,1000/s"},
		{"GET", "/api/reports/1", "GET /reports/1 (/reports/*) 3 50/s,1000/s,5/h"},
		{"GET", "/api/limits", "GET /limits status 0 "},
		{"POST", "/api/limits", "POST /limits 1 50/s,1000/s"},
	} {
		q.Method, q.Path = c.method, c.path
		r := explain(t, q).Request
		got := r.Method + " " + r.Path
		if r.Endpoint != "" {
			got += " (" + r.Endpoint + ")"
		}
		if r.Status {
			got += " status"
		}
		var list []string
		for _, l := range r.Limits {
			list = append(list, l.Limit)
		}
		if got += " " + toJSON(t, r.Tokens) + " " + strings.Join(list, ","); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, got, c.want)
		}
	}
	q.Path = "x"
	if _, err := Explain(q); err == nil {
		t.Error("a path that is none")
	}
	if _, err := Explain(Question{}); err == nil {
		t.Error("no API")
	}
}

// What the hooks do is what explain says, on a request of every kind.
func TestExplainIsWhatTheHooksDo(t *testing.T) {
	api := explainedAPI()
	api.ConfigData["ratelimit"].(meta)["default"] = "1/h burst 4"
	for _, metadata := range []meta{nil, {"ratelimit": "1/h burst 6"}, {"ratelimit": "lots"}, {"ratelimit": []any{"1/h burst 7", "1/d burst 5"}}, {"ratelimit_endpoints": meta{"path": "/orders", "limit": "1/h burst 3"}}} {
		for _, c := range []struct{ method, path string }{{"GET", "/api/"}, {"POST", "/api/orders"}, {"GET", "/api/reports/1"}} {
			h := newHost(t)
			session := h.key("k", metadata)
			r := explain(t, Question{Classic: api, Session: session, Method: c.method, Path: c.path}).Request
			want := int64(1 << 30)
			for _, l := range r.Limits {
				if !l.Shadow {
					want = min(want, l.Burst/r.Tokens)
				}
			}
			admitted := int64(0)
			for range 40 {
				request := httptest.NewRequest(c.method, c.path, nil)
				request.Header.Set("Authorization", "k")
				if h.send(api, request).code == 200 {
					admitted++
				}
			}
			if admitted != min(want, 40) {
				t.Errorf("%v %s: %d admitted, explained as %d", metadata, c.path, admitted, want)
			}
		}
	}
}

func TestExplainUnusable(t *testing.T) {
	api := explainedAPI()
	api.ConfigData["ratelimit"].(meta)["refresh"] = "1ms"
	session := &user.SessionState{MetaData: meta{
		"ratelimit": []any{"10/s", "lots", "5/m"}, "ratelimit_group": []any{}, "ratelimit_endpoints": "[{}]",
	}}
	r := explain(t, Question{Classic: api, Session: session, MetadataFrom: map[string]string{"ratelimit": "gold"}})
	want := []Problem{
		{"config_data.ratelimit.refresh", "", "1ms is not between 100ms and 1h0m0s"},
		{"meta_data.ratelimit[1]", "gold", `limit "lots": rate "lots" is not a decimal number`},
		{"meta_data.ratelimit_group", "", "not a name"},
		{"meta_data.ratelimit_endpoints[0]", "", `path: want one such as "/orders/{id}" or "/reports/*", below the listen path`},
	}
	if toJSON(t, r.Unusable) != toJSON(t, want) {
		t.Errorf("%+v", r.Unusable)
	}
	if len(r.Limits) != 3 {
		t.Errorf("the usable ones count: %+v", r.Limits)
	}
}

func TestExplainNotes(t *testing.T) {
	rights := map[string]user.AccessDefinition{"a": {}}
	signed := keyed("a", nil)
	signed.EnableSignatureChecking = true
	for want, q := range map[string]Question{
		"":                               {Session: &user.SessionState{AccessRights: rights}},
		"no access_rights":               {Session: &user.SessionState{}},
		"the gateway refuses the key":    {Session: &user.SessionState{AccessRights: rights, Expires: time.Now().Unix() - 9}},
		"inactive, has expired or has":   {Session: &user.SessionState{AccessRights: map[string]user.AccessDefinition{"b": {}}}},
		"limited after authentication":   {Classic: signed},
		"ratelimit_override applies":     {Session: &user.SessionState{AccessRights: rights, MetaData: meta{"ratelimit": 1.0, "ratelimit_override": 1.0}}},
		"endpoint /x/ is there more":     {Classic: keyed("a", limits(meta{"endpoints": []any{meta{"path": "/x", "limit": 1.0}, meta{"path": "/x/", "limit": 2.0}}}))},
		"is inactive, has expired or ha": {Session: &user.SessionState{AccessRights: rights, IsInactive: true}},
	} {
		if q.Classic == nil {
			q.Classic = keyed("a", nil)
		}
		r := explain(t, q)
		if got := strings.Join(r.Notes, "\n"); !strings.Contains(got, want) || (want == "") != (got == "") || len(r.Unusable) > 0 {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The report has lists where there is nothing to list, for those who read it.
func TestExplainedNothingIsAList(t *testing.T) {
	r := explain(t, Question{Classic: &apidef.APIDefinition{}})
	if b, err := json.Marshal(r); err != nil || strings.Contains(string(b), "null") {
		t.Errorf("%v %s", err, b)
	}
}
