package e2e

import (
	"context"
	"encoding/base64"
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
		APIs: []rig.API{{ID: api, Fields: rig.Object{
			"use_oauth2": true, "use_standard_auth": false,
			"oauth_meta":   rig.Object{"allowed_access_types": []string{"client_credentials"}, "allowed_authorize_types": []string{}},
			"auth_configs": rig.Object{"oauth": rig.Object{"auth_header_name": "Authorization"}},
		}}},
		Policies: map[string]rig.Object{api + "-policy": policyFor(api, limits("1/h burst 3"))},
	})
	c := clientOf(t, g, api)
	var client struct {
		ID     string `json:"client_id"`
		Secret string `json:"secret"`
	}
	decode(t, g.Send(context.Background(), rig.Request{
		Method: "POST", Path: "/tyk/oauth/clients/create", Header: rig.Header{rig.AdminHeader: g.Secret},
		Body: `{"api_id":"oauth2","redirect_uri":"http://127.0.0.1/","policy_id":"oauth2-policy"}`,
	}), &client)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(client.ID+":"+client.Secret))
	for range 2 {
		var token struct {
			Access string `json:"access_token"`
		}
		decode(t, g.Send(context.Background(), rig.Request{
			Method: "POST", Path: "/" + api + "/oauth/token/", Key: basic, Body: "grant_type=client_credentials",
			Header: rig.Header{"Content-Type": "application/x-www-form-urlencoded"},
		}), &token)
		c.admits(3, 5, rig.Request{Key: "Bearer " + token.Access})
	}
}

func decode(t *testing.T, r rig.Reply, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Body), into); r.Err != nil || r.Status != 200 || err != nil {
		t.Fatalf("%v: %v", r, err)
	}
}
