package oas

import (
	"encoding/json"
	"testing"
)

func TestDocumentRoundTrip(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"openapi":"3.0.3","x-tyk-api-gateway":{"info":{"id":"a"}}}`, `{"openapi":"3.0.3","x-tyk-api-gateway":{"info":{"id":"a"}}}`},
		{`{}`, `{}`},
		{`[]`, ``},
		{`"x"`, ``},
		{`{`, ``},
	} {
		d := new(OAS)
		if err := json.Unmarshal([]byte(c.in), d); err != nil {
			if c.want != "" {
				t.Errorf("%s: %v", c.in, err)
			}
			continue
		}
		if got, _ := json.Marshal(d); string(got) != c.want {
			t.Errorf("%s: got %s", c.in, got)
		}
	}
	if b, err := json.Marshal(new(OAS)); err != nil || string(b) != "{}" {
		t.Errorf("empty document: %s, %v", b, err)
	}
}
