package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// templates are the error pages that a real gateway cannot start without.
var templates = map[string]string{
	"error.json": "{\n    \"error\": \"{{.Message}}\"\n}\n",
	"error.xml":  "<?xml version = \"1.0\" encoding = \"UTF-8\"?>\n<error>{{.Message}}</error>\n",
}

// conf is the gateway's configuration.
func (g *Gateway) conf(port, redisPort int) Object {
	conf := Object{
		"listen_address": "127.0.0.1", "listen_port": port,
		"secret": g.Secret, "node_secret": g.Secret,
		"template_path": g.path("templates"), "middleware_path": g.path("middleware"),
		"app_path": g.path("apps"), "use_db_app_configs": false,
		"pid_file_location": g.path("gateway.pid"),
		"policies":          Object{"policy_source": "file", "policy_record_name": g.path("policies.json")},
		"storage":           Object{"type": "redis", "host": "127.0.0.1", "port": redisPort},
		"hash_keys":         true, "hash_key_function": "murmur64",
		"enable_bundle_downloader": true, "bundle_base_url": g.rig.bundleURL,
		"enable_analytics": false, "allow_insecure_configs": true,
		"http_server_options":           Object{"enable_path_prefix_matching": true, "enable_websockets": true},
		"max_idle_connections_per_host": 256,
	}
	merge(conf, g.options.Conf)
	return conf
}

// cleanEnv is the environment without settings of the gateway's or the plugin's.
func cleanEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TYK_") {
			env = append(env, e)
		}
	}
	return env
}

// startRedis starts a Redis that keeps nothing.
func (g *Gateway) startRedis(ctx context.Context, port int) error {
	if err := g.spawn("redis-server", redisServer(port, g.dir), new(Log)); err != nil {
		return err
	}
	return Until(ctx, startLimit, func() error {
		if err := g.Alive(); err != nil {
			return final{err}
		}
		return ping(fmt.Sprintf("127.0.0.1:%d", port))
	})
}

// redisServer is one that keeps nothing.
func redisServer(port int, dir string) *exec.Cmd {
	return exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--save", "", "--appendonly", "no", "--dir", dir)
}

func ping(address string) error {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && answer != "+PONG\r\n" {
		err = fmt.Errorf("rig: Redis answered %q", answer)
	}
	return err
}

func writeJSON(file string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}
