// Package compile has no Go code: these are the tests of the scripts beside it,
// and of the Makefile's targets around them.
package compile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakes of what a checkout's scripts and targets call.
var fakes = map[string]string{
	// Leaves the file that the image would, for each call.
	"bin/docker": `#!/bin/sh
echo "docker $*" >>"$LOG"
[ "$1" = run ] || exit 0
stage=${4%%:*} version=${5##*:}
ls "$stage" >>"$LOG"
echo so >"$stage/tokenbucket_${version%%-*}_$8_$9.so"
`,
	"bin/docker-compose": "#!/bin/sh\necho \"compose $TYK_VERSION $*\" >>\"$LOG\"\n",
	"bin/go": `#!/bin/sh
echo "go $* in $PWD with $TYK_BIN $TYK_SRC" >>"$LOG"
[ "$2" != -trimpath ] || [ "$6" != dist/tokenbucket.so ] || echo so >"$6"
`,
	"dist/bundle":          "#!/bin/sh\necho \"bundle $*\" >>\"$LOG\"\n",
	"dist/demo":            "#!/bin/sh\necho \"demo $TYK_BIN $TYK_SRC\" >>\"$LOG\"\n",
	"tyk/go.mod":           "module github.com/TykTechnologies/tyk\n",
	"tyk/tyk":              "#!/bin/sh\n",
	"main.go":              "package main\n",
	"go.mod":               "module tokenbucket.internal\n",
	"go.sum":               "",
	"limiter/limiter.go":   "package limiter\n",
	"cluster/cluster.go":   "package cluster\n",
	"plugin/plugin.go":     "package plugin\n",
	"ci/tykapi/go.mod":     "module github.com/TykTechnologies/tyk\n",
	"ci/e2e/go.mod":        "module tokenbucket.internal/ci/e2e\n",
	"ci/devgateway/go.mod": "module tokenbucket.internal/ci/devgateway\n",
}

// A checkout is a copy of the scripts and the Makefile, with fakes around them.
type checkout struct {
	t   *testing.T
	dir string
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	for _, tool := range []string{"bash", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	c := &checkout{t: t, dir: t.TempDir()}
	for name, content := range fakes {
		c.write(name, content)
	}
	for _, name := range []string{"Makefile", "ci/compile/stage", "ci/compile/image", "ci/compile/releases", "ci/compile/workspace", "ci/bench/gateway"} {
		b, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		c.write(name, string(b))
	}
	return c
}

func (c *checkout) write(name, content string) {
	c.t.Helper()
	file := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
		c.t.Fatal(err)
	}
}

func (c *checkout) exists(name string) bool {
	_, err := os.Stat(filepath.Join(c.dir, name))
	return err == nil
}

// run runs a command line in the checkout and returns what it prints, and what
// the fakes were called with.
func (c *checkout) run(line string) (out, calls string, ok bool) {
	c.t.Helper()
	log := filepath.Join(c.dir, "calls")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + c.dir + "/bin:" + os.Getenv("PATH"), "HOME=" + c.dir, "LOG=" + log}
	b, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	called, _ := os.ReadFile(log)
	return string(b), string(called), err == nil
}

func (c *checkout) passes(line string, want ...string) (calls string) {
	c.t.Helper()
	out, calls, ok := c.run(line)
	if !ok {
		c.t.Errorf("%s failed:\n%s%s", line, out, calls)
	}
	for _, w := range want {
		if !strings.Contains(out+calls, w) {
			c.t.Errorf("%s: no %q in:\n%s%s", line, w, out, calls)
		}
	}
	return calls
}

// refuses wants a message, and nothing called before it.
func (c *checkout) refuses(line, want string) {
	c.t.Helper()
	if out, calls, ok := c.run(line); ok || !strings.Contains(out, want) || strings.Contains(calls, "docker run") {
		c.t.Errorf("%s: ok %v, no %q, or something was called:\n%s%s", line, ok, want, out, calls)
	}
}

func TestImageBuildsForEveryVersionAndArchitecture(t *testing.T) {
	c := newCheckout(t)
	calls := c.passes(`make plugin TYK_VERSION="v5.8.15 v5.15.0-rc7" ARCHS="amd64 arm64" BUILD_ID=2`)
	for _, name := range []string{"v5.8.15_linux_amd64", "v5.8.15_linux_arm64", "v5.15.0_linux_amd64", "v5.15.0_linux_arm64"} {
		if !c.exists("dist/tokenbucket_" + name + ".so") {
			t.Errorf("no build of %s:\n%s", name, calls)
		}
	}
	for _, want := range []string{"tyk-plugin-compiler:v5.8.15 tokenbucket.so 2 linux amd64", "main.go", "limiter", "cluster", "plugin"} {
		if !strings.Contains(calls, want) {
			t.Errorf("no %q in:\n%s", want, calls)
		}
	}
	for _, version := range []string{"5.14.0", "v5.14", "v5.14.0/x", "v5.8.15 v5.14.0"} {
		c.refuses("ci/compile/image dist '"+version+"'", "version "+version+": want a tag of the gateway")
	}
}

func TestBuildIDIsOneThatGoAccepts(t *testing.T) {
	c := newCheckout(t)
	for _, id := range []string{"", "2", "v2", "release-1.2", "a_b", "console", "com10"} {
		c.passes("ci/compile/stage staged '" + id + "'")
	}
	for _, id := range []string{"-a", "a-", ".a", "x.", "A", "a/b", "a b", "vendor", "con", "com1.x", "a~1"} {
		c.refuses("ci/compile/stage staged '"+id+"'", "build id "+id)
	}
	for _, build := range []string{"TYK_VERSION=v5.14.0", "TYK_SRC=tyk"} {
		c.refuses("make plugin BUILD_ID='a b' "+build, "build id a b")
	}
}

func TestBundleTakesReleasesOnlyAndSaysWhich(t *testing.T) {
	c := newCheckout(t)
	c.refuses("make bundle", "DEV=1 takes a build that only the development gateway loads")
	c.passes("make bundle DEV=1", "bundling dist/tokenbucket.so", "-o dist/tokenbucket.zip dist/tokenbucket.so\n")
	c.refuses("make bundle", "TYK_SRC=") // though dist has a development build

	// The compiler image, as the README calls it, leaves its file in the root.
	c.write("tokenbucket_v5.14.0_linux_amd64.so", "so")
	root := "./tokenbucket_v5.14.0_linux_amd64.so"
	c.passes("make bundle", "bundling "+root, "dist/tokenbucket.zip "+root+"\n")
	c.passes("make bundle TYK_VERSION=v5.8.15", "zip dist/tokenbucket_v5.8.15_linux_amd64.so\n")
	c.passes("make bundle KEY=private.pem MANIFEST=more.json", "-manifest more.json -key private.pem -o",
		"dist/tokenbucket.zip dist/tokenbucket_v5.8.15_linux_amd64.so "+root+"\n")

	for age, want := range map[time.Duration]string{-time.Hour: root, time.Hour: "dist/" + filepath.Base(root)} {
		c.write("dist/"+filepath.Base(root), "so")
		at := time.Now().Add(age)
		if err := os.Chtimes(filepath.Join(c.dir, "dist", filepath.Base(root)), at, at); err != nil {
			t.Fatal(err)
		}
		calls := c.passes("make bundle", want)
		if n := strings.Count(calls, "_v5.14.0_"); n != 1 {
			t.Errorf("the release is taken %d times:\n%s", n, calls)
		}
	}
}

func TestBundleOfASourceTreeTakesNoRelease(t *testing.T) {
	c := newCheckout(t)
	c.write("dist/tokenbucket_v5.14.0_linux_amd64.so", "so")
	c.write("ci/compile/workspace", "#!/bin/sh\necho \"workspace $*\" >>\"$LOG\"\n")
	c.passes("make bundle TYK_SRC=tyk BUILD_ID=2",
		"workspace "+c.dir+"/tyk dist/tokenbucket.so 2\n", "-o dist/tokenbucket.zip dist/tokenbucket.so\n")
}

func TestRelativePathsHoldInEveryFolder(t *testing.T) {
	c := newCheckout(t)
	with := "with " + c.dir + "/tyk/tyk " + c.dir + "/tyk\n"
	c.write("ci/compile/workspace", "#!/bin/sh\n")
	c.passes("make demo TYK_BIN=tyk/tyk TYK_SRC=./tyk", "demo "+c.dir+"/tyk/tyk "+c.dir+"/./tyk")
	c.passes("make e2e TYK_BIN=tyk/tyk TYK_SRC=tyk", "go test -count=1 ./... in "+c.dir+"/ci/e2e "+with)
	c.passes("TYK_BIN=tyk/tyk TYK_SRC=tyk ci/bench/gateway -rounds 1", "go run ./cost -rounds 1 in "+c.dir+"/ci/e2e "+with)
}

func TestWrongPathsAreToldBeforeAnythingIsBuilt(t *testing.T) {
	c := newCheckout(t)
	for line, want := range map[string]string{
		"e2e TYK_BIN=nowhere TYK_SRC=tyk": "nowhere is not a program",
		"run TYK_BIN=tyk TYK_SRC=tyk":     "/tyk is not a program",
		"demo TYK_BIN=tyk/tyk":            "TYK_SRC is not",
		"test TYK_SRC=ci":                 "/ci has no go.mod",
	} {
		if out, calls, ok := c.run("make " + line); ok || !strings.Contains(out, want) || calls != "" {
			t.Errorf("make %s: ok %v:\n%s%s", line, ok, out, calls)
		}
	}
}

func TestTrialWithAndWithoutDocker(t *testing.T) {
	c := newCheckout(t)
	c.write("ci/compose/check.sh", "#!/bin/sh\necho \"check $*\" >>\"$LOG\"\nexit 1\n")
	c.passes("make up PORT=8081", "zip dist/tokenbucket_v5.14.0_linux_amd64.so\n",
		"compose v5.14.0 -f ci/compose/docker-compose.yml up -d --force-recreate upstream gateway\n", "run --rm keys\n")
	c.passes(`make up TYK_VERSION="v5.8.15 v5.14.0"`, "compose v5.8.15 -f", "_v5.8.15_linux_amd64.so dist/tokenbucket_v5.14.0_")
	out, calls, ok := c.run("make e2e-docker")
	if ok || !strings.Contains(calls, "check http://127.0.0.1:8080\n") || !strings.HasSuffix(calls, "down -v\n") {
		t.Errorf("a check that fails: ok %v:\n%s%s", ok, out, calls)
	}
	c.write("bin/docker", "#!/bin/sh\nexit 1\n")
	for _, target := range []string{"up", "down", "e2e-docker"} {
		c.refuses("make "+target, "docker has no engine here")
		c.refuses("PATH=/nowhere "+makePath(t)+" "+target, "docker is not installed; without it: make run")
	}
}

func makePath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
