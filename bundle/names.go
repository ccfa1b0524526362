package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkNames checks each name, and that no two could be the same file.
func checkNames(names []string) error {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
		folded := strings.ToLower(name) // some disks do not tell A from a
		if seen[folded] {
			return fmt.Errorf("%q is there twice: give every file a name of its own", name)
		}
		seen[folded] = true
	}
	return nil
}

// checkName accepts plain file names: the gateway makes no folders when it
// unpacks, and anything with a separator in it might leave the bundle's own.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("an empty file name: give the file a name")
	case strings.HasPrefix(name, "/"), strings.Contains(name, ":"), strings.Contains(name, `\`):
		return fmt.Errorf("%q could leave the bundle's folder: use plain file names", name)
	case name == ".", slices.Contains(strings.Split(name, "/"), ".."):
		return fmt.Errorf("%q leaves the bundle's folder: use plain file names", name)
	case strings.Contains(name, "/"):
		return fmt.Errorf("%q is in a folder: put all files at the top of the bundle", name)
	case !utf8.ValidString(name), strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%q has characters that cannot be printed: rename the file", name)
	}
	return nil
}
