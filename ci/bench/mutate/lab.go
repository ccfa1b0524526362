package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// An outcome is what became of a mutant.
type outcome int

const (
	noticed outcome = iota
	endless
	broken
	survives
	equivalent
	outcomes
)

func (o outcome) String() string {
	return [...]string{"noticed", "out of time", "does not compile", "SURVIVES", "equivalent"}[o]
}

// A lab is a copy of the package in a module of its own.
type lab struct {
	folder string
	limit  time.Duration
}

func newLab(pkg string, limit time.Duration) (*lab, error) {
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	l := &lab{folder: folder, limit: limit}
	if err := l.copy(pkg); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) copy(pkg string) error {
	paths, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(l.path(""), 0o755); err != nil {
		return err
	}
	module := []byte("module tokenbucket.internal\n\ngo 1.23.0\n")
	if err := os.WriteFile(filepath.Join(l.folder, "go.mod"), module, 0o644); err != nil {
		return err
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(l.path(filepath.Base(path)), source, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) path(file string) string { return filepath.Join(l.folder, "limiter", file) }

func (l *lab) close() { _ = os.RemoveAll(l.folder) }

// try puts the mutant in, tests it, and puts the file back.
func (l *lab) try(m mutant) (outcome, error) {
	path := l.path(m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	changed := string(source[:m.from]) + m.text + string(source[m.to:])
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		return 0, err
	}
	o, _ := l.test()
	return o, os.WriteFile(path, source, 0o644)
}

func (l *lab) test() (outcome, string) {
	// Go's own limit ends the tests; this one also ends a compiler that hangs.
	ctx, cancel := context.WithTimeout(context.Background(), l.limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-short", "-failfast", "-vet=off", "-count=1", "-timeout", l.limit.String(), ".")
	cmd.Dir = l.path("")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch text := string(out); {
	case err == nil:
		return survives, text
	case ctx.Err() != nil || strings.Contains(text, "panic: test timed out"):
		return endless, text
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]") || !errors.As(err, &exit):
		return broken, text + err.Error()
	default:
		return noticed, text
	}
}
