package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokenbucket.internal/plugin"
)

// The name of a key's file may be the key, which must not be printed.
const keyFile = "secret-key-0123456789abcdef.json"

const (
	explainedAPI = `{"api_id": "orders", "org_id": "default", "use_standard_auth": true, "proxy": {"listen_path": "/orders/"}, "config_data": {"ratelimit": {
		"default": "100/m", "unknown": "5/s", "api_total": "1000/s", "refund": ["5xx"], "status_path": "/limits", "shadow_header": true,
		"endpoints": [{"method": "POST", "path": "/batch", "limit": {"rate": "10/m", "shadow": true}, "replace": true}, {"path": "/free", "limit": 0, "replace": true}],
		"costs": [{"method": "POST", "path": "/batch", "cost": 2, "header": "X-Items", "response_header": "X-Cost", "max": 50}]}}}`
	explainedOAS = `{"openapi": "3.0.3", "x-tyk-api-gateway": {
		"info": {"id": "orders", "orgId": "default"}, "server": {"listenPath": {"value": "/orders/"}, "authentication": {"enabled": true}},
		"middleware": {"global": {"pluginConfig": {"data": {"enabled": true, "value": {"ratelimit": {"default": "100/m"}}}}}}}}`
	explainedKey      = `{"org_id": "default", "access_rights": {"orders": {"api_id": "orders"}}, "meta_data": {"ratelimit": "5/s"}}`
	explainedGold     = `{"org_id": "default", "access_rights": {"orders": {}}, "apply_policies": ["gold", "gone"], "meta_data": {"ratelimit": "5/s", "ratelimit_burst": 9}}`
	explainedPolicies = `{"gold": {"org_id": "default", "rate": 7, "per": 1, "access_rights": {"orders": {}}, "meta_data": {"ratelimit": "10/s, 1000/h"}}}`
)

// explaining is a working directory with files of every kind.
func explaining(t *testing.T) {
	t.Helper()
	workdir(t)
	for name, content := range map[string]string{
		"api.json": explainedAPI, "oas.json": explainedOAS, keyFile: explainedKey, "gold.json": explainedGold, "policies.json": explainedPolicies,
		"neither.json": `{"name": "x"}`, "typed.json": "{\n\"org_id\": 1}", "broken.json": "{\n\n!", "list.json": `[]`,
		"odd.json": `{"api_id": "a", "config_data": {"ratelimit": {"default": {"rate": 1, "name": "\u001b[2J"}, "refresh": "1ms", "mode": "off"}}}`,
	} {
		write(t, name, []byte(content))
	}
}

func explainedBy(args string) result {
	return call(append([]string{"explain"}, strings.Fields(args)...)...)
}

func TestExplainPrintsATable(t *testing.T) {
	explaining(t)
	for args, want := range map[string][]string{
		"-api api.json": {
			"API        orders (classic) at /orders/\n",
			"settings   mode enforce, scope key, refresh 2s, on_fault open, headers both, shadow_header, status_path /limits, refund 5xx\n",
			"limits of  keys without a limit of their own: config_data.ratelimit.default\n",
			"all                   100/m   default      key        enforce  each key on this API",
			"POST /batch, instead  10/m    POST /batch  key        shadow",
			"/free, instead        none    -            -          -        -    ",
			"with an unknown key   5/s     unknown      address    enforce",
			"POST /batch  field X-Items, 1 to 50, or 2; in the end field X-Cost of the answer, 1 to 50\n",
		},
		"-api oas.json -key " + keyFile: {
			"API        orders (oas) at /orders/\n", "limits of  the key: metadata ratelimit of the key\n", "all                  5/s    default  key    enforce  the key on all APIs",
		},
	} {
		r := explainedBy(args).mustBeOK(t)
		for _, line := range want {
			if !strings.Contains(r.stdout, line) {
				t.Errorf("%s: want %q in\n%s", args, line, r.stdout)
			}
		}
	}
}

func TestExplainARequest(t *testing.T) {
	explaining(t)
	for request, want := range map[string]string{
		"post /batch":        "request POST /batch, endpoint POST /batch: costs 2, from each of\n  1000/s  api-total    enforce  all requests to this API\n  10/m    POST /batch  shadow   each key on this API\n",
		"GET /orders/limits": "request GET /limits: answered with the client's limits, costs nothing\n",
		"GET /orders/x":      "request GET /x: costs 1, from each of\n",
	} {
		if r := call("explain", "-api", "api.json", "-request", request).mustBeOK(t); !strings.Contains(r.stdout, "\n"+want) {
			t.Errorf("%s: want %s in\n%s", request, want, r.stdout)
		}
	}
	if r := call("explain", "-api", "oas.json", "-key", keyFile, "-request", "GET /x", "-json").mustBeOK(t); !strings.Contains(r.stdout, `"tokens": 1,`) {
		t.Error(r.stdout)
	}
}

func TestExplainMergesPolicies(t *testing.T) {
	explaining(t)
	r := explainedBy("-json -api api.json -key gold.json -policies policies.json")
	var report plugin.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.From != "metadata ratelimit of policy gold" || len(report.Limits) != 3 || report.Limits[1].Limit != "1000/h" ||
		!strings.Contains(strings.Join(report.Notes, "\n"), `"gone"`) {
		t.Errorf("%+v", report)
	}
	// The key's burst would mean one of the policy's two limits.
	if r.code != 1 || len(report.Unusable) != 1 || report.Unusable[0].From != "gold" || !strings.Contains(r.stderr, "bundle: unusable: meta_data.ratelimit\n") {
		t.Errorf("exit %d %+v %s", r.code, report.Unusable, r.stderr)
	}
}

func TestExplainExitsWith1OnWhatIsUnusable(t *testing.T) {
	explaining(t)
	r := explainedBy("-api odd.json")
	if r.code != 1 || r.stderr != "bundle: unusable: config_data.ratelimit.mode, config_data.ratelimit.refresh\n" {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	for _, want := range []string{"unusable: config_data.ratelimit.refresh: 1ms is not between 100ms and 1h0m0s\n", `"\x1b[2J"`} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("want %q in\n%s", want, r.stdout)
		}
	}
}

func TestExplainWrongCalls(t *testing.T) {
	explaining(t)
	for _, step := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "-api"},
		{"api.json", 2, "no files"},
		{"-api api.json -policies policies.json", 2, "-key"},
		{"-api api.json -key gold.json", 2, "gold, gone"},
		{"-api api.json -request /x", 2, "-request"},
		{"-api api.json -request GET", 2, "-request"},
		{"-api none.json", 1, "-api: no such file"},
		{"-api neither.json", 1, "api_id"},
		{"-api list.json", 1, "-api: "},
		{"-api api.json -key " + keyFile + "x", 1, "-key: no such file"},
		{"-api api.json -key typed.json", 1, "-key: org_id: want string, got number"},
		{"-api api.json -key broken.json", 1, "-key: line 3: "},
		{"-api api.json -key gold.json -policies list.json", 1, "-policies: "},
		{"-api api.json -key gold.json -policies neither.json", 1, "-policies: "},
		{"-api api.json -key typed.json -policies none.json", 1, "-key"},
	} {
		r := explainedBy(step.args)
		r.mustFail(t, step.code, step.want)
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%s: the key's file is named: %s", step.args, r.stderr)
		}
	}
	write(t, "other.json", []byte(`{"silver": {"org_id": "default"}}`))
	write(t, "gold.json", []byte(`{"apply_policy_id": "gold"}`))
	explainedBy("-api api.json -key gold.json -policies other.json").mustFail(t, 1, "the gateway refuses the key: policy not found")
}

// The plugin's own test says which of these are usable; the command exits so.
func TestExplainExitsByTheExamples(t *testing.T) {
	dir, err := filepath.Abs(filepath.Join("..", "plugin", "testdata", "schema"))
	if err != nil {
		t.Fatal(err)
	}
	workdir(t)
	for name, want := range map[string]int{"valid.json": 0, "invalid.json": 1} {
		var examples []struct{ Settings, Metadata any }
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(b, &examples)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range examples {
			api, _ := json.Marshal(map[string]any{"api_id": "a", "config_data": map[string]any{"ratelimit": e.Settings}})
			key, _ := json.Marshal(map[string]any{"meta_data": e.Metadata})
			write(t, "api.json", api)
			write(t, "key.json", key)
			if r := explainedBy("-json -api api.json -key key.json"); r.code != want || !json.Valid([]byte(r.stdout)) {
				t.Errorf("%s %s: exit %d: %s", api, key, r.code, r.stderr)
			}
		}
	}
}

func TestSchemaIsPrinted(t *testing.T) {
	if r := call("schema").mustBeOK(t); r.stdout != plugin.Schema || !json.Valid([]byte(r.stdout)) {
		t.Error("not the plugin's schema")
	}
	call("schema", "x").mustFail(t, 2, "no files")
}
