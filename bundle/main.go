// Command bundle builds, signs and verifies the zip from which a Tyk Gateway
// loads this plugin, and explains the plugin's settings.
//
//	bundle keygen -o private.pem -pub public.pem
//	bundle build -key private.pem -o tokenbucket-1.zip tokenbucket_v5.14.0_linux_amd64.so
//	bundle verify -key public.pem tokenbucket-1.zip
//	bundle explain -api api.json -key key.json
//	bundle schema
//
// It exits with 0 if all is well, 1 if something failed or was refused, and 2
// if it was called wrongly.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

const usage = `bundle builds, signs and verifies the zip from which a Tyk Gateway loads a Go plugin,
and explains the settings of this one.

usage:
  bundle build  [-manifest manifest.json] [-key private.pem] [-name NAME] [-o out.zip] FILE.so ...
  bundle verify [-key public.pem] BUNDLE.zip
  bundle keygen [-bits 2048] -o private.pem -pub public.pem
  bundle explain -api api.json [-key key.json] [-policies policies.json] [-request "GET /x"] [-json]
  bundle schema

Run "bundle COMMAND -h" for the details of a command.
Exit codes: 0 done, 1 refused or failed, 2 called wrongly.
`

// A command is one of the words after "bundle".
type command struct {
	usage string
	run   func(fs *flag.FlagSet, args []string, stdout io.Writer) error
}

var commands = map[string]command{
	"build":   {buildUsage, build},
	"verify":  {verifyUsage, verify},
	"keygen":  {keygenUsage, keygen},
	"explain": {explainUsage, explain},
	"schema":  {schemaUsage, schema},
}

// usageError says that the command was called wrongly, which exits with 2.
type usageError string

func (e usageError) Error() string { return string(e) }

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	name := args[0]
	if name == "help" || name == "-h" || name == "-help" || name == "--help" {
		fmt.Fprint(stdout, usage)
		return 0
	}
	cmd, ok := commands[name]
	if !ok {
		fmt.Fprintf(stderr, "bundle: unknown command %q: use build, verify, keygen, explain or schema\n", name)
		return 2
	}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are printed below, in one form
	err := cmd.run(fs, args[1:], stdout)
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, cmd.usage)
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "bundle: %v\nRun \"bundle %s -h\" to see how it is used.\n", wrong, name)
		return 2
	default:
		fmt.Fprintf(stderr, "bundle: %v\n", err)
		return 1
	}
}

// parseFlags refuses flags after the first file too, where package flag would
// take them for files.
func parseFlags(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError(err.Error())
	}
	for _, arg := range fs.Args() {
		if strings.HasPrefix(arg, "-") {
			return usageError(fmt.Sprintf("%s comes after a file: put flags first (a file of that name is ./%s)", arg, arg))
		}
	}
	return nil
}
