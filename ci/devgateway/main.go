// Command devgateway is a small development host for Tyk Gateway Go plugins. It
// reads a gateway's own files - tyk.conf, API definitions, policies, bundles -
// and runs what surrounds a plugin: key authentication, hooks and the proxy.
// It is no gateway: no Redis, no quotas, and none of Tyk's own limiters.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/TykTechnologies/tyk/config"
	"github.com/TykTechnologies/tyk/log"
	"github.com/TykTechnologies/tyk/request"
	"github.com/sirupsen/logrus"
)

// version is set with -ldflags "-X main.version=v5.14.0"; plugin files are
// looked up by it.
var version = "v0.0.0-dev"

const (
	headerTimeout = 10 * time.Second
	shutdownGrace = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "devgateway:", err)
		}
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("devgateway", flag.ContinueOnError)
	flags.SetOutput(stderr)
	confPath := flags.String("conf", "tyk.conf", "the gateway's configuration `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	conf, err := loadConf(*confPath)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(conf.ListenAddress, strconv.Itoa(conf.ListenPort)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: listen_port: %d is taken by another process; choose another port, or 0 for any", *confPath, conf.ListenPort)
	} else if err != nil {
		return fmt.Errorf("%s: listen_address, listen_port: %w", *confPath, err)
	}
	publish(conf)
	gw := newGateway(conf, openPlugin)
	if err := gw.reload(); err != nil {
		listener.Close()
		return err
	}
	return serve(ctx, gw, listener, stderr)
}

// publish gives plugins the configuration as the gateway does.
func publish(conf *conf) {
	global := func() config.Config {
		return config.Config{HashKeys: conf.HashKeys, HttpServerOptions: conf.HTTPServerOptions, Storage: conf.Storage}
	}
	config.Global, request.Global = global, global
}

func serve(ctx context.Context, gw *gateway, listener net.Listener, stderr io.Writer) error {
	notes := log.Get().WriterLevel(logrus.WarnLevel)
	defer notes.Close()
	server := &http.Server{Handler: gw, ErrorLog: stdlog.New(notes, "net/http: ", 0), ReadHeaderTimeout: headerTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(stderr, "devgateway: listening on %s\n", listener.Addr())

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	gw.background.Wait()
	return nil
}
