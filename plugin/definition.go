package plugin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sort"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
)

// A definition is the part of an API definition, classic or OAS, that the
// settings are made from.
type definition struct {
	api, org   string
	keyless    bool
	sources    []source
	listenPath string
	config     map[string]any
}

// authorization is where credentials are unless the definition says otherwise.
const authorization = "Authorization"

func fromClassic(d *apidef.APIDefinition) definition {
	out := definition{api: d.APIID, org: d.OrgID, keyless: d.UseKeylessAccess, listenPath: d.Proxy.ListenPath}
	if !d.ConfigDataDisabled {
		out.config = d.ConfigData
	}
	// Signatures differ in every request, a custom plugin may look at anything,
	// and a body is not ours to read: there is no credential to know again.
	if d.EnableSignatureChecking || d.UseGoPluginAuth || d.EnableCoProcessAuth || d.CustomPluginAuthEnabled ||
		d.UseBasicAuth && d.BasicAuth.ExtractFromBody {
		return out
	}
	modes := []struct {
		on   bool
		name string
	}{
		{d.UseStandardAuth, "authToken"},
		{d.EnableJWT, "jwt"},
		{d.UseOauth2, "oauth"},
		{d.UseBasicAuth, "basic"},
		{d.UseOpenID, "oidc"},
		{d.ExternalOAuth.Enabled, "externalOAuth"},
	}
	for _, mode := range modes {
		if mode.on {
			out.sources = append(out.sources, classicSource(d, mode.name))
		}
	}
	if len(out.sources) == 0 { // the gateway takes it for an auth token
		out.sources = []source{classicSource(d, "authToken")}
	}
	return out
}

func classicSource(d *apidef.APIDefinition, mode string) source {
	c, ok := d.AuthConfigs[mode]
	if !ok && (mode == "authToken" || mode == "jwt") {
		c = d.Auth
	}
	s := source{certificate: c.UseCertificate}
	name := authorization
	if !c.DisableHeader {
		if c.AuthHeaderName != "" {
			name = c.AuthHeaderName
		}
		s.header = http.CanonicalHeaderKey(name)
	}
	if c.UseParam {
		s.param = or(c.ParamName, name)
	}
	if c.UseCookie {
		s.cookie = or(c.CookieName, name)
	}
	return s
}

func or(name, fallback string) string {
	if name != "" {
		return name
	}
	return fallback
}

// document is the public JSON form of an OAS API.
type document struct {
	Components struct {
		SecuritySchemes map[string]struct{ In, Name string } `json:"securitySchemes"`
	} `json:"components"`
	Tyk struct {
		Info struct {
			ID    string `json:"id"`
			OrgID string `json:"orgId"`
		} `json:"info"`
		Server struct {
			ListenPath struct {
				Value string `json:"value"`
			} `json:"listenPath"`
			Authentication *oasAuthentication `json:"authentication"`
		} `json:"server"`
		Middleware struct {
			Global struct {
				PluginConfig struct {
					Data struct {
						Enabled bool           `json:"enabled"`
						Value   map[string]any `json:"value"`
					} `json:"data"`
				} `json:"pluginConfig"`
			} `json:"global"`
		} `json:"middleware"`
	} `json:"x-tyk-api-gateway"`
}

type oasAuthentication struct {
	Enabled bool        `json:"enabled"`
	HMAC    oasScheme   `json:"hmac"`
	Custom  oasScheme   `json:"custom"`
	OIDC    oasScheme   `json:"oidc"`
	Schemes oasSchemes  `json:"securitySchemes"`
	MTLS    oasCertAuth `json:"certificateAuth"`
}

type oasSchemes map[string]oasScheme

type oasScheme struct {
	Enabled     bool     `json:"enabled"`
	Header      oasPlace `json:"header"`
	Query       oasPlace `json:"query"`
	Cookie      oasPlace `json:"cookie"`
	Certificate bool     `json:"enableClientCertificate"`
	Body        struct {
		Enabled bool `json:"enabled"`
	} `json:"extractCredentialsFromBody"`
}

type oasPlace struct {
	Enabled bool   `json:"enabled"`
	Name    string `json:"name"`
}

type oasCertAuth struct {
	Enabled bool `json:"enabled"`
}

// fromOAS reads the document by its JSON form: the gateway decodes its own
// extension lazily, which must not happen on the request path.
func fromOAS(d *oas.OAS) (definition, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return definition{}, fmt.Errorf("OAS document: %w", err)
	}
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return definition{}, fmt.Errorf("OAS document: %w", err)
	}
	auth := doc.Tyk.Server.Authentication
	out := definition{
		api: doc.Tyk.Info.ID, org: doc.Tyk.Info.OrgID, keyless: auth == nil || !auth.Enabled,
		listenPath: doc.Tyk.Server.ListenPath.Value,
	}
	if data := doc.Tyk.Middleware.Global.PluginConfig.Data; data.Enabled {
		out.config = data.Value
	}
	if !out.keyless {
		out.sources = doc.sources(auth)
	}
	return out, nil
}

func (doc *document) sources(auth *oasAuthentication) []source {
	if auth.HMAC.Enabled || auth.Custom.Enabled {
		return nil
	}
	var sources []source
	names := make([]string, 0, len(auth.Schemes))
	for name := range auth.Schemes {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		scheme := auth.Schemes[name]
		switch {
		case !scheme.Enabled:
		case scheme.Body.Enabled:
			return nil
		default:
			s := scheme.source()
			s.certificate = s.certificate || auth.MTLS.Enabled
			native := doc.Components.SecuritySchemes[name]
			switch native.In {
			case "header":
				s.header = http.CanonicalHeaderKey(or(native.Name, authorization))
			case "query":
				s.param = or(native.Name, authorization)
			case "cookie":
				s.cookie = or(native.Name, authorization)
			}
			sources = append(sources, s)
		}
	}
	if auth.OIDC.Enabled {
		sources = append(sources, auth.OIDC.source())
	}
	if len(sources) == 0 {
		sources = []source{{header: authorization}}
	}
	return sources
}

func (s oasScheme) source() source {
	out := source{certificate: s.Certificate}
	name := authorization
	if s.Header.Enabled {
		name = or(s.Header.Name, name)
		out.header = http.CanonicalHeaderKey(name)
	}
	if s.Query.Enabled {
		out.param = or(s.Query.Name, name)
	}
	if s.Cookie.Enabled {
		out.cookie = or(s.Cookie.Name, name)
	}
	return out
}
