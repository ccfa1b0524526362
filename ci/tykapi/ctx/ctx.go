// Package ctx reads and writes what the gateway keeps in a request's context.
package ctx

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
	"github.com/TykTechnologies/tyk/user"
)

// Key is the type of the gateway's context keys.
type Key uint

// The order is the gateway's: a key's number is part of the contract.
const (
	SessionData Key = iota
	UpdateSession
	AuthToken
	HashedAuthToken
	VersionData
	VersionName
	VersionDefault
	OrgSessionContext
	ContextData
	RetainHost
	TrackThisEndpoint
	DoNotTrackThisEndpoint
	UrlRewritePath
	InternalRedirectTarget
	RequestMethod
	OrigRequestURL
	LoopLevel
	LoopLevelLimit
	ThrottleLevel
	ThrottleLevelLimit
	Trace
	CheckLoopLimits
	UrlRewriteTarget
	TransformedRequestMethod
	Definition
	RequestStatus
	GraphQLRequest
	GraphQLIsWebSocketUpgrade
	CacheOptions
	OASDefinition
	SelfLooping
)

// GetSession returns the session of an authenticated request, or nil.
func GetSession(r *http.Request) *user.SessionState {
	s, _ := r.Context().Value(SessionData).(*user.SessionState)
	return s
}

// GetAuthToken returns the key that the request was authenticated with, or "".
func GetAuthToken(r *http.Request) string {
	token, _ := r.Context().Value(AuthToken).(string)
	return token
}

// SetSession stores s, and its key as the token. A session without a key takes
// the token already there. A missing key hash becomes the raw key: a host that
// hashes keys calls SetKeyHash first. Nothing is saved here, so neither
// scheduleUpdate nor hashKey has an effect.
func SetSession(r *http.Request, s *user.SessionState, scheduleUpdate bool, hashKey ...bool) {
	if s == nil {
		panic("ctx: SetSession needs a session")
	}
	if s.KeyID == "" {
		s.KeyID = GetAuthToken(r)
	}
	if s.KeyHashEmpty() {
		s.SetKeyHash(s.KeyID)
	}
	set(r, SessionData, s)
	set(r, AuthToken, s.KeyID)
}

// SetDefinition stores a classic API definition.
func SetDefinition(r *http.Request, d *apidef.APIDefinition) { set(r, Definition, d) }

// GetDefinition returns a deep copy of the classic API definition, or nil.
func GetDefinition(r *http.Request) *apidef.APIDefinition {
	d, _ := r.Context().Value(Definition).(*apidef.APIDefinition)
	return clone(d)
}

// SetOASDefinition stores the document of an OAS API.
func SetOASDefinition(r *http.Request, d *oas.OAS) { set(r, OASDefinition, d) }

// GetOASDefinition returns a deep copy of the OAS API's document, or nil.
func GetOASDefinition(r *http.Request) *oas.OAS {
	d, _ := r.Context().Value(OASDefinition).(*oas.OAS)
	return clone(d)
}

// set replaces the request's context in place, so that whoever holds the same
// request sees the value.
func set(r *http.Request, key Key, value any) {
	*r = *r.WithContext(context.WithValue(r.Context(), key, value))
}

func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	c := new(T)
	if json.Unmarshal(b, c) != nil {
		return nil
	}
	return c
}
