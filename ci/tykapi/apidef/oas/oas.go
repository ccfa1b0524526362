// Package oas holds the document of an OAS API.
package oas

import (
	"bytes"
	"encoding/json"
	"errors"
)

// OAS is an OpenAPI document with Tyk's extension. The gateway decodes it into
// an OpenAPI model; here it stays as it was written. Only its JSON form is
// the same in both.
type OAS struct {
	doc json.RawMessage
}

func (s *OAS) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return errors.New("oas: the document is not a JSON object")
	}
	s.doc = bytes.Clone(b)
	return nil
}

func (s *OAS) MarshalJSON() ([]byte, error) {
	if s.doc == nil {
		return []byte("{}"), nil
	}
	return s.doc, nil
}
