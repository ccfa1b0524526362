package e2e

import (
	"encoding/base64"
	"strings"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

// The plugin writes of every key here that its limit is unusable, and shows
// nothing that would let anybody in.
func TestNoCredentialIsInThePluginsLog(t *testing.T) {
	realOnly(t, "JWT, basic auth, OAuth2, HMAC signatures")
	t.Parallel()
	unusable := limits("many")
	g := own(t, rig.Options{
		APIs: []rig.API{
			byDefault(rig.API{ID: "token"}), jwtAPI("jwt", "1/h burst 2"),
			byDefault(basicAPI("basic")), byDefault(hmacAPI("hmac")), byDefault(oauthAPI("oauth")),
		},
		Policies: map[string]rig.Object{
			"subjects":     policyOver(unusable, "jwt"),
			"oauth-policy": policyOver(unusable, "oauth"),
		},
		Conf: rig.Object{"hash_keys": false},
	})
	of := func(api string) *client { return clientOf(t, g, api) }
	tokens, subjects, users, signers, clients := of("token"), of("jwt"), of("basic"), of("hmac"), of("oauth")
	key := tokens.key(unusable)
	users.user("user-with-a-password", "password-of-the-user", unusable)
	signers.signer("signer-with-a-secret", "secret-of-the-signer", unusable)
	subject := token("subject", "subjects", 1)
	app := newOAuthClient(t, g, "oauth")
	access, clientSecret := app.accessToken(t, g, "oauth"), app.Secret

	for _, mode := range []struct {
		*client
		request rig.Request
		secrets []string
	}{
		{tokens, rig.Request{Key: key}, []string{key}},
		{subjects, bearer(subject), append(strings.Split(subject, "."), jwtSecret)},
		{users, basic("user-with-a-password", "password-of-the-user"), []string{
			"password-of-the-user", base64.StdEncoding.EncodeToString([]byte("user-with-a-password:password-of-the-user"))}},
		{signers, signed("signer-with-a-secret", "secret-of-the-signer", 0), []string{"secret-of-the-signer"}},
		{clients, bearer(access), []string{access, clientSecret}},
	} {
		before := len(g.Log.Lines("prefix=ratelimit"))
		mode.admits(2, 4, mode.request)
		lines := g.Log.Lines("prefix=ratelimit")
		if got := len(lines) - before; got != 1 {
			t.Errorf("%s: %d lines, want one warning: %q", mode.api, got, lines[before:])
		}
		mode.hides(mode.secrets)
	}
}

// hides fails if a secret is in a line of the plugin's, and tells of those in
// the gateway's own.
func (c *client) hides(secrets []string) {
	c.t.Helper()
	for _, secret := range secrets {
		for _, line := range c.g.Log.Lines(secret) {
			if strings.Contains(line, "prefix=ratelimit") {
				c.t.Errorf("%s: a credential is in the plugin's log: %s", c.api, line)
			} else {
				c.t.Logf("%s: a credential is in the gateway's own log: %s", c.api, line)
			}
		}
	}
}

func byDefault(a rig.API) rig.API {
	a.RateLimit = rig.Object{"default": "1/h burst 2"}
	return a
}

func oauthAPI(id string) rig.API {
	return rig.API{ID: id, Fields: rig.Object{
		"use_oauth2": true, "use_standard_auth": false,
		"oauth_meta":   rig.Object{"allowed_access_types": []string{"client_credentials"}, "allowed_authorize_types": []string{}},
		"auth_configs": rig.Object{"oauth": rig.Object{"auth_header_name": "Authorization"}},
	}}
}
