package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// writeBenchstat writes every round in the format of Go's benchmarks, for
//
//	benchstat -col /peer raw.txt
func writeBenchstat(w io.Writer, all []result) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: tokenbucket.internal/ci/bench\n", runtime.GOOS, runtime.GOARCH)
	if cpu := processor(); cpu != "" {
		fmt.Fprintf(w, "cpu: %s\n", cpu)
	}
	for _, r := range all {
		name := fmt.Sprintf("Benchmark%s/peer=%s", r.work.id, strings.ReplaceAll(r.peer.name, " ", "_"))
		if r.cpus > 1 {
			name += fmt.Sprintf("-%d", r.cpus)
		}
		for _, ns := range r.ns {
			fmt.Fprintf(w, "%s\t%d\t%.2f ns/op\t%.0f B/op\t%.0f allocs/op\n", name, r.ops, ns, r.bytes, r.allocs)
		}
	}
}

// processor is the CPU's name where the system tells it.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(info), "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
