// Package user holds a key's session and the policies applied to it.
package user

import (
	"maps"
	"slices"
	"time"
)

// SessionState is what the gateway knows about a key.
type SessionState struct {
	Rate          float64                     `json:"rate,omitzero"`
	Per           float64                     `json:"per,omitzero"` // seconds
	Expires       int64                       `json:"expires,omitzero"`
	AccessRights  map[string]AccessDefinition `json:"access_rights,omitempty"`
	OrgID         string                      `json:"org_id,omitzero"`
	OauthClientID string                      `json:"oauth_client_id,omitzero"`
	IsInactive    bool                        `json:"is_inactive,omitzero"`
	ApplyPolicyID string                      `json:"apply_policy_id,omitzero"`
	ApplyPolicies []string                    `json:"apply_policies,omitempty"`
	MetaData      map[string]interface{}      `json:"meta_data,omitempty"`
	Tags          []string                    `json:"tags,omitempty"`
	Alias         string                      `json:"alias,omitzero"`
	LastUpdated   string                      `json:"last_updated,omitzero"` // unix seconds

	keyHash string
	KeyID   string `json:"-"`
}

// PolicyIDs names the policies applied to the key, the last one winning.
func (s *SessionState) PolicyIDs() []string {
	if len(s.ApplyPolicies) > 0 {
		return s.ApplyPolicies
	}
	if s.ApplyPolicyID != "" {
		return []string{s.ApplyPolicyID}
	}
	return nil
}

// Clone copies the session and its maps and slices, one level deep.
func (s SessionState) Clone() SessionState {
	s.AccessRights = maps.Clone(s.AccessRights)
	s.ApplyPolicies = slices.Clone(s.ApplyPolicies)
	s.MetaData = maps.Clone(s.MetaData)
	s.Tags = slices.Clone(s.Tags)
	return s
}

// KeyHash panics while no hash is set.
func (s *SessionState) KeyHash() string {
	if s.keyHash == "" {
		panic("user: no key hash; call SetKeyHash first")
	}
	return s.keyHash
}

func (s *SessionState) SetKeyHash(hash string) { s.keyHash = hash }

func (s *SessionState) KeyHashEmpty() bool { return s.keyHash == "" }

// AccessDefinition is a key's access to one API.
type AccessDefinition struct {
	APIName        string   `json:"api_name,omitzero"`
	APIID          string   `json:"api_id,omitzero"`
	Versions       []string `json:"versions,omitempty"`
	Limit          APILimit `json:"limit,omitzero"`
	AllowanceScope string   `json:"allowance_scope,omitzero"`
}

// APILimit is the limit of one API.
type APILimit struct {
	RateLimit
	SetBy string `json:"-"`
}

// IsEmpty reports a limit that nobody set.
func (l APILimit) IsEmpty() bool { return l == APILimit{} }

// IsZero leaves an empty limit out of JSON.
func (l APILimit) IsZero() bool { return l.IsEmpty() }

// RateLimit allows Rate requests every Per seconds.
type RateLimit struct {
	Rate float64 `json:"rate,omitzero"`
	Per  float64 `json:"per,omitzero"`
}

// Duration is the time between two requests at the full rate; 0 if unset.
func (l RateLimit) Duration() time.Duration {
	if l.Per <= 0 || l.Rate <= 0 {
		return 0
	}
	return time.Duration(l.Per / l.Rate * float64(time.Second))
}
