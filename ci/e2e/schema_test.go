package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tokenbucket.internal/ci/e2e/rig"
)

// example is one of plugin/testdata/schema: settings or metadata.
type example struct {
	Settings any    `json:"settings"`
	Metadata any    `json:"metadata"`
	Usable   bool   `json:"usable"` // of those that the schema is wrong about
	Why      string `json:"why"`
}

// The schema and the plugin, whose own tests read the same files, agree on every
// example; those that no schema expresses are in a file of their own.
func TestSchemaAgreesWithThePlugin(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	for name, fits := range map[string]func(e example) bool{
		"valid.json":   func(example) bool { return true },
		"invalid.json": func(example) bool { return false },
		"beyond.json":  func(e example) bool { return !e.Usable },
	} {
		b, err := os.ReadFile(filepath.Join("..", "..", "plugin", "testdata", "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		var examples []example
		if err := json.Unmarshal(b, &examples); err != nil {
			t.Fatal(err)
		}
		for _, e := range examples {
			problem := schema.validate(rig.Object{"api_id": "a", "config_data": rig.Object{"ratelimit": e.Settings}})
			if problem == nil {
				problem = schema.validate(rig.Object{"org_id": rig.Org, "meta_data": e.Metadata})
			}
			if (problem == nil) != fits(e) {
				b, _ := json.Marshal(e)
				t.Errorf("%s: %s: %v", name, b, problem)
			}
		}
	}
}

// The schema is for whole documents.
func TestSchemaFindsTheSettingsInEveryDocument(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	oas := func(section any) rig.Object {
		data := rig.Object{"data": rig.Object{"enabled": true, "value": rig.Object{"ratelimit": section}}}
		return rig.Object{"openapi": "3.0.3", "paths": rig.Object{}, "x-tyk-api-gateway": rig.Object{"middleware": rig.Object{"global": rig.Object{"pluginConfig": data}}}}
	}
	for name, wrap := range map[string]func(v any) rig.Object{
		"classic": func(v any) rig.Object {
			return rig.Object{"api_id": "a", "config_data": rig.Object{"ratelimit": rig.Object{"default": v}}}
		},
		"oas":      func(v any) rig.Object { return oas(rig.Object{"default": v}) },
		"key":      func(v any) rig.Object { return rig.Object{"org_id": "default", "meta_data": limits(v)} },
		"policies": func(v any) rig.Object { return rig.Object{"gold": rig.Object{"rate": 5, "meta_data": limits(v)}} },
	} {
		if err := schema.validate(wrap("100/s")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := schema.validate(wrap("lots")); err == nil || !strings.Contains(err.Error(), "ratelimit") {
			t.Errorf("%s: a wrong limit: %v", name, err)
		}
	}
}

type validator struct {
	t      *testing.T
	schema *jsonschema.Schema
}

// compiled is the schema that the bundle command prints.
func compiled(t *testing.T) validator {
	t.Helper()
	text, err := theRig.BundleTool("schema")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return validator{t, schema}
}

func (v validator) validate(doc any) error {
	v.t.Helper()
	b, err := json.Marshal(doc)
	if err != nil {
		v.t.Fatal(err)
	}
	read, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		v.t.Fatal(err)
	}
	return v.schema.Validate(read)
}
