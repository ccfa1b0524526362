package plugin

import (
	"errors"
	"slices"
	"strings"

	"github.com/TykTechnologies/tyk/user"
)

// A scope says who share the bucket of a limit.
type scope string

const (
	scopeKey    scope = "key"
	scopeKeyAPI scope = "key+api"
	scopeOrg    scope = "org"
	scopePolicy scope = "policy"
	scopeClient scope = "oauth_client"
	// scopeMetadata goes before the name of a field of the session's metadata.
	scopeMetadata = "metadata:"

	// Those that no operator can name.
	scopeAddress  scope = "address"
	scopeAPITotal scope = "api_total"
	scopeOrgTotal scope = "org_total"
)

func parseScope(v any) (scope, error) {
	text, _ := v.(string)
	switch s := scope(text); s {
	case scopeKey, scopeKeyAPI, scopeOrg, scopePolicy, scopeClient:
		return s, nil
	}
	if name, ok := strings.CutPrefix(text, scopeMetadata); ok && name != "" {
		return scope(text), nil
	}
	return "", errors.New("want key, key+api, org, policy, oauth_client or metadata:<name>")
}

// metadata is the field that the scope reads; "" for other scopes.
func (s scope) metadata() string {
	name, _ := strings.CutPrefix(string(s), scopeMetadata)
	if name == string(s) {
		return ""
	}
	return name
}

// shared is the id of those who share a bucket in the scope; false if the
// session belongs to none, and its key then has a bucket of its own.
func (s scope) shared(session *user.SessionState) (id, bool) {
	in := named(string(s)).with(named(session.OrgID))
	switch s {
	case scopeOrg:
		return in, session.OrgID != ""
	case scopePolicy:
		ids := slices.Sorted(slices.Values(session.PolicyIDs())) // in any order
		for _, policy := range ids {
			in = in.with(named(policy))
		}
		return in, len(ids) > 0
	case scopeClient:
		return in.with(named(session.OauthClientID)), session.OauthClientID != ""
	}
	name, err := number(session.MetaData[s.metadata()])
	return in.with(named(name)), err == nil && name != ""
}
