package main

import (
	"cmp"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/TykTechnologies/tyk/config"
)

// conf is the part of tyk.conf that this host knows; other fields are ignored.
type conf struct {
	ListenAddress           string                         `json:"listen_address"` // default 127.0.0.1
	ListenPort              int                            `json:"listen_port"`    // 0: any free port
	Secret                  string                         `json:"secret"`
	AppPath                 string                         `json:"app_path"`
	Policies                policiesConf                   `json:"policies"`
	MiddlewarePath          string                         `json:"middleware_path"`
	EnableBundleDownloader  bool                           `json:"enable_bundle_downloader"`
	BundleBaseURL           string                         `json:"bundle_base_url"`
	PublicKeyPath           string                         `json:"public_key_path"`
	HashKeys                bool                           `json:"hash_keys"`
	HashKeyFunction         string                         `json:"hash_key_function"`
	AllowMasterKeys         bool                           `json:"allow_master_keys"`
	MinTokenLength          int                            `json:"min_token_length"`
	HealthCheckEndpointName string                         `json:"health_check_endpoint_name"`
	HTTPServerOptions       config.HttpServerOptionsConfig `json:"http_server_options"`
	Storage                 config.StorageOptionsConf      `json:"storage"` // for plugins; keys are kept in memory

	publicKey *rsa.PublicKey
}

type policiesConf struct {
	Source     string `json:"policy_source"`
	RecordName string `json:"policy_record_name"`
}

func loadConf(path string) (*conf, error) {
	c := new(conf)
	if err := readJSON(path, c); err != nil {
		return nil, err
	}
	c.ListenAddress = cmp.Or(c.ListenAddress, "127.0.0.1")
	c.AppPath = cmp.Or(c.AppPath, "apps")
	c.MiddlewarePath = cmp.Or(c.MiddlewarePath, "middleware")
	c.HealthCheckEndpointName = cmp.Or(c.HealthCheckEndpointName, "hello")
	c.MinTokenLength = cmp.Or(c.MinTokenLength, 3)
	if field, err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", path, field, err)
	}
	return c, nil
}

// check returns the first field that is wrong, and what to do about it.
func (c *conf) check() (field string, err error) {
	switch {
	case c.Secret == "":
		return "secret", errors.New("missing; the admin API needs one")
	case c.ListenPort < 0 || c.ListenPort > 65535:
		return "listen_port", fmt.Errorf("%d is no port", c.ListenPort)
	case c.Policies.Source != "" && c.Policies.Source != "file":
		return "policies.policy_source", fmt.Errorf("%q is not supported; use \"file\"", c.Policies.Source)
	}
	switch c.HashKeyFunction {
	case "", "murmur32", "murmur64", "murmur128", "sha256":
	default:
		return "hash_key_function", fmt.Errorf("%q is unknown; use murmur32, murmur64, murmur128 or sha256", c.HashKeyFunction)
	}
	if info, err := os.Stat(c.AppPath); err != nil {
		return "app_path", err
	} else if !info.IsDir() {
		return "app_path", fmt.Errorf("%s is not a folder", c.AppPath)
	}
	if u, err := url.Parse(c.BundleBaseURL); err != nil {
		return "bundle_base_url", err
	} else if c.BundleBaseURL != "" && u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" {
		return "bundle_base_url", fmt.Errorf("%q: want http, https or file", c.BundleBaseURL)
	}
	if c.PublicKeyPath != "" {
		if c.publicKey, err = loadPublicKey(c.PublicKeyPath); err != nil {
			return "public_key_path", err
		}
	}
	return "", nil
}

func loadPublicKey(path string) (*rsa.PublicKey, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	if block.Type == "RSA PUBLIC KEY" {
		return x509.ParsePKCS1PublicKey(block.Bytes)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if rsaKey, ok := key.(*rsa.PublicKey); ok {
		return rsaKey, nil
	}
	return nil, fmt.Errorf("%s holds no RSA key", path)
}

// readJSON decodes a file; its errors name the file and the field or line.
func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	err = json.Unmarshal(b, into)
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType):
		return fmt.Errorf("%s: %s: want %s, got %s", path, wrongType.Field, wrongType.Type, wrongType.Value)
	case errors.As(err, &syntax):
		line := 1
		for _, c := range b[:min(int(syntax.Offset), len(b))] {
			if c == '\n' {
				line++
			}
		}
		return fmt.Errorf("%s: line %d: %w", path, line, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
