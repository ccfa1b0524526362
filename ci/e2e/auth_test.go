package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

const jwtSecret = "a-secret-for-tokens-of-the-suite"

func jwtFields() rig.Object {
	return rig.Object{
		"enable_jwt": true, "use_standard_auth": false,
		"auth_configs":       rig.Object{"jwt": rig.Object{"auth_header_name": "Authorization"}},
		"jwt_signing_method": "hmac", "jwt_source": base64.StdEncoding.EncodeToString([]byte(jwtSecret)),
		"jwt_identity_base_field": "sub", "jwt_policy_field_name": "pol",
	}
}

// token makes a JWT; n makes two tokens of one subject different.
func token(subject, policy string, n int) string {
	encode := base64.RawURLEncoding.EncodeToString
	payload := fmt.Sprintf(`{"sub":%q,"pol":%q,"n":%d,"exp":%d}`, subject, policy, n, time.Now().Add(time.Hour).Unix())
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(payload))
	mac := hmac.New(sha256.New, []byte(jwtSecret))
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

func TestH16TwoTokensOfOneSubjectShareABucket(t *testing.T) {
	realOnly(t, "JWT")
	t.Parallel()
	g := own(t, rig.Options{
		APIs: []rig.API{{ID: "jwt", Fields: jwtFields(), RateLimit: rig.Object{"default": "1/h burst 2"}}},
		Policies: map[string]rig.Object{"jwt-policy": {
			"id": "jwt-policy", "org_id": rig.Org, "active": true, "meta_data": limits("1/h burst 6"),
			"rate": 0, "per": 0, "quota_max": -1,
			"access_rights": rig.Object{"jwt": rig.Object{"api_id": "jwt", "api_name": "jwt", "versions": []string{"Default"}}},
		}},
	})
	c := clientOf(t, g, "jwt")
	// A new subject's first request may come without its policy's metadata, at
	// the API's default: that is not what it stays at.
	first, second := "Bearer "+token("alice", "jwt-policy", 1), "Bearer "+token("alice", "jwt-policy", 2)
	c.admits(1, 1, rig.Request{Key: first})
	var rs replies
	for range 5 {
		rs = append(rs, c.get(second), c.get(first))
	}
	if n := rs.admitted(); n < 5 || n > 6 {
		t.Errorf("%d of 10 admitted after the first, want 5 or 6", n)
	}
	for _, credential := range []string{first, second} {
		c.admits(0, 2, rig.Request{Key: credential})
	}
	for _, raw := range []string{first, second} {
		if strings.Contains(g.Log.String(), strings.TrimPrefix(raw, "Bearer ")) {
			t.Error("a raw JWT is in the log")
		}
	}
}

func TestBasicAuthUsersHaveABucketEach(t *testing.T) {
	realOnly(t, "basic auth")
	t.Parallel()
	g := own(t, rig.Options{APIs: []rig.API{{ID: "basic", Fields: rig.Object{
		"use_basic_auth": true, "use_standard_auth": false,
		"auth_configs": rig.Object{"basic": rig.Object{"auth_header_name": "Authorization"}},
	}}}})
	c := clientOf(t, g, "basic")
	for _, user := range []string{"carol", "dave"} {
		err := g.CreateKeyAs(context.Background(), user, rig.Key{
			APIs: []string{"basic"}, Metadata: limits("1/h burst 3"),
			Fields: rig.Object{"basic_auth_data": rig.Object{"password": "pass-of-" + user}},
		})
		if err != nil {
			t.Fatal(err)
		}
		credential := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":pass-of-"+user))
		c.admits(3, 5, rig.Request{Key: credential})
	}
}

// Every signature differs, so none is learned: each request is authenticated,
// and limited after that.
func TestSignedRequestsAreLimitedAndNeverLearned(t *testing.T) {
	realOnly(t, "HMAC signatures")
	t.Parallel()
	g := own(t, rig.Options{APIs: []rig.API{{ID: "hmac", Fields: rig.Object{
		"enable_signature_checking": true, "use_standard_auth": false, "hmac_allowed_clock_skew": -1,
		"auth_configs": rig.Object{"hmac": rig.Object{"auth_header_name": "Authorization"}},
	}}}})
	c := clientOf(t, g, "hmac")
	secret := "secret-of-the-signatures"
	const key = "signing-key-0123" // not one of the gateway's: it cannot parse their padding here
	err := g.CreateKeyAs(context.Background(), key, rig.Key{APIs: []string{"hmac"}, Metadata: limits("1/h burst 3"),
		Fields: rig.Object{"hmac_enabled": true, "hmac_string": secret}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		c.admits(map[bool]int{true: 1}[n < 3], 1, signed(key, secret, n))
	}
	if r := c.send(signed(key, "another secret", 7)); r.Status/100 != 4 || r.Refused() {
		t.Errorf("a wrong signature: %v, want the gateway's own refusal", r)
	}
}

func TestEveryWayToStoreKeys(t *testing.T) {
	realOnly(t, "choice of key hashes")
	for name, conf := range map[string]rig.Object{
		"unhashed":  {"hash_keys": false},
		"legacy":    {"hash_keys": true, "hash_key_function": ""},
		"murmur128": {"hash_keys": true, "hash_key_function": "murmur128"},
		"sha256":    {"hash_keys": true, "hash_key_function": "sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := own(t, rig.Options{APIs: []rig.API{{ID: "stored"}}, Conf: conf})
			c := clientOf(t, g, "stored")
			c.admits(3, 5, rig.Request{Key: c.key(limits("1/h burst 3"))})
			if err := g.CreateKeyAs(context.Background(), "custom-id-0123", rig.Key{APIs: []string{"stored"}, Metadata: limits("1/h burst 2")}); err != nil {
				t.Fatal(err)
			}
			c.admits(2, 4, rig.Request{Key: "custom-id-0123"})
		})
	}
}
