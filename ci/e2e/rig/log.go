package rig

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// Log keeps everything that a process writes. It is safe for concurrent use.
type Log struct {
	also io.Writer // nil: nobody else

	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.also != nil {
		_, _ = l.also.Write(p)
	}
	return l.buf.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Lines returns the lines that have every one of the words, in any case.
func (l *Log) Lines(words ...string) []string {
	var found []string
	for _, line := range strings.Split(l.String(), "\n") {
		if line != "" && hasAll(strings.ToLower(line), words) {
			found = append(found, line)
		}
	}
	return found
}

func hasAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, strings.ToLower(word)) {
			return false
		}
	}
	return true
}

// Tail returns the last n lines, for an error message.
func (l *Log) Tail(n int) string {
	lines := strings.Split(strings.TrimRight(l.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
