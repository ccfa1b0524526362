// Command bench measures one limit over three gateways on one Redis, leased by
// package cluster, beside one script call for each request
// (github.com/go-redis/redis_rate) on the same Redis: how exact both are, what
// they cost Redis, and what a decision takes. It starts a redis-server of its
// own, prints tables, and writes them, a chart and the raw results.
//
// Rates and ratios of one run say something; absolute times on a shared machine
// say little.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"tokenbucket.internal/ci/cluster/rig"
)

// Results are what one run found.
type results struct {
	Go, OS      string
	CPUs        int
	Redis       string
	Seconds     float64
	Rates       []rateResult
	Exactness   []exactResult
	Keys        []keysResult
	Latency     []latencyResult
	LimitTokens int64
	LimitBurst  int64
}

func main() {
	length := flag.Duration("time", 3*time.Second, "length of each measurement")
	out := flag.String("out", "results", "folder for the tables, the chart and the raw results")
	keys := flag.Int("keys", 100_000, "active keys in the measurement of many keys")
	what := flag.String("only", "rates,exactness,keys,latency", "what to measure; the results are written if it is all")
	flag.Parse()
	if err := run(*length, *out, *keys, *what); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(length time.Duration, out string, keys int, what string) error {
	server, err := rig.StartRedis()
	if err != nil {
		return err
	}
	defer server.Stop()
	var text bytes.Buffer
	b, err := newBench(server.Addr, length, io.MultiWriter(os.Stdout, &text))
	if err != nil {
		return err
	}
	defer b.close()
	r := results{
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Redis: b.version(),
		Seconds: length.Seconds(), LimitTokens: limit.Tokens, LimitBurst: limit.Burst,
	}
	fmt.Fprintf(b.report, "%s, %s, %d CPUs, Redis %s, limit %v over %d gateways, %v each\n\n", r.Go, r.OS, r.CPUs, r.Redis, limit, gateways, length)
	for _, m := range []struct {
		name string
		run  func() error
	}{
		{"rates", func() (err error) { r.Rates, err = b.rates(); return err }},
		{"exactness", func() (err error) { r.Exactness, err = b.exactness(); return err }},
		{"keys", func() (err error) { r.Keys, err = b.manyKeys(keys); return err }},
		{"latency", func() (err error) { r.Latency, err = b.latency(); return err }},
	} {
		if !strings.Contains(what, m.name) {
			continue
		}
		if err := m.run(); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if r.Rates == nil || r.Exactness == nil || r.Keys == nil || r.Latency == nil {
		return nil
	}
	return write(out, r, text.Bytes())
}

func write(folder string, r results, tables []byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"cluster.json": append(raw, '\n'), "table.txt": tables, "cluster.svg": []byte(chart(r.Rates)),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
