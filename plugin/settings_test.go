package plugin

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
	"github.com/TykTechnologies/tyk/ctx"

	"tokenbucket.internal/limiter"
)

func TestSettings(t *testing.T) {
	h := newHost(t)
	r := httptest.NewRequest("GET", "/", nil)
	ctx.SetDefinition(r, keyed("a", limits(meta{
		"default": "100/m", "anonymous": meta{"rate": 1.0, "burst": 3.0}, "refresh": 5.0, "on_fault": "closed",
	})))
	s := h.e.apis.of(r)
	if s.byDefault.specs[0].policy.Limit() != (limiter.Limit{Tokens: 100, Period: time.Minute, Burst: 100}) ||
		s.anonymous.specs[0].policy.Limit() != (limiter.Limit{Tokens: 1, Period: time.Second, Burst: 3}) || s.refresh != 5*time.Second || !s.closedOnFault {
		t.Errorf("%+v", s)
	}
	if h.log.Len() > 0 {
		t.Error(h.log.String())
	}
	if again := h.e.apis.of(r); again != s {
		t.Error("read twice")
	}
}

func TestUnusableSettingsAreToldOnceAndTheRestApplies(t *testing.T) {
	h := newHost(t)
	api := keyed("a", limits(meta{
		"default": "1/h burst 2", "anonymous": "some", "refresh": "1ms", "on_fault": true, "defualt": 1.0,
	}))
	h.key("k", nil)
	h.expect(h.codes(5, func() outcome { return h.send(api, get("k")) }), "map[200:2 429:3]")
	lines := strings.Split(strings.TrimSpace(h.log.String()), "\n")
	for i, want := range []string{"config_data.ratelimit.anonymous: ", "config_data.ratelimit.defualt: no such setting", "config_data.ratelimit.on_fault: want", "config_data.ratelimit.refresh: 1ms is not between"} {
		if len(lines) != 4 || !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "API a: ") {
			t.Fatalf("want %q in:\n%s", want, h.log.String())
		}
	}
	h.send(keyed("a", limits(meta{"refresh": "1ms"})), get("k")) // the next reload
	if n := strings.Count(h.log.String(), "\n"); n != 5 {
		t.Errorf("%d lines after a reload", n)
	}
}

func TestDisabledConfigDataIsNotInForce(t *testing.T) {
	h := newHost(t)
	h.key("k", nil)
	for _, api := range []*apidef.APIDefinition{
		{APIID: "a", UseStandardAuth: true, ConfigData: limits(meta{"default": "1/h burst 2"}), ConfigDataDisabled: true},
		{APIID: "b", UseStandardAuth: true},
		{APIID: "c", UseStandardAuth: true, ConfigData: meta{"ratelimit": "100/s"}},
	} {
		h.expect(h.codes(5, func() outcome { return h.send(api, get("k")) }), "map[200:5]")
	}
	if !strings.Contains(h.log.String(), "API c: config_data.ratelimit: not an object") {
		t.Error(h.log.String())
	}
}

func TestRequestWithoutDefinition(t *testing.T) {
	h := newHost(t)
	h.key("k", meta{"ratelimit": "1/h burst 2"})
	h.expect(h.codes(4, func() outcome { return h.run(false, get("k")) }), "map[200:2 429:2]")
}

func TestClassicSources(t *testing.T) {
	custom := apidef.AuthConfig{AuthHeaderName: "X-Key", UseParam: true, UseCookie: true, CookieName: "key"}
	for name, c := range map[string]struct {
		api  apidef.APIDefinition
		want []source
	}{
		"nothing said": {apidef.APIDefinition{}, []source{{header: "Authorization"}}},
		"deprecated":   {apidef.APIDefinition{UseStandardAuth: true, Auth: custom}, []source{{header: "X-Key", param: "X-Key", cookie: "key"}}},
		"auth_configs": {apidef.APIDefinition{UseStandardAuth: true, Auth: custom, AuthConfigs: map[string]apidef.AuthConfig{"authToken": {UseCertificate: true}}},
			[]source{{header: "Authorization", certificate: true}}},
		"no header": {apidef.APIDefinition{EnableJWT: true, AuthConfigs: map[string]apidef.AuthConfig{"jwt": {DisableHeader: true, UseParam: true}}},
			[]source{{param: "Authorization"}}},
		"two modes": {apidef.APIDefinition{UseStandardAuth: true, UseBasicAuth: true, AuthConfigs: map[string]apidef.AuthConfig{"authToken": {AuthHeaderName: "X-Key"}}},
			[]source{{header: "X-Key"}, {header: "Authorization"}}},
		"oauth and oidc": {apidef.APIDefinition{UseOauth2: true, UseOpenID: true}, []source{{header: "Authorization"}, {header: "Authorization"}}},
		"hmac":           {apidef.APIDefinition{UseStandardAuth: true, EnableSignatureChecking: true}, nil},
		"plugin":         {apidef.APIDefinition{CustomPluginAuthEnabled: true}, nil},
		"go plugin":      {apidef.APIDefinition{UseGoPluginAuth: true}, nil},
		"coprocess":      {apidef.APIDefinition{EnableCoProcessAuth: true}, nil},
	} {
		if got := fromClassic(&c.api).sources; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	body := &apidef.APIDefinition{UseBasicAuth: true}
	body.BasicAuth.ExtractFromBody = true
	if got := fromClassic(body).sources; got != nil {
		t.Errorf("credentials in the body: %+v", got)
	}
}

// oasDocument makes an OAS API with the given authentication and native
// security schemes.
func oasDocument(t *testing.T, id, authentication, schemes, settings string) *oas.OAS {
	t.Helper()
	text := fmt.Sprintf(`{"openapi":"3.0.3","info":{"title":"t","version":"1"},"paths":{},
		"components":{"securitySchemes":{%s}},
		"x-tyk-api-gateway":{"info":{"id":%q,"name":"n","state":{"active":true}},"upstream":{"url":"http://127.0.0.1"},
		"server":{"listenPath":{"value":"/x/"},"authentication":%s},
		"middleware":{"global":{"pluginConfig":{"data":{"enabled":true,"value":{"ratelimit":%s}}}}}}}`, schemes, id, authentication, settings)
	d := new(oas.OAS)
	if err := json.Unmarshal([]byte(text), d); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return d
}

func TestOASSources(t *testing.T) {
	apiKey := `"key":{"type":"apiKey","in":"header","name":"X-Key"}`
	for name, c := range map[string]struct {
		authentication, schemes string
		keyless                 bool
		want                    []source
	}{
		"keyless":  {`{"enabled":false}`, ``, true, nil},
		"native":   {`{"enabled":true,"securitySchemes":{"key":{"enabled":true}}}`, apiKey, false, []source{{header: "X-Key"}}},
		"query":    {`{"enabled":true,"securitySchemes":{"key":{"enabled":true,"query":{"enabled":true,"name":"k"},"cookie":{"enabled":true}}}}`, apiKey, false, []source{{header: "X-Key", param: "k", cookie: "Authorization"}}},
		"native q": {`{"enabled":true,"securitySchemes":{"key":{"enabled":true}}}`, `"key":{"type":"apiKey","in":"query","name":"k"}`, false, []source{{param: "k"}}},
		"disabled": {`{"enabled":true,"securitySchemes":{"key":{"enabled":false}}}`, apiKey, false, []source{{header: "Authorization"}}},
		"jwt":      {`{"enabled":true,"securitySchemes":{"jwt":{"enabled":true,"header":{"enabled":true,"name":"Authorization"}}}}`, `"jwt":{"type":"http","scheme":"bearer","bearerFormat":"JWT"}`, false, []source{{header: "Authorization"}}},
		"hmac":     {`{"enabled":true,"hmac":{"enabled":true},"securitySchemes":{"key":{"enabled":true}}}`, apiKey, false, nil},
		"custom":   {`{"enabled":true,"custom":{"enabled":true}}`, ``, false, nil},
		"body":     {`{"enabled":true,"securitySchemes":{"b":{"enabled":true,"extractCredentialsFromBody":{"enabled":true}}}}`, `"b":{"type":"http","scheme":"basic"}`, false, nil},
	} {
		d, err := fromOAS(oasDocument(t, "oas", c.authentication, c.schemes, `{}`))
		if err != nil || d.api != "oas" || d.keyless != c.keyless || !reflect.DeepEqual(d.sources, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, d, err, c.want)
		}
	}
}

func TestOASAPIsAreLimited(t *testing.T) {
	h := newHost(t)
	h.key("k", nil)
	keyedAPI := oasDocument(t, "keyed", `{"enabled":true,"securitySchemes":{"key":{"enabled":true}}}`, `"key":{"type":"apiKey","in":"header","name":"Authorization"}`, `{"default":"1/h burst 2"}`)
	open := oasDocument(t, "open", `{"enabled":false}`, ``, `{"anonymous":"1/h burst 3"}`)
	for _, c := range []struct {
		d       *oas.OAS
		keyless bool
		want    string
	}{{keyedAPI, false, "map[200:2 429:3]"}, {open, true, "map[200:3 429:2]"}} {
		h.expect(h.codes(5, func() outcome {
			r := get("k")
			ctx.SetOASDefinition(r, c.d)
			return h.run(c.keyless, r)
		}), c.want)
	}
}

func TestCredentialIsTheSameInEveryForm(t *testing.T) { // H20
	s := &settings{sources: []source{{header: "X-Key", param: "k", cookie: "c"}}}
	request := func(header, param, cookie string) string {
		r := httptest.NewRequest("GET", "/?k="+param, nil)
		r.Header.Set("X-Key", header)
		if cookie != "" {
			r.Header.Set("Cookie", "c="+cookie)
		}
		c, shown := s.credential(r)
		return fmt.Sprint(c, shown)
	}
	want := request("secret", "", "")
	for name, got := range map[string]string{
		"bearer":    request("Bearer secret", "", ""),
		"lowercase": request("bearer secret", "", ""),
		"parameter": request("", "secret", ""),
		"cookie":    request("", "", "secret"),
		"overrides": request("x", "y", "secret"),
	} {
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for name, got := range map[string]string{"nothing": request("", "", ""), "another": request("secret2", "", "")} {
		if got == want {
			t.Errorf("%s is taken for the key", name)
		}
	}
	if _, shown := s.credential(httptest.NewRequest("GET", "/", nil)); shown {
		t.Error("a request that shows nothing has a credential")
	}
}

func TestProcessSettings(t *testing.T) {
	for name, c := range map[string]struct {
		env      map[string]string
		want     string
		problems int
	}{
		"defaults": {nil, "up to 1000000 keys, 256 shards, precise clock", 0},
		"all":      {map[string]string{"MAX_KEYS": "5", "SHARDS": "16", "CLOCK": "coarse"}, "up to 5 keys, 16 shards, coarse clock", 0},
		"wrong":    {map[string]string{"MAX_KEYS": "-5", "SHARDS": "x", "CLOCK": "sundial"}, "up to 1000000 keys, 256 shards, precise clock", 3},
	} {
		p, problems := readProcess(func(key string) string { return c.env[strings.TrimPrefix(key, "TYK_RATELIMIT_")] })
		if p.String() != c.want || len(problems) != c.problems || p.clock == nil {
			t.Errorf("%s: %s, %q", name, p, problems)
		}
	}
}

func TestMasked(t *testing.T) {
	for key, want := range map[string]string{"": "****", "free": "****", "12345678901": "****", "123456789012345": "****", "1234567890123456": "****3456",
		"eyJvcmciOiJkZWZhdWx0IiwiaWQiOiJmcmVlIiwiaCI6Im11cm11cjY0In0=":                                     "****",
		"eyJvcmciOiJkZWZhdWx0IiwiaWQiOiI5ZDg4M2RhZjM0NjE0YjYwOGQ2ZjE2YTk5MjExYmNkMSIsImgiOiJtdXJtdXI2NCJ9": "****bcd1",
	} {
		if got := masked(key); got != want {
			t.Errorf("%q: %q", key, got)
		}
	}
}
