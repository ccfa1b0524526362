package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"io"
	"regexp"
	"slices"
	"strings"
)

const (
	manifestName = "manifest.json"
	maxManifest  = 1 << 20 // bytes; a real one has about 500
	maxUnpacked  = 2 << 30 // bytes of all files; the gateway holds a bundle in memory
)

// manifest is the part of a bundle that tells the gateway what to run. It has
// the fields that the gateway knows; those that may be left out are.
type manifest struct {
	FileList         []string   `json:"file_list"`
	CustomMiddleware middleware `json:"custom_middleware"`
	Checksum         string     `json:"checksum"`
	Signature        string     `json:"signature"`
}

type middleware struct {
	Pre         []hook          `json:"pre,omitempty"`
	PostKeyAuth []hook          `json:"post_key_auth,omitempty"`
	Post        []hook          `json:"post,omitempty"`
	AuthCheck   *hook           `json:"auth_check,omitempty"`
	Response    []hook          `json:"response,omitempty"`
	Driver      string          `json:"driver"`
	IDExtractor json.RawMessage `json:"id_extractor,omitempty"`
}

type hook struct {
	Disabled       bool   `json:"disabled,omitempty"`
	Name           string `json:"name"`
	Path           string `json:"path"`
	RequireSession bool   `json:"require_session,omitempty"`
	RawBodyOnly    bool   `json:"raw_body_only,omitempty"`

	kind string // the manifest's name for the place where it runs
}

// all returns every hook, in the order of the gateway's chain.
func (mw middleware) all() []hook {
	var auth []hook
	if mw.AuthCheck != nil && mw.AuthCheck.Name != "" {
		auth = []hook{*mw.AuthCheck}
	}
	var all []hook
	add := func(kind string, hooks []hook) {
		for _, h := range hooks {
			h.kind = kind
			all = append(all, h)
		}
	}
	add("pre", mw.Pre)
	add("auth_check", auth)
	add("post_key_auth", mw.PostKeyAuth)
	add("post", mw.Post)
	add("response", mw.Response)
	return all
}

// enabled returns the hooks that the gateway will run.
func (mw middleware) enabled() []hook {
	return slices.DeleteFunc(mw.all(), func(h hook) bool { return h.Disabled })
}

// decodeManifest reads a manifest of at most maxManifest bytes. A field of an
// unknown name is an error: the gateway would not say a word about a misspelt
// hook, and not run it.
func decodeManifest(r io.Reader) (*manifest, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest: %w", err)
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("the manifest is larger than %d bytes: this is not a manifest that the gateway should load", maxManifest)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	m := new(manifest)
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("the manifest is not valid: %w: correct it (the README shows one)", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("the manifest has more than one JSON value: leave only the first")
	}
	return m, nil
}

// check refuses a manifest that the gateway would load without running all of
// its hooks.
func (m *manifest) check() error {
	if d := m.CustomMiddleware.Driver; d != "goplugin" {
		return fmt.Errorf(`the manifest's driver is %q: set custom_middleware.driver to "goplugin"`, d)
	}
	if err := checkNames(append([]string{manifestName}, m.FileList...)); err != nil {
		return fmt.Errorf("file_list: %w", err)
	}
	hooks := m.CustomMiddleware.enabled()
	if len(hooks) == 0 {
		return errors.New("the manifest has no hooks: add pre, post_key_auth or response to custom_middleware")
	}
	for _, h := range hooks {
		if err := m.checkHook(h); err != nil {
			return fmt.Errorf("%s hook %q: %w", h.kind, h.Name, err)
		}
	}
	return nil
}

func (m *manifest) checkHook(h hook) error {
	if !token.IsIdentifier(h.Name) || !token.IsExported(h.Name) {
		return errors.New("the name is not one that a plugin can export: give the name of an exported Go function")
	}
	if err := checkName(h.Path); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if slices.ContainsFunc(m.FileList, func(file string) bool { return serves(file, h.Path) }) {
		return nil
	}
	return fmt.Errorf("no file serves its path %q: add %s or %s_vX.Y.Z_OS_ARCH.so, such as %[3]s_v5.14.0_linux_amd64.so",
		h.Path, h.Path, strings.TrimSuffix(h.Path, ".so"))
}

// checkUsed refuses a plugin that no gateway would load: its name is a mistake.
func (m *manifest) checkUsed() error {
	for _, file := range m.FileList {
		used := slices.ContainsFunc(m.CustomMiddleware.all(), func(h hook) bool { return serves(file, h.Path) })
		if strings.HasSuffix(file, ".so") && !used {
			return fmt.Errorf("no gateway would load %q: name it NAME.so or NAME_vX.Y.Z_OS_ARCH.so (no -rc1 or the like), where NAME.so is the path of a hook", file)
		}
	}
	return nil
}

// A gateway drops what follows a "-" in its version, so a name with "-rc1" in
// it is never looked for.
var gatewaySuffix = regexp.MustCompile(`^_v?[0-9][0-9A-Za-z.]*_[a-z0-9]+_[a-z0-9]+\.so$`)

// serves reports whether some gateway loads file for a hook with this path.
func serves(file, path string) bool {
	if file == path {
		return true
	}
	suffix, ok := strings.CutPrefix(file, strings.TrimSuffix(path, ".so"))
	return ok && gatewaySuffix.MatchString(suffix)
}
