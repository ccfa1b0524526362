package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
)

// loadAPIs loads every definition of app_path, the longest listen path first.
// A definition that is unusable is logged and left out, as the gateway does.
func (g *gateway) loadAPIs() []*api {
	files, _ := filepath.Glob(filepath.Join(g.conf.AppPath, "*.json"))
	var apis []*api
	taken := make(map[string]string)
	for _, file := range files {
		if strings.HasSuffix(file, "-oas.json") || strings.HasSuffix(file, "-mcp.json") {
			continue // read with the classic file beside it
		}
		a, err := g.loadAPI(file)
		if err == nil {
			err = claim(taken, file, a.def)
		}
		if err != nil {
			g.log.Errorf("API not loaded: %v", err)
			continue
		}
		apis = append(apis, a)
	}
	sort.SliceStable(apis, func(i, j int) bool {
		return len(apis[i].def.Proxy.ListenPath) > len(apis[j].def.Proxy.ListenPath)
	})
	return apis
}

// claim refuses an id or a listen path that another file has.
func claim(taken map[string]string, file string, def *apidef.APIDefinition) error {
	id, path := "api_id "+def.APIID, "proxy.listen_path "+def.Proxy.ListenPath
	for _, name := range []string{id, path} {
		if other := taken[name]; other != "" {
			return fmt.Errorf("%s: %s: %s has it too", file, name, other)
		}
	}
	taken[id], taken[path] = file, file
	return nil
}

func (g *gateway) loadAPI(file string) (*api, error) {
	def := new(apidef.APIDefinition)
	if err := readJSON(file, def); err != nil {
		return nil, err
	}
	a := &api{gw: g, def: def}
	if field, err := a.prepare(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", file, field, err)
	}
	if def.IsOAS {
		document := strings.TrimSuffix(file, ".json") + "-oas.json"
		a.oas = new(oas.OAS)
		if err := readJSON(document, a.oas); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s: is_oas: %s is missing", file, document)
		} else if err != nil {
			return nil, err
		}
	}
	folder := ""
	if def.CustomMiddlewareBundle != "" && !def.CustomMiddlewareBundleDisabled {
		var err error
		if folder, def.CustomMiddleware, err = g.loadBundle(def.CustomMiddlewareBundle); err != nil {
			return nil, fmt.Errorf("%s: custom_middleware_bundle: %w", file, err)
		}
	}
	if err := a.loadHooks(folder); err != nil {
		return nil, fmt.Errorf("%s: custom_middleware: %w", file, err)
	}
	return a, nil
}

// prepare checks the definition and derives what a request needs. It returns
// the first field that is wrong.
func (a *api) prepare() (field string, err error) {
	def := a.def
	switch path := def.Proxy.ListenPath; {
	case def.APIID == "":
		return "api_id", errors.New("missing")
	case !strings.HasPrefix(path, "/"):
		return "proxy.listen_path", fmt.Errorf("%q does not start with a slash", path)
	case strings.ContainsAny(path, " {}"):
		return "proxy.listen_path", fmt.Errorf("%q: spaces and {patterns} are not supported", path)
	}
	if a.target, err = url.Parse(def.Proxy.TargetURL); err != nil {
		return "proxy.target_url", err
	} else if a.target.Host == "" || a.target.Scheme != "http" && a.target.Scheme != "https" {
		return "proxy.target_url", fmt.Errorf("%q: want http:// or https:// and a host", def.Proxy.TargetURL)
	}
	if flag := unsupportedAuth(def); flag != "" {
		return flag, errors.New("not supported; this host knows auth tokens and keyless APIs")
	}
	a.auth = def.Auth
	if auth, ok := def.AuthConfigs[apidef.AuthTokenType]; ok {
		a.auth = auth
	}
	if a.auth.UseCertificate {
		return "auth.use_certificate", errors.New("not supported")
	}
	return a.prepareVersion()
}

func unsupportedAuth(def *apidef.APIDefinition) string {
	for _, mode := range []struct {
		on   bool
		flag string
	}{
		{def.EnableJWT, "enable_jwt"},
		{def.UseBasicAuth, "use_basic_auth"},
		{def.UseOauth2, "use_oauth2"},
		{def.UseOpenID, "use_openid"},
		{def.ExternalOAuth.Enabled, "external_oauth.enabled"},
		{def.EnableSignatureChecking, "enable_signature_checking"},
		{def.UseMutualTLSAuth, "use_mutual_tls_auth"},
		{def.UseGoPluginAuth, "use_go_plugin_auth"},
		{def.EnableCoProcessAuth, "enable_coprocess_auth"},
		{def.CustomPluginAuthEnabled, "custom_plugin_auth_enabled"},
	} {
		if mode.on && !def.UseKeylessAccess {
			return mode.flag
		}
	}
	return ""
}

// prepareVersion compiles the ignored paths. A gateway answers 403 to every
// request of an API without version data, so it is required here too.
func (a *api) prepareVersion() (field string, err error) {
	data := a.def.VersionData
	if !data.NotVersioned {
		return "version_data.not_versioned", errors.New("must be true; this host knows unversioned APIs only")
	}
	version, ok := theVersion(data.Versions)
	if !ok {
		return "version_data.versions", errors.New("want one version, or one named Default")
	}
	if !version.UseExtendedPaths {
		for _, path := range version.Paths.Ignored {
			version.ExtendedPaths.Ignored = append(version.ExtendedPaths.Ignored, apidef.EndPointMeta{Path: path})
		}
	}
	for _, endpoint := range version.ExtendedPaths.Ignored {
		if endpoint.Disabled {
			continue
		}
		pattern := pathPattern(endpoint.Path)
		if endpoint.IgnoreCase || version.IgnoreEndpointCase {
			pattern = "(?i)" + pattern
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return "version_data: ignored", err
		}
		a.ignored = append(a.ignored, ignoredPath{re, endpoint.Method})
	}
	return "", nil
}

func theVersion(versions map[string]apidef.VersionInfo) (apidef.VersionInfo, bool) {
	if len(versions) == 1 {
		for _, v := range versions {
			return v, true
		}
	}
	for _, name := range []string{"Default", "default", ""} {
		if v, ok := versions[name]; ok {
			return v, true
		}
	}
	return apidef.VersionInfo{}, false
}

var pathParameter = regexp.MustCompile(`{[^{}]*}`)

// pathPattern turns an endpoint's path into the regular expression that the
// gateway makes of it: {name} is one segment, /* is anything.
func pathPattern(path string) string {
	path = pathParameter.ReplaceAllString(path, `([^/]+)`)
	path = strings.ReplaceAll(path, "/*/", "/[^/]+/")
	return strings.ReplaceAll(path, "/*", "/.*")
}
