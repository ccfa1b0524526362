// Package e2e proves the plugin in a gateway's process, over HTTP. The cases
// H1 to H24 are named for the fault that each keeps away; ../e2e/rig says which
// gateway they run on.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

var (
	theRig *rig.Rig
	// shared is the gateway that most cases use, each with APIs of its own.
	shared sharedGateway
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	_ = flag.Set("test.parallel", "32") // the cases wait more than they work
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if theRig, err = rig.New(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer theRig.Close()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, rig.StopSignals()...)
	go func() {
		<-interrupted
		cancel()
		_ = theRig.Close()
		os.Exit(1)
	}()
	closeBeforeTimeout()
	fmt.Println("gateway:", theRig.GatewayName())
	code := m.Run()
	if err := secretsInLogs(theRig.Gateways()); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	return code
}

// closeBeforeTimeout cleans up before the test binary's own time limit ends it
// without.
func closeBeforeTimeout() {
	limit, ok := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if ok && limit > 20*time.Second {
		time.AfterFunc(limit-10*time.Second, func() { _ = theRig.Close() })
	}
}

// secretsInLogs looks for every key that was used in all that the gateways have
// written.
func secretsInLogs(gateways []*rig.Gateway) error {
	for _, g := range gateways {
		log := g.Log.String()
		for _, key := range append(g.Keys(), randomKeyPrefix) {
			at := strings.Index(log, key)
			if at < 0 {
				continue
			}
			line := log[strings.LastIndex(log[:at], "\n")+1:]
			line, _, _ = strings.Cut(line, "\n")
			return fmt.Errorf("a raw key is in the gateway's log: %s", line)
		}
	}
	return nil
}

// sharedGateway is started by the first test that needs it.
type sharedGateway struct {
	apis []rig.API // every test file adds those of its cases
	once sync.Once
	g    *rig.Gateway
}

// api adds an API and returns its id.
func (s *sharedGateway) api(a rig.API) string {
	s.apis = append(s.apis, a)
	return a.ID
}

func (s *sharedGateway) start(t *testing.T) *rig.Gateway {
	t.Helper()
	s.once.Do(func() {
		g, err := theRig.Start(context.Background(), rig.Options{APIs: s.apis, Policies: policies})
		if err != nil {
			t.Fatal(err) // only here; once.Do is done nevertheless
		}
		s.g = g
	})
	if s.g == nil {
		t.Fatal("the shared gateway has not started")
	}
	return s.g
}

// The plugin says once that it is there, and in which version.
func TestPluginLogsOneLineAtLoad(t *testing.T) {
	g := shared.start(t)
	lines := g.Log.Lines("tyk-token-bucket", "loaded")
	if len(lines) != 1 {
		t.Fatalf("%d lines, want 1: %q", len(lines), lines)
	}
	if !versionNumber.MatchString(lines[0]) {
		t.Errorf("no version in %q", lines[0])
	}
}
