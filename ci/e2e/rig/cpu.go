package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is the CPU time that the gateway's process has used, of all its threads
// that live, to the nanosecond. It needs Linux.
func (g *Gateway) CPU() (time.Duration, error) {
	g.mu.Lock()
	p := g.processes[len(g.processes)-1] // started last
	g.mu.Unlock()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("rig: CPU time of %s: no schedstat in /proc", p.name)
	}
	var sum time.Duration
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("rig: CPU time of %s: %s: %w", p.name, file, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}
