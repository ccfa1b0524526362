package main

import (
	"flag"
	"io"

	"tokenbucket.internal/plugin"
)

const schemaUsage = `usage: bundle schema > ratelimit.schema.json

Prints a JSON Schema for API definitions, classic and OAS, for keys and for
files of policies: of what this plugin reads of them, and of nothing else.
`

func schema(fs *flag.FlagSet, args []string, stdout io.Writer) error {
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return usageError("schema takes no files")
	}
	_, err := io.WriteString(stdout, plugin.Schema)
	return err
}
