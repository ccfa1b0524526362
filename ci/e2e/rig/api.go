package rig

import "path/filepath"

// Object is JSON.
type Object = map[string]any

// Org is the organisation of all APIs, keys and policies.
const Org = "default"

// From says where an API has the plugin from.
type From int

const (
	FromBundle     From = iota // a bundle that the gateway downloads
	ResponseBundle             // one with the response hook, which few need
	FromFile                   // the .so itself
	AllHooks                   // the .so itself, with the response hook
	Nowhere                    // the API has no plugin
)

// An API is one API definition. It listens at /<ID>/ and forwards to the
// upstream at the same path.
type API struct {
	ID        string
	OAS       bool // as an OpenAPI document, or classic
	Keyless   bool
	Plugin    From
	Bundle    string    // name of the bundle; "" for the one that the rig builds
	RateLimit Object    // config_data.ratelimit
	Ignored   []string  // endpoints that skip authentication
	Auth      Object    // fields of the auth section to set
	Fields    Object    // other fields of the classic definition to set
	Security  *Security // of an OAS API; nil for the auth token
}

type hook struct{ classic, oas, name string }

// hooks are the plugin's, with their places in both kinds of definition.
var hooks = []hook{
	{"pre", "prePlugins", "RateLimitPre"},
	{"post_key_auth", "postAuthenticationPlugins", "RateLimitPostKeyAuth"},
	{"response", "responsePlugins", "RateLimitResponse"},
}

// classic writes the classic definition. An OAS API has one too, beside its
// document: that is how a gateway stores it.
func (a API) classic(upstream, so string) Object {
	var ignored []Object
	for _, path := range a.Ignored {
		ignored = append(ignored, Object{"path": path})
	}
	auth := Object{"auth_header_name": "Authorization"}
	merge(auth, a.Auth)
	def := Object{
		"name": a.ID, "slug": a.ID, "api_id": a.ID, "org_id": Org, "active": true,
		"is_oas": a.OAS, "use_keyless": a.Keyless,
		"auth": auth, "auth_configs": Object{"authToken": auth},
		"definition": Object{"location": "header", "key": "x-api-version"},
		"version_data": Object{"not_versioned": true, "versions": Object{"Default": Object{
			"name": "Default", "use_extended_paths": true,
			"extended_paths": Object{"ignored": ignored},
		}}},
		"proxy": Object{
			"listen_path": "/" + a.ID + "/", "strip_listen_path": true,
			"target_url": upstream + "/" + a.ID + "/",
		},
		// The gateway's own limits stay out of what is tested.
		"disable_rate_limit": true, "disable_quota": true,
	}
	if a.RateLimit != nil {
		def["config_data"] = Object{"ratelimit": a.RateLimit}
	}
	switch a.Plugin {
	case FromBundle, ResponseBundle:
		def["custom_middleware_bundle"] = a.Bundle
	case FromFile, AllHooks:
		def["custom_middleware"] = a.middleware(so)
	}
	merge(def, a.Fields)
	return def
}

func (a API) middleware(so string) Object {
	section := Object{"driver": "goplugin"}
	for _, h := range a.hooks() {
		section[h.classic] = []Object{{"name": h.name, "path": so}}
	}
	return section
}

func (a API) hooks() []hook {
	if a.Plugin == AllHooks {
		return hooks
	}
	return hooks[:2]
}

// document writes the OpenAPI document of an OAS API.
func (a API) document(upstream, so string) Object {
	doc := Object{
		"openapi": "3.0.3",
		"info":    Object{"title": a.ID, "version": "1"},
		"paths":   Object{},
	}
	tyk := Object{
		"info": Object{"id": a.ID, "name": a.ID, "orgId": Org, "state": Object{"active": true}},
		"server": Object{
			"listenPath": Object{"value": "/" + a.ID + "/", "strip": true},
		},
		"upstream":   Object{"url": upstream + "/" + a.ID + "/"},
		"middleware": Object{"global": a.global(so)},
	}
	if !a.Keyless {
		security := authToken
		if a.Security != nil {
			security = *a.Security
		}
		security.apply(doc, tyk["server"].(Object))
	}
	doc["x-tyk-api-gateway"] = tyk
	return doc
}

func (a API) global(so string) Object {
	config := Object{"driver": "goplugin"}
	if a.RateLimit != nil {
		config["data"] = Object{"enabled": true, "value": Object{"ratelimit": a.RateLimit}}
	}
	global := Object{"pluginConfig": config}
	switch a.Plugin {
	case FromBundle, ResponseBundle:
		config["bundle"] = Object{"enabled": true, "path": a.Bundle}
	case FromFile, AllHooks:
		for _, h := range a.hooks() {
			global[h.oas] = []Object{{"enabled": true, "functionName": h.name, "path": so}}
		}
	}
	return global
}

// write puts the definition where the gateway looks for it.
func (a API) write(dir, upstream, so string) error {
	file := filepath.Join(dir, a.ID+".api") // an id may itself end in -oas
	if a.OAS {
		if err := writeJSON(file+"-oas.json", a.document(upstream, so)); err != nil {
			return err
		}
	}
	return writeJSON(file+".json", a.classic(upstream, so))
}

func merge(into, changes Object) {
	for name, value := range changes {
		into[name] = value
	}
}
