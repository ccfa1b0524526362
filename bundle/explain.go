package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/TykTechnologies/tyk/apidef"
	"github.com/TykTechnologies/tyk/apidef/oas"
	"github.com/TykTechnologies/tyk/user"

	"tokenbucket.internal/bundle/policy"
	"tokenbucket.internal/plugin"
)

const explainUsage = `usage: bundle explain -api api.json [-key key.json [-policies policies.json]]
                      [-request "GET /x"] [-json]

Prints which limits apply, where each came from and what was unusable, as the
plugin in a gateway has it. Exits with 1 if something was unusable.

  -api FILE       the API's definition, classic or OAS
  -key FILE       a key, as POST /tyk/keys takes it; without one, the limits of
                  keys that have none of their own
  -policies FILE  the policies of the key, as a map of id to policy: the file of
                  policy_source "file"
  -request TEXT   also what such a request costs, and from which buckets; with
                  or without the listen path
  -json           the report as JSON
`

func explain(flags *flag.FlagSet, args []string, stdout io.Writer) error {
	api, key, policies := flags.String("api", "", ""), flags.String("key", "", ""), flags.String("policies", "", "")
	request, asJSON := flags.String("request", "", ""), flags.Bool("json", false, "")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return usageError("explain takes no files but those of its flags")
	case *api == "":
		return usageError("give an API definition: -api api.json")
	case *policies != "" && *key == "":
		return usageError("-policies says nothing without -key")
	}
	q, err := question(*api, *request)
	if err != nil {
		return err
	}
	var skipped []string
	if *key != "" {
		if skipped, err = addKey(&q, *key, *policies); err != nil {
			return err
		}
	}
	report, err := plugin.Explain(q)
	if err != nil {
		return err
	}
	for _, id := range skipped {
		report.Notes = append(report.Notes, fmt.Sprintf("policy %q of the key does not exist: the gateway leaves it out", id))
	}
	if err := printReport(stdout, report, *asJSON); err != nil {
		return err
	}
	return unusable(report)
}

// unusable is the error for a report that has problems.
func unusable(r *plugin.Report) error {
	if len(r.Unusable) == 0 {
		return nil
	}
	paths := make([]string, len(r.Unusable))
	for i, p := range r.Unusable {
		paths[i] = p.Path
	}
	return fmt.Errorf("unusable: %s", strings.Join(paths, ", "))
}

func question(api, request string) (q plugin.Question, err error) {
	switch words := strings.Fields(request); {
	case request == "":
	case len(words) == 2 && strings.Trim(strings.ToUpper(words[0]), "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" && strings.HasPrefix(words[1], "/"):
		q.Method, q.Path = strings.ToUpper(words[0]), words[1]
	default:
		return q, usageError(`-request: want a method and a path, such as "GET /x"`)
	}
	var kind struct {
		OAS json.RawMessage `json:"x-tyk-api-gateway"`
		ID  string          `json:"api_id"`
	}
	if err := readJSON("-api", api, &kind); err != nil {
		return q, err
	}
	switch {
	case kind.OAS != nil:
		q.OAS = new(oas.OAS)
		return q, readJSON("-api", api, q.OAS)
	case kind.ID != "":
		q.Classic = new(apidef.APIDefinition)
		return q, readJSON("-api", api, q.Classic)
	}
	return q, errors.New("-api: neither a classic definition, which has an api_id, nor an OAS document with x-tyk-api-gateway")
}

// addKey reads a key and merges its policies. What the key's file is called
// may be the key itself, so that no error names it.
func addKey(q *plugin.Question, key, policies string) (skipped []string, err error) {
	q.Session = new(user.SessionState)
	if err := readJSON("-key", key, q.Session); err != nil {
		return nil, err
	}
	set := make(policy.Set)
	if policies != "" {
		if err := readJSON("-policies", policies, &set); err != nil {
			return nil, err
		}
	} else if ids := q.Session.PolicyIDs(); len(ids) > 0 {
		return nil, usageError(fmt.Sprintf("the key has the policies %s: name their file with -policies", strings.Join(ids, ", ")))
	}
	api, org, err := q.API()
	if err != nil {
		return nil, err
	}
	from, err := set.Apply(q.Session, org)
	if err != nil {
		return nil, fmt.Errorf("the gateway refuses the key: %w", err)
	}
	q.MetadataFrom, q.RateFrom, q.AccessFrom = from.Metadata, from.Rate, from.Access[api]
	return from.Skipped, nil
}

// readJSON decodes a file. Its errors name the flag, and neither the file nor
// what is in it.
func readJSON(flag, path string, into any) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	var (
		unread *fs.PathError
		syntax *json.SyntaxError
		typed  *json.UnmarshalTypeError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unread):
		err = unread.Err
	case errors.As(err, &syntax):
		err = fmt.Errorf("line %d: %w", 1+strings.Count(string(b[:min(int(syntax.Offset), len(b))]), "\n"), err)
	case errors.As(err, &typed):
		got, _, _ := strings.Cut(typed.Value, " ")
		err = fmt.Errorf("%s: want %s, got %s", typed.Field, typed.Type, got)
	}
	return fmt.Errorf("%s: %w", flag, err)
}
