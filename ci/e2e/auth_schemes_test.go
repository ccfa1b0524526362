package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

// The ways to authenticate besides the auth token, each in a classic and in an
// OAS definition, on the shared gateway.
var (
	jwtAPIs   = classicAndOAS(jwtAPI("jwt", "1/h burst 1"))
	basicAPIs = classicAndOAS(basicAPI("basic"))
	hmacAPIs  = classicAndOAS(hmacAPI("hmac"))
)

func init() {
	policies["subjects"] = policyOver(limits("1/h burst 6"), jwtAPIs...)
}

// classicAndOAS adds both kinds of an API to the shared gateway.
func classicAndOAS(a rig.API) []string {
	oas := a
	oas.ID, oas.OAS = a.ID+"-as-oas", true
	return []string{shared.api(a), shared.api(oas)}
}

// policyOver gives keys access to APIs, and metadata.
func policyOver(metadata rig.Object, apis ...string) rig.Object {
	p := policyFor("", metadata)
	rights := rig.Object{}
	for _, api := range apis {
		rights[api] = rig.Object{"api_id": api, "api_name": api, "versions": []string{"Default"}}
	}
	delete(p, "id")
	p["access_rights"] = rights
	return p
}

func jwtAPI(id, byDefault string) rig.API {
	fields := jwtFields()
	return rig.API{
		ID: id, Fields: fields, RateLimit: rig.Object{"default": byDefault},
		Security: &rig.Security{
			Name:   "jwt",
			Scheme: rig.Object{"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
			Tyk: rig.Object{
				"header": rig.Object{"enabled": true, "name": "Authorization"}, "signingMethod": "hmac",
				"source": fields["jwt_source"], "identityBaseField": "sub", "policyFieldName": "pol",
			},
		},
	}
}

func basicAPI(id string) rig.API {
	return rig.API{
		ID: id,
		Fields: rig.Object{
			"use_basic_auth": true, "use_standard_auth": false,
			"auth_configs": rig.Object{"basic": rig.Object{"auth_header_name": "Authorization"}},
		},
		Security: &rig.Security{
			Name:   "basic",
			Scheme: rig.Object{"type": "http", "scheme": "basic"},
			Tyk:    rig.Object{"header": rig.Object{"enabled": true, "name": "Authorization"}},
		},
	}
}

func hmacAPI(id string) rig.API {
	return rig.API{
		ID: id,
		Fields: rig.Object{
			"enable_signature_checking": true, "use_standard_auth": false, "hmac_allowed_clock_skew": -1,
			"auth_configs": rig.Object{"hmac": rig.Object{"auth_header_name": "Authorization"}},
		},
		Security: &rig.Security{Name: "hmac", Tyk: rig.Object{
			"header": rig.Object{"enabled": true, "name": "Authorization"}, "allowedClockSkew": -1,
		}},
	}
}

func bearer(token string) rig.Request { return rig.Request{Key: "Bearer " + token} }

func basic(user, password string) rig.Request {
	return rig.Request{Key: "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
}

// signed makes a request whose date, and so its signature, differs for each n.
func signed(key, secret string, n int) rig.Request {
	date := time.Now().UTC().Add(time.Duration(n) * time.Second).Format(http.TimeFormat)
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte("date: " + date))
	signature := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return rig.Request{
		Key:    fmt.Sprintf(`Signature keyId=%q,algorithm="hmac-sha1",signature=%q`, key, signature),
		Header: rig.Header{"Date": date},
	}
}

func (c *client) user(name, password string, metadata rig.Object) {
	c.t.Helper()
	k := rig.Key{APIs: []string{c.api}, Metadata: metadata}
	if err := c.g.CreateUser(context.Background(), name, password, k); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) signer(name, secret string, metadata rig.Object) {
	c.t.Helper()
	k := rig.Key{APIs: []string{c.api}, Metadata: metadata}
	if err := c.g.CreateSigner(context.Background(), name, secret, k); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) keyAs(id string, k rig.Key) {
	c.t.Helper()
	k.APIs = []string{c.api}
	if err := c.g.CreateKeyAs(context.Background(), id, k); err != nil {
		c.t.Fatal(err)
	}
}

// wantRejected sends a request that the gateway itself must not accept.
func (c *client) wantRejected(q rig.Request) {
	c.t.Helper()
	if r := c.send(q); r.Status/100 != 4 || r.Refused() {
		c.t.Errorf("%s: %v, want the gateway's own refusal", c.api, r)
	}
}

// A new subject's first request comes without its policy's metadata, so the
// API's default is all that there is to go by: the next one has the metadata,
// though the default is used up.
func TestH16FirstRequestDoesNotFreezeALimit(t *testing.T) {
	realOnly(t, "JWT")
	t.Parallel()
	for _, api := range jwtAPIs {
		c := of(t, api)
		one, other := token("erin of "+api, "subjects", 1), token("erin of "+api, "subjects", 2)
		c.admits(1, 1, bearer(one))
		c.admits(1, 1, bearer(one))
		c.admits(1, 1, bearer(other))
		c.admits(1, 1, bearer(one))
		c.admits(3, 5, bearer(other)) // 6 of the policy's in all
		c.admits(0, 2, bearer(one))
		c.admits(1, 1, bearer(token("frank of "+api, "subjects", 1)))
		c.wantRejected(bearer(one[:len(one)-4] + "AAAA"))
	}
}

func TestBasicAuthUserHasOneBucketInEverySpelling(t *testing.T) {
	realOnly(t, "basic auth")
	t.Parallel()
	for _, api := range basicAPIs {
		c := of(t, api)
		for _, name := range []string{"grace-of-" + api, "heidi-of-" + api} {
			c.user(name, "password-of-grace", limits("1/h burst 3"))
			c.admits(2, 2, basic(name, "password-of-grace"))
			c.admits(1, 3, basic(rig.Org+name, "password-of-grace"))
			c.admits(0, 2, basic(name, "password-of-grace"))
			c.wantRejected(basic(name, "another password"))
		}
	}
}

// What is refused has been authenticated: a drained key with a wrong signature,
// and one that is no more, get the gateway's own answer.
func TestSignedRequestsAreAuthenticatedBeforeTheyAreLimited(t *testing.T) {
	realOnly(t, "HMAC signatures")
	t.Parallel()
	for _, api := range hmacAPIs {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			authenticatesBeforeItLimits(of(t, api))
		})
	}
}

func authenticatesBeforeItLimits(c *client) {
	c.t.Helper()
	name, secret := "signer-of-"+c.api, "secret-of-the-signer"
	c.signer(name, secret, limits("1/h burst 3"))
	replayed := signed(name, secret, 0)
	c.admits(2, 2, replayed)
	c.admits(1, 3, signed(name, secret, 1))
	c.admits(0, 2, replayed)
	c.admits(0, 2, signed(rig.Org+name, secret, 2))
	c.wantRejected(signed(name, "another secret", 3))
	if err := c.g.DeleteKey(context.Background(), name); err != nil {
		c.t.Fatal(err)
	}
	until(c.t, learnLimit, func() error {
		if r := c.send(replayed); r.Refused() {
			return fmt.Errorf("a deleted key: %v", r)
		}
		return nil
	})
	c.wantRejected(replayed)
}
