package rig

import (
	"context"
	"net/http"
)

// Security is how requests of an OAS API are authenticated.
type Security struct {
	Name   string // of the scheme
	Scheme Object // in the document's own securitySchemes; nil if it has no place there
	Tyk    Object // in the gateway's authentication section, under the same name
}

var authToken = Security{
	Name:   "authToken",
	Scheme: Object{"type": "apiKey", "in": "header", "name": "Authorization"},
	Tyk:    Object{"header": Object{"enabled": true, "name": "Authorization"}},
}

// apply writes the scheme into both parts of the document.
func (s Security) apply(doc, server Object) {
	scheme := Object{"enabled": true}
	merge(scheme, s.Tyk)
	authentication := Object{"enabled": true}
	server["authentication"] = authentication
	if s.Scheme == nil { // the gateway's own, beside the schemes
		authentication[s.Name] = scheme
		return
	}
	authentication["securitySchemes"] = Object{s.Name: scheme}
	doc["components"] = Object{"securitySchemes": Object{s.Name: s.Scheme}}
	doc["security"] = []Object{{s.Name: []string{}}}
}

// CreateUser makes a key for basic auth. Its name is no secret.
func (g *Gateway) CreateUser(ctx context.Context, name, password string, k Key) error {
	k.Fields = Object{"basic_auth_data": Object{"password": password}}
	g.remember(password)
	return g.admin(ctx, http.MethodPost, keyPath(name), k.session(), nil)
}

// CreateSigner makes a key for HMAC signatures. Its name is no secret: the
// gateway itself logs it.
func (g *Gateway) CreateSigner(ctx context.Context, name, secret string, k Key) error {
	k.Fields = Object{"hmac_enabled": true, "hmac_string": secret}
	g.remember(secret)
	return g.admin(ctx, http.MethodPost, keyPath(name), k.session(), nil)
}
