package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

// explainer runs the bundle command in a folder of its own.
type explainer struct {
	t         *testing.T
	tool, dir string
}

func newExplainer(t *testing.T) *explainer {
	t.Helper()
	e := &explainer{t: t, tool: os.Getenv("BUNDLE"), dir: t.TempDir()}
	if e.tool != "" {
		return e
	}
	e.tool = filepath.Join(e.dir, "bundle")
	cmd := exec.Command("go", "build", "-o", e.tool, "./bundle")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return e
}

// run returns what the command prints, and its exit code.
func (e *explainer) run(args ...string) (stdout string, code int) {
	e.t.Helper()
	var stderr strings.Builder
	cmd := exec.Command(e.tool, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() == 2 {
		e.t.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (e *explainer) file(name string, content any) string {
	e.t.Helper()
	b, err := json.Marshal(content)
	if err == nil {
		name = filepath.Join(e.dir, name)
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return name
}

// explained is the part of a report that is held against the gateway.
type explained struct {
	From     string `json:"from"`
	Unusable []struct {
		Path, Why string
	} `json:"unusable"`
	Request struct {
		Tokens int `json:"tokens"`
		Limits []struct {
			Policy string  `json:"policy"`
			Tokens int     `json:"tokens"`
			Period float64 `json:"period_seconds"`
			Burst  int     `json:"burst"`
			Shadow bool    `json:"shadow"`
		} `json:"limits"`
	} `json:"request"`
}

func (e *explainer) explain(args ...string) (r explained, code int) {
	e.t.Helper()
	out, code := e.run(append([]string{"explain", "-json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		e.t.Fatalf("%v: %v in %s", args, err, out)
	}
	return r, code
}

// admits is how many requests the full buckets are good for, of those that are
// not refilled soon, and by which policy the next one is refused; -1: any number.
func (r explained) admits() (n int, policy string) {
	n = -1
	for _, l := range r.Request.Limits {
		if many := l.Burst / max(1, r.Request.Tokens); !l.Shadow && (n < 0 || many < n) {
			n, policy = many, fmt.Sprintf("%q;q=%d;w=%.0f", l.Policy, l.Tokens, l.Period)
		}
	}
	return n, policy
}

var explainSettings = rig.Object{
	"default": "1/h burst 2", "api_total": "1/h burst 1000", "status_path": "/limits",
	"endpoints": []any{
		rig.Object{"method": "GET", "path": "/reports/{id}", "limit": "1/h burst 9", "replace": true},
		rig.Object{"path": "/beside", "limit": "1/h burst 3"},
		rig.Object{"path": "/free/*", "limit": "unlimited", "replace": true},
	},
	"costs": []any{rig.Object{"method": "POST", "path": "/batch", "cost": 3}},
}

var (
	explainClassic = shared.api(rig.API{ID: "explain-classic", RateLimit: explainSettings})
	explainOAS     = shared.api(rig.API{ID: "explain-oas", OAS: true, RateLimit: explainSettings})
	explainAPIs    = map[string]rig.Object{
		explainClassic: {
			"api_id": explainClassic, "org_id": rig.Org, "use_standard_auth": true,
			"proxy": rig.Object{"listen_path": "/" + explainClassic + "/"}, "config_data": limits(explainSettings),
		},
		explainOAS: {"openapi": "3.0.3", "x-tyk-api-gateway": rig.Object{
			"info": rig.Object{"id": explainOAS, "orgId": rig.Org},
			"server": rig.Object{
				"listenPath":     rig.Object{"value": "/" + explainOAS + "/"},
				"authentication": rig.Object{"enabled": true},
			},
			"middleware": rig.Object{"global": rig.Object{"pluginConfig": rig.Object{
				"data": rig.Object{"enabled": true, "value": limits(explainSettings)},
			}}},
		}},
	}
)

func init() {
	policies["explain-policy"] = policyOver(limits("1/h burst 5"), explainClassic, explainOAS)
}

// What explain says of a key is what becomes of its requests.
func TestExplainSaysWhatTheGatewayDoes(t *testing.T) {
	t.Parallel()
	tool := newExplainer(t)
	policyFile := tool.file("policies.json", policies)
	for _, c := range []struct {
		name, request string
		metadata      rig.Object
		policy        bool
		admitted      int
		from          string
		unusable      string
	}{
		{"default", "GET /", nil, false, 2, "config_data.ratelimit.default", ""},
		{"several windows", "GET /", limits("1/h burst 9, 1/d burst 4"), false, 4, "metadata ratelimit of the key", ""},
		{"instead of the key's", "GET /reports/7", limits("1/h burst 4"), false, 9, "metadata ratelimit of the key", ""},
		{"another method", "POST /reports/7", limits("1/h burst 4"), false, 4, "metadata ratelimit of the key", ""},
		{"beside the key's", "GET /beside", limits("1/h burst 4"), false, 3, "metadata ratelimit of the key", ""},
		{"cost", "POST /batch", limits("1/h burst 7"), false, 2, "metadata ratelimit of the key", ""},
		{"policy", "GET /", limits("1/h burst 7"), true, 5, "metadata ratelimit of policy explain-policy", ""},
		{"exception", "GET /", rig.Object{"ratelimit_override": "1/h burst 3"}, true, 3, "metadata ratelimit_override of the key", ""},
		{"unusable", "GET /", limits("lots"), false, 2, "config_data.ratelimit.default", "meta_data.ratelimit"},
		{"one of two unusable", "GET /", limits([]any{"1/h burst 4", "lots"}), false, 4, "metadata ratelimit of the key", "meta_data.ratelimit[1]"},
		{"unlimited endpoint", "GET /free/x", limits("1/h burst 3"), false, 1000, "metadata ratelimit of the key", ""},
		{"shadow", "GET /", limits(rig.Object{"rate": "1/h burst 1", "shadow": true}), false, 1000, "metadata ratelimit of the key", ""},
	} {
		for api, definition := range explainAPIs {
			t.Run(c.name+" "+api, func(t *testing.T) {
				client, own := of(t, api), *tool
				own.t = t
				key := rig.Key{APIs: []string{api}, Metadata: c.metadata}
				session := rig.Object{"org_id": rig.Org, "meta_data": c.metadata, "access_rights": rig.Object{api: rig.Object{"api_id": api}}}
				if c.policy {
					key.Policies = []string{"explain-policy"}
					session["apply_policies"] = key.Policies
				}
				said, code := own.explain("-api", own.file(api+".json", definition), "-key", own.file("key.json", session), "-policies", policyFile, "-request", c.request)
				n, policy := said.admits()
				if n != c.admitted || said.From != c.from || (code == 1) != (c.unusable != "") || len(said.Unusable) != code ||
					code == 1 && said.Unusable[0].Path != c.unusable {
					t.Fatalf("exit %d: %+v", code, said)
				}
				method, path, _ := strings.Cut(c.request, " /")
				request := rig.Request{Method: method, Path: path, Key: client.newKey(key)}
				if n == 1000 {
					client.admits(10, 10, request)
					return
				}
				client.admits(n, n+1, request)
				if got := client.send(request).Header.Get("RateLimit-Policy"); got != policy {
					t.Errorf("refused by %s, explained as %s", got, policy)
				}
			})
		}
	}
}
