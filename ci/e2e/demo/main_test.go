package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is the demo itself for the test that ends it.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_DEMO") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestSignalLeavesNothingBehind(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			t.Logf("%v is ignored here", sig)
			continue
		}
		temporary := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "RUN_DEMO=1", "PORT=0", "TMPDIR="+temporary)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "starting the") {
			t.Fatalf("%q, %v", line, err)
		}
		made := folders(t, temporary)
		_ = cmd.Process.Signal(sig)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
		late.Stop()
		if left := folders(t, temporary); len(made) != 1 || len(left) > 0 {
			t.Errorf("%v: made %v, left %v", sig, made, left)
		}
	}
}

// folders are those of the rig.
func folders(t *testing.T, temporary string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(temporary, "tokenbucket-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
