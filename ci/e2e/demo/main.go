// Command demo serves the plugin in a gateway on 127.0.0.1, with two keys, and
// shows what becomes of their requests. With -traffic it sends requests of its
// own and ends with a table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tokenbucket.internal/ci/e2e/rig"
)

// keys of the demo. What -traffic offers is above the limit of each.
var keys = []key{
	{name: "free", limit: "5/s burst 5", rate: 5, burst: 5, offer: 20},
	{name: "pro", limit: "100/s burst 200", rate: 100, burst: 200, offer: 300},
}

type key struct {
	name, limit string
	rate, burst float64
	offer       int // requests a second
}

const api = "demo"

func main() {
	traffic := flag.Duration("traffic", 0, "send requests for so long, then print a table and end")
	showLog := flag.Bool("log", false, "show the gateway's log")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), rig.StopSignals()...)
	defer stop()
	err := run(ctx, *traffic, *showLog)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, traffic time.Duration, showLog bool) (err error) {
	listener, err := listen(os.Getenv("PORT"))
	if err != nil {
		return err
	}
	defer listener.Close()
	r, err := rig.New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()

	fmt.Printf("starting the %s ...\n", r.GatewayName())
	g, err := start(ctx, r, showLog)
	if err != nil {
		return err
	}
	b := newBoard(keys)
	front := &http.Server{Handler: b.proxy(g.URL), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = front.Serve(listener) }()
	defer front.Close()

	url := "http://" + listener.Addr().String()
	if traffic > 0 {
		fmt.Printf("%v of traffic on %s/%s/ for the keys %s and %s\n\n", traffic, url, api, keys[0].name, keys[1].name)
		return b.demonstrate(ctx, url, traffic)
	}
	printHelp(url, g.Secret)
	for tick := time.Tick(time.Second); ; {
		select {
		case <-tick:
			b.print()
			if err := g.Alive(); err != nil {
				return err
			}
		case <-ctx.Done():
			fmt.Println()
			return nil
		}
	}
}

func listen(port string) (net.Listener, error) {
	if port == "" {
		port = "8080"
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("demo: port %s of 127.0.0.1 is taken; choose another with PORT=, for example: make run PORT=8081", port)
	} else if err != nil {
		return nil, fmt.Errorf("demo: PORT=%s: %w", port, err)
	}
	return l, nil
}

// start starts the gateway with the demo's API and keys.
func start(ctx context.Context, r *rig.Rig, showLog bool) (*rig.Gateway, error) {
	options := rig.Options{
		APIs: []rig.API{{ID: api}},
		// A real gateway shows a change of a key with a name of its own only
		// when its cache has forgotten the key, after up to ten seconds.
		Conf: rig.Object{"local_session_cache": rig.Object{"disable_cached_session_state": true}},
	}
	if showLog {
		options.Log = os.Stderr
	}
	g, err := r.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		key := rig.Key{APIs: []string{api}, Metadata: rig.Object{"ratelimit": k.limit}}
		if err := g.CreateKeyAs(ctx, k.name, key); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func printHelp(url, secret string) {
	fmt.Printf("\n%s/%s/ is limited. Two keys:", url, api)
	for _, k := range keys {
		fmt.Printf("  %s (%s)", k.name, k.limit)
	}
	fmt.Printf(`

Try, in another terminal:

  curl -i -H 'Authorization: free' %[1]s/%[2]s/
  curl -s -o /dev/null -w '%%{http_code}\n' -H 'Authorization: pro' '%[1]s/%[2]s/?n=[1-400]' | sort | uniq -c
  curl -X PUT -H 'x-tyk-authorization: %[3]s' %[1]s/tyk/keys/free -d '{"org_id": "%[4]s", "access_rights": {"%[2]s": {"api_id": "%[2]s", "versions": ["Default"]}}, "meta_data": {"ratelimit": "2/m burst 10"}}'

Ctrl-C ends it. While there is traffic, each second:

`, url, api, secret, rig.Org)
}
