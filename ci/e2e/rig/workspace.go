package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// staged is what the plugin is built from. Its go.mod names ci/tykapi, which
// must be there though the gateway's own source is used.
var staged = []string{"main.go", "go.mod", "go.sum", "limiter", "plugin", "ci/tykapi"}

// makeWorkspace lays out what the official plugin compiler builds in: a copy of
// the plugin's source, in one workspace with the gateway's.
func (r *Rig) makeWorkspace(dir string) error {
	plugin := filepath.Join(dir, "plugin")
	for _, name := range staged {
		if err := copyTree(filepath.Join(r.root, name), filepath.Join(plugin, name)); err != nil {
			return err
		}
	}
	version, err := goDirective(filepath.Join(r.tykSrc, "go.mod"))
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "go.work")
	work := fmt.Sprintf("go %s\n\nuse (\n\t%q\n\t%q\n)\n", version, r.tykSrc, plugin)
	if err := os.WriteFile(file, []byte(work), 0o600); err != nil {
		return err
	}
	return r.compareModules(file)
}

// compareModules fails if the plugin moves a module to another version than the
// gateway is built with: such a plugin does not load.
func (r *Rig) compareModules(workspace string) error {
	alone, err := r.modules("off")
	if err != nil {
		return err
	}
	together, err := r.modules(workspace)
	if err != nil {
		return err
	}
	var moved []string
	for path, version := range together {
		if has, shared := alone[path]; shared && has != version {
			moved = append(moved, fmt.Sprintf("%s: the gateway has %s, the plugin makes it %s", path, has, version))
		}
	}
	if len(moved) > 0 {
		return fmt.Errorf("rig: the plugin's go.mod changes versions of the gateway's modules, so it would not load:\n%s", strings.Join(moved, "\n"))
	}
	return nil
}

// modules lists what the gateway's source is built with.
func (r *Rig) modules(workspace string) (map[string]string, error) {
	out, err := r.run(r.tykSrc, workspace, "go", "list", "-m", "-f",
		"{{.Path}} {{with .Replace}}{{.Path}}@{{.Version}}{{else}}{{.Version}}{{end}}", "all")
	if err != nil {
		return nil, err
	}
	versions := make(map[string]string)
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		path, version, _ := strings.Cut(line, " ")
		versions[path] = version
	}
	return versions, nil
}

func goDirective(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if version, found := strings.CutPrefix(line, "go "); found {
			return strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("rig: %s has no go line", file)
}

// copyTree copies a file or folder, without tests.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o600)
	})
}
