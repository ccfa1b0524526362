package e2e

import (
	"context"
	"encoding/json"
	"testing"

	"tokenbucket.internal/ci/e2e/rig"
)

// policyFor gives keys access to an API, and metadata.
func policyFor(api string, metadata rig.Object) rig.Object {
	return rig.Object{
		"id": api + "-policy", "org_id": rig.Org, "active": true, "meta_data": metadata,
		"rate": 0, "per": 0, "quota_max": -1,
		"access_rights": rig.Object{api: rig.Object{"api_id": api, "api_name": api, "versions": []string{"Default"}}},
	}
}

func TestOAuth2AccessTokensAreLimited(t *testing.T) {
	realOnly(t, "OAuth2")
	t.Parallel()
	const api = "oauth2"
	g := own(t, rig.Options{
		APIs:     []rig.API{oauthAPI(api)},
		Policies: map[string]rig.Object{api + "-policy": policyFor(api, limits("1/h burst 3"))},
	})
	c := clientOf(t, g, api)
	client := newOAuthClient(t, g, api)
	for range 2 {
		c.admits(3, 5, rig.Request{Key: "Bearer " + client.accessToken(t, g, api)})
	}
}

// A client that fetches a new token when it is drained has the tokens' bucket.
func TestOAuth2ClientScopeIsOneBucketForItsTokens(t *testing.T) {
	realOnly(t, "OAuth2")
	t.Parallel()
	const api = "oauth2-client"
	definition := oauthAPI(api)
	definition.RateLimit = rig.Object{"scope": "oauth_client"}
	g := own(t, rig.Options{
		APIs:     []rig.API{definition},
		Policies: map[string]rig.Object{api + "-policy": policyFor(api, limits("1/h burst 3"))},
	})
	c := clientOf(t, g, api)
	client := newOAuthClient(t, g, api)
	c.admits(2, 2, rig.Request{Key: "Bearer " + client.accessToken(t, g, api)})
	c.admits(1, 3, rig.Request{Key: "Bearer " + client.accessToken(t, g, api)})
	c.admits(3, 4, rig.Request{Key: "Bearer " + newOAuthClient(t, g, api).accessToken(t, g, api)})
}

type oauthClient struct {
	ID     string `json:"client_id"`
	Secret string `json:"secret"`
}

// newOAuthClient makes a client under the API's policy.
func newOAuthClient(t *testing.T, g *rig.Gateway, api string) (client oauthClient) {
	t.Helper()
	decode(t, g.Send(context.Background(), rig.Request{
		Method: "POST", Path: "/tyk/oauth/clients/create", Header: rig.Header{rig.AdminHeader: g.Secret},
		Body: `{"api_id":"` + api + `","redirect_uri":"http://127.0.0.1/","policy_id":"` + api + `-policy"}`,
	}), &client)
	return client
}

func (client oauthClient) accessToken(t *testing.T, g *rig.Gateway, api string) string {
	t.Helper()
	var token struct {
		Access string `json:"access_token"`
	}
	q := basic(client.ID, client.Secret)
	q.Method, q.Path, q.Body = "POST", "/"+api+"/oauth/token/", "grant_type=client_credentials"
	q.Header = rig.Header{"Content-Type": "application/x-www-form-urlencoded"}
	decode(t, g.Send(context.Background(), q), &token)
	return token.Access
}

func decode(t *testing.T, r rig.Reply, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Body), into); r.Err != nil || r.Status != 200 || err != nil {
		t.Fatalf("%v: %v", r, err)
	}
}
