package main

import (
	"fmt"
	"os"
	"strings"
)

// readList reads the mutants that change nothing. Each is written as mutate
// writes it, followed by a line with the reason:
//
//	gcra.go rate.until
//	- if at <= int64(now) {
//	+ if at < int64(now) {
//	= at the same time both give 0
func readList(path string) (reasons map[string]string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reasons = make(map[string]string)
	for _, entry := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		if entry == "" || strings.HasPrefix(entry, "#") {
			continue
		}
		mutant, reason, ok := strings.Cut(entry, "\n= ")
		if !ok {
			return nil, fmt.Errorf("%s: no reason in\n%s", path, entry)
		}
		reasons[mutant] = reason
	}
	return reasons, nil
}
