package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// timeout is when a client gives a command up.
const timeout = DefaultPatience + grace

// poolSize is far more than is ever used. After so many failures to connect in a
// row, the client tries only once a second.
const poolSize = 512

// Dial makes a client for the servers that a URL names; it does not connect.
//
//	redis://user:password@host:6379/0            one server; rediss: with TLS
//	redis+cluster://user:password@host:6379?addr=host2:6379&addr=host3:6379
//	redis+sentinel://user:password@host:26379/0?master_name=main&addr=host2:26379
//	unix://user:password@/run/redis.sock?db=0
//
// A redis URL with addr is one of a cluster, and one with master_name one of
// sentinels, whose own credentials are sentinel_username and sentinel_password;
// rediss+cluster and rediss+sentinel are with TLS. An error says what is wrong
// with which part and never shows the password.
//
// The client gives a command up after 300 ms and does not retry it.
func Dial(address string) (redis.UniversalClient, error) {
	client, err := dial(strings.TrimSpace(address))
	if err != nil {
		return nil, fmt.Errorf("cluster: Redis URL: %w", err)
	}
	return client, nil
}

var errUnreadable = errors.New("cannot be read; characters such as @ : / ? # % in a password are written %40 %3A %2F %3F %23 %25")

func dial(address string) (redis.UniversalClient, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errUnreadable // the parser's shows all of the URL
	}
	if strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") { // a part of the password, which errors quote
		return nil, errUnreadable
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	query := u.Query()
	switch {
	case scheme == "unix" && kind == "":
		return single(*u)
	case scheme != "redis" && scheme != "rediss":
		return nil, fmt.Errorf("scheme %.20q is not redis, rediss, redis+cluster, rediss+cluster, redis+sentinel, rediss+sentinel or unix", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("there is no host")
	}
	u.Scheme = scheme
	switch {
	case kind == "sentinel" || kind == "" && query.Has("master_name"):
		return sentinels(*u)
	case kind == "cluster" || kind == "" && query.Has("addr"):
		return nodes(*u)
	case kind == "":
		return single(*u)
	}
	return nil, fmt.Errorf("%.20q is not cluster or sentinel", kind)
}

func single(u url.URL) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, parserError(err)
	}
	return redis.NewClient(tuned(*o)), nil
}

func nodes(u url.URL) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, parserError(err)
	}
	return redis.NewClusterClient(tunedCluster(*o)), nil
}

func sentinels(u url.URL) (redis.UniversalClient, error) {
	query := u.Query()
	master := query.Get("master_name")
	if master == "" {
		return nil, errors.New("sentinels need master_name")
	}
	port := u.Port()
	if port == "" {
		port = "26379"
	}
	o := redis.FailoverOptions{
		MasterName: master, SentinelAddrs: append([]string{u.Hostname() + ":" + port}, query["addr"]...),
		SentinelUsername: query.Get("sentinel_username"), SentinelPassword: query.Get("sentinel_password"),
	}
	for _, own := range []string{"master_name", "addr", "sentinel_username", "sentinel_password"} {
		query.Del(own)
	}
	u.RawQuery = query.Encode()
	// The rest means what it means for one server.
	one, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, parserError(err)
	}
	t := tuned(*one)
	o.Username, o.Password, o.DB, o.Protocol, o.ClientName = t.Username, t.Password, t.DB, t.Protocol, t.ClientName
	if o.TLSConfig = t.TLSConfig; o.TLSConfig != nil {
		o.TLSConfig = o.TLSConfig.Clone()
		o.TLSConfig.ServerName = "" // each server's own
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.DisableIndentity = t.MaxRetries, t.ContextTimeoutEnabled, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = t.DialTimeout, t.ReadTimeout, t.WriteTimeout, t.PoolTimeout
	o.PoolSize, o.MinIdleConns = t.PoolSize, t.MinIdleConns
	return redis.NewFailoverClient(&o), nil
}

// parserError passes on what go-redis says of a URL, unless it may quote all of
// it.
func parserError(err error) error {
	var quoting *url.Error
	if errors.As(err, &quoting) {
		return errUnreadable
	}
	return errors.New(strings.TrimPrefix(err.Error(), "redis: "))
}

// A dialer makes connections, within the caller's timeout whatever its own is.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func (d dialer) tuned() dialer {
	if d == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return d(ctx, network, address)
	}
}

// tuned makes a command fail soon and only once: a lease that is renewed a
// second time would be charged twice, and one given back twice would add
// tokens.
func tuned(o redis.Options) *redis.Options {
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	o.DisableIndentity = true // saves a round trip of each new connection
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns = poolSize, 1, 0
	o.Dialer = dialer(o.Dialer).tuned()
	return &o
}

func tunedCluster(o redis.ClusterOptions) *redis.ClusterOptions {
	// A command that is redirected is retried, and with it all of its pipeline.
	o.MaxRedirects, o.MaxRetries, o.ContextTimeoutEnabled = -1, -1, true
	o.DisableIndentity = true // saves a round trip of each new connection
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns = poolSize, 0, 0
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.Dialer = dialer(o.Dialer).tuned()
	return &o
}

// ownClient makes a client to the servers of another; nil if it cannot.
func ownClient(c redis.UniversalClient) redis.UniversalClient {
	switch c := c.(type) {
	case *redis.Client:
		return redis.NewClient(tuned(*c.Options()))
	case *redis.ClusterClient:
		return redis.NewClusterClient(tunedCluster(*c.Options()))
	}
	return nil
}
