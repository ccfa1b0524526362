package main

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
	"github.com/TykTechnologies/tyk/ctx"
	"github.com/TykTechnologies/tyk/user"
)

// api is one loaded API. A reload makes new ones; they never change.
type api struct {
	gw      *gateway
	def     *apidef.APIDefinition
	oas     *oas.OAS // nil for a classic API
	auth    apidef.AuthConfig
	target  *url.URL
	ignored []ignoredPath

	pre, postKeyAuth, post []hook[requestFunc]
	response               []hook[responseFunc]
}

// ignoredPath skips authentication.
type ignoredPath struct {
	pattern *regexp.Regexp
	method  string // "" means all
}

// refusal is an error that the client gets to see.
type refusal struct {
	code    int
	message string
}

var (
	errNoKey      = &refusal{http.StatusUnauthorized, "Authorization field missing"}
	errDisallowed = &refusal{http.StatusForbidden, "Access to this API has been disallowed"}
	errInactive   = &refusal{http.StatusForbidden, "Key is inactive, please renew"}
	errExpired    = &refusal{http.StatusUnauthorized, "Key has expired, please renew"}
)

// ServeHTTP runs the chain in the gateway's order. A keyless API has no
// post_key_auth hooks; an ignored path runs them without a session.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = withHookTime(r)
	ignored := a.ignores(r)
	if !a.runHooks(a.pre, w, r) {
		return
	}
	if !a.def.UseKeylessAccess {
		if !ignored && a.refused(w, r, a.authenticate(r)) {
			return
		}
		if !a.runHooks(a.postKeyAuth, w, r) {
			return
		}
		if a.def.StripAuthData {
			a.stripAuth(r)
		}
		if !ignored && a.refused(w, r, a.authorise(ctx.GetSession(r))) {
			return
		}
	}
	if a.runHooks(a.post, w, r) {
		a.proxy(w, r)
	}
}

func (a *api) refused(w http.ResponseWriter, r *http.Request, why *refusal) bool {
	if why != nil {
		answerError(w, r, why.code, why.message)
	}
	return why != nil
}

func (a *api) ignores(r *http.Request) bool {
	stripped := stripListenPath(a.def.Proxy.ListenPath, r.URL.Path)
	for _, p := range a.ignored {
		if (p.method == "" || p.method == r.Method) &&
			(p.pattern.MatchString(stripped) || p.pattern.MatchString(r.URL.Path)) {
			return true
		}
	}
	return false
}

// authenticate puts the session of the request's key into its context.
func (a *api) authenticate(r *http.Request) *refusal {
	token := credential(r, a.auth)
	if token == "" {
		return errNoKey
	}
	if len(token) < a.gw.conf.MinTokenLength {
		return errDisallowed
	}
	id, session := a.gw.keys.find(a.def.OrgID, token)
	if session == nil {
		return errDisallowed
	}
	if err := a.gw.state.Load().policies.apply(session, a.def.OrgID); err != nil {
		a.gw.log.WithField("api_id", a.def.APIID).Error(err)
		return errDisallowed
	}
	session.KeyID = id
	session.SetKeyHash(a.gw.keyHash(id))
	ctx.SetSession(r, session, false, a.gw.conf.HashKeys)
	return nil
}

// authorise checks what the gateway checks after the post_key_auth hooks.
func (a *api) authorise(session *user.SessionState) *refusal {
	_, allowed := session.AccessRights[a.def.APIID]
	switch {
	case session.IsInactive:
		return errInactive
	case session.Expires >= 1 && time.Now().After(time.Unix(session.Expires, 0)):
		return errExpired
	case len(session.AccessRights) > 0 && !allowed:
		return errDisallowed
	}
	return nil
}

// credential looks in the header, which a query parameter overrides, which a
// cookie overrides.
func credential(r *http.Request, auth apidef.AuthConfig) string {
	header, param, cookie := authNames(auth)
	token := ""
	if !auth.DisableHeader {
		token = r.Header.Get(header)
	}
	if auth.UseParam {
		if v := r.URL.Query().Get(param); v != "" {
			token = v
		}
	}
	if auth.UseCookie {
		if c, err := r.Cookie(cookie); err == nil && c.Value != "" {
			token = c.Value
		}
	}
	if len(token) >= 7 && strings.EqualFold(token[:7], "Bearer ") {
		token = token[7:]
	}
	return token
}

func authNames(auth apidef.AuthConfig) (header, param, cookie string) {
	header, param, cookie = auth.AuthHeaderName, auth.ParamName, auth.CookieName
	if header == "" {
		header = "Authorization"
	}
	fallback := header
	if auth.DisableHeader {
		fallback = "Authorization"
	}
	if param == "" {
		param = fallback
	}
	if cookie == "" {
		cookie = fallback
	}
	return header, param, cookie
}

// stripAuth removes the credential from what the upstream gets.
func (a *api) stripAuth(r *http.Request) {
	configs := a.def.AuthConfigs
	if len(configs) == 0 {
		configs = map[string]apidef.AuthConfig{apidef.AuthTokenType: a.def.Auth}
	}
	for _, auth := range configs {
		header, param, cookie := authNames(auth)
		r.Header.Del(header)
		if auth.UseParam {
			query := r.URL.Query()
			query.Del(param)
			r.URL.RawQuery = query.Encode()
		}
		stripCookie(r.Header, cookie)
	}
}

func stripCookie(h http.Header, name string) {
	var kept []string
	for _, c := range strings.Split(h.Get("Cookie"), ";") {
		if c = strings.TrimSpace(c); c != "" && !strings.HasPrefix(c, name+"=") {
			kept = append(kept, c)
		}
	}
	h.Del("Cookie")
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}
