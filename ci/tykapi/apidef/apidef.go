// Package apidef holds classic API definitions and bundle manifests.
package apidef

type (
	AuthTypeEnum     string
	MiddlewareDriver string
)

const (
	GoPluginDriver MiddlewareDriver = "goplugin"

	// The names of authentication modes in APIDefinition.AuthConfigs.
	AuthTokenType = "authToken"
	JWTType       = "jwt"
	HMACType      = "hmac"
	BasicType     = "basic"
	CoprocessType = "coprocess"
	OAuthType     = "oauth"
	OIDCType      = "oidc"
)

// APIDefinition is a classic API definition.
type APIDefinition struct {
	Name        string      `json:"name"`
	Slug        string      `json:"slug"`
	APIID       string      `json:"api_id"`
	OrgID       string      `json:"org_id"`
	Active      bool        `json:"active"`
	IsOAS       bool        `json:"is_oas,omitempty"`
	Proxy       ProxyConfig `json:"proxy"`
	VersionData VersionData `json:"version_data"`

	UseKeylessAccess        bool          `json:"use_keyless"`
	UseStandardAuth         bool          `json:"use_standard_auth"`
	UseOauth2               bool          `json:"use_oauth2"`
	ExternalOAuth           ExternalOAuth `json:"external_oauth"`
	UseOpenID               bool          `json:"use_openid"`
	UseBasicAuth            bool          `json:"use_basic_auth"`
	UseMutualTLSAuth        bool          `json:"use_mutual_tls_auth"`
	EnableJWT               bool          `json:"enable_jwt"`
	EnableSignatureChecking bool          `json:"enable_signature_checking"`
	UseGoPluginAuth         bool          `json:"use_go_plugin_auth"`
	EnableCoProcessAuth     bool          `json:"enable_coprocess_auth"`
	CustomPluginAuthEnabled bool          `json:"custom_plugin_auth_enabled"`
	BaseIdentityProvidedBy  AuthTypeEnum  `json:"base_identity_provided_by"`

	BasicAuth struct {
		ExtractFromBody bool `json:"extract_from_body"`
	} `json:"basic_auth"`

	Auth          AuthConfig            `json:"auth"` // deprecated in favour of AuthConfigs
	AuthConfigs   map[string]AuthConfig `json:"auth_configs"`
	StripAuthData bool                  `json:"strip_auth_data"`

	DisableRateLimit bool            `json:"disable_rate_limit"`
	GlobalRateLimit  GlobalRateLimit `json:"global_rate_limit"`

	CustomMiddleware               MiddlewareSection `json:"custom_middleware"`
	CustomMiddlewareBundle         string            `json:"custom_middleware_bundle"`
	CustomMiddlewareBundleDisabled bool              `json:"custom_middleware_bundle_disabled"`

	ConfigData         map[string]interface{} `json:"config_data"`
	ConfigDataDisabled bool                   `json:"config_data_disabled"`
}

// AuthConfig says where a request carries its credential.
type AuthConfig struct {
	Name           string `json:"name"`
	UseParam       bool   `json:"use_param"`
	ParamName      string `json:"param_name"`
	UseCookie      bool   `json:"use_cookie"`
	CookieName     string `json:"cookie_name"`
	DisableHeader  bool   `json:"disable_header"`
	AuthHeaderName string `json:"auth_header_name"`
	UseCertificate bool   `json:"use_certificate"`
}

type ExternalOAuth struct {
	Enabled bool `json:"enabled"`
}

type GlobalRateLimit struct {
	Disabled bool    `json:"disabled"`
	Rate     float64 `json:"rate"`
	Per      float64 `json:"per"`
}

type ProxyConfig struct {
	PreserveHostHeader bool   `json:"preserve_host_header"`
	ListenPath         string `json:"listen_path"`
	TargetURL          string `json:"target_url"`
	StripListenPath    bool   `json:"strip_listen_path"`
}

// MiddlewareSection lists an API's hooks.
type MiddlewareSection struct {
	Pre         []MiddlewareDefinition `json:"pre"`
	Post        []MiddlewareDefinition `json:"post"`
	PostKeyAuth []MiddlewareDefinition `json:"post_key_auth"`
	AuthCheck   MiddlewareDefinition   `json:"auth_check"`
	Response    []MiddlewareDefinition `json:"response"`
	Driver      MiddlewareDriver       `json:"driver"`
}

// MiddlewareDefinition names a hook: an exported symbol of a plugin file.
type MiddlewareDefinition struct {
	Disabled       bool   `json:"disabled"`
	Name           string `json:"name"`
	Path           string `json:"path"`
	RequireSession bool   `json:"require_session"`
	RawBodyOnly    bool   `json:"raw_body_only"`
}

// BundleManifest is a bundle's manifest.json.
type BundleManifest struct {
	FileList         []string          `json:"file_list"`
	CustomMiddleware MiddlewareSection `json:"custom_middleware"`
	Checksum         string            `json:"checksum"`
	Signature        string            `json:"signature"`
}

type VersionData struct {
	NotVersioned   bool                   `json:"not_versioned"`
	DefaultVersion string                 `json:"default_version"`
	Versions       map[string]VersionInfo `json:"versions"`
}

type VersionInfo struct {
	Name  string `json:"name"`
	Paths struct {
		Ignored   []string `json:"ignored"`
		WhiteList []string `json:"white_list"`
		BlackList []string `json:"black_list"`
	} `json:"paths"`
	UseExtendedPaths   bool             `json:"use_extended_paths"`
	ExtendedPaths      ExtendedPathsSet `json:"extended_paths"`
	IgnoreEndpointCase bool             `json:"ignore_endpoint_case"`
}

type ExtendedPathsSet struct {
	Ignored []EndPointMeta `json:"ignored,omitempty"`
}

type EndPointMeta struct {
	Disabled   bool   `json:"disabled"`
	Path       string `json:"path"`
	Method     string `json:"method"`
	IgnoreCase bool   `json:"ignore_case"`
}
