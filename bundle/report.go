package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"tokenbucket.internal/plugin"
)

func printReport(w io.Writer, r *plugin.Report, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	p := &printer{w: w}
	p.head(r)
	p.limits(r)
	p.costs(r)
	p.request(r.Request)
	p.rest(r)
	return p.err
}

// A printer writes a report for people, until an error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table writes rows of cells, of any characters.
func (p *printer) table(rows [][]string) {
	tw := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); p.err == nil {
		p.err = err
	}
}

// printable quotes what would disturb a terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func (p *printer) head(r *plugin.Report) {
	kind := r.Definition
	if r.Keyless {
		kind += ", keyless"
	}
	rows := [][]string{
		{"API", fmt.Sprintf("%s (%s) at %s", r.API, kind, r.ListenPath)},
		{"settings", settingsText(r.Settings)},
	}
	from := r.From
	switch {
	case r.Unlimited:
		from = "unlimited by " + from
	case from == "":
		from = "none"
	}
	p.table(append(rows, []string{"limits of", r.Of + ": " + from}))
}

func settingsText(s plugin.SettingsReport) string {
	text := fmt.Sprintf("mode %s, scope %s, refresh %s, on_fault %s, headers %s", s.Mode, s.Scope, s.Refresh, s.OnFault, s.Headers)
	if s.ShadowHeader {
		text += ", shadow_header"
	}
	if s.StatusPath != "" {
		text += ", status_path " + s.StatusPath
	}
	if len(s.Refund) > 0 {
		text += ", refund " + strings.Join(s.Refund, " ")
	}
	return text
}

func (p *printer) limits(r *plugin.Report) {
	rows := [][]string{{"REQUESTS", "LIMIT", "POLICY", "SCOPE", "MODE", "BUCKET", "FROM"}}
	add := func(requests string, limits []plugin.LimitReport) {
		if len(limits) == 0 {
			rows = append(rows, []string{requests, "none", "-", "-", "-", "-", "-"})
		}
		for _, l := range limits {
			rows = append(rows, []string{requests, l.Limit, l.Policy, l.Scope, mode(l), l.Bucket, l.From})
		}
	}
	add("all", r.Limits)
	for _, e := range r.Endpoints {
		how := "besides"
		if e.Replace {
			how = "instead"
		}
		add(e.Endpoint+", "+how, e.Limits)
	}
	if !r.Keyless {
		add("without a key", r.Anonymous)
		add("with an unknown key", r.Unknown)
	}
	p.printf("\n")
	p.table(rows)
}

func mode(l plugin.LimitReport) string {
	if l.Shadow {
		return "shadow"
	}
	return "enforce"
}

func (p *printer) costs(r *plugin.Report) {
	if len(r.Costs) == 0 {
		return
	}
	rows := [][]string{{"REQUESTS", "COST"}}
	for _, c := range r.Costs {
		rows = append(rows, []string{c.Endpoint, costText(c)})
	}
	p.printf("\n")
	p.table(rows)
}

func costText(c plugin.CostReport) string {
	text := strconv.FormatInt(c.Cost, 10)
	between := fmt.Sprintf(", %d to %d", c.Min, c.Max)
	if c.Header != "" {
		text = "field " + c.Header + between + ", or " + text
	}
	if c.ResponseHeader != "" {
		text += "; in the end field " + c.ResponseHeader + " of the answer" + between
	}
	return text
}

func (p *printer) request(r *plugin.RequestReport) {
	if r == nil {
		return
	}
	where := ""
	if r.Endpoint != "" {
		where = ", endpoint " + r.Endpoint
	}
	p.printf("\nrequest %s%s: ", printable(r.Method+" "+r.Path), printable(where))
	switch {
	case r.Status:
		p.printf("answered with the client's limits, costs nothing\n")
		return
	case len(r.Limits) == 0:
		p.printf("not limited\n")
		return
	}
	p.printf("costs %d, from each of\n", r.Tokens)
	rows := [][]string{}
	for _, l := range r.Limits {
		rows = append(rows, []string{"  " + l.Limit, l.Policy, mode(l), l.Bucket})
	}
	p.table(rows)
}

func (p *printer) rest(r *plugin.Report) {
	if len(r.Notes)+len(r.Unusable) > 0 {
		p.printf("\n")
	}
	for _, note := range r.Notes {
		p.printf("note: %s\n", printable(note))
	}
	for _, u := range r.Unusable {
		path := u.Path
		if u.From != "" {
			path += " of policy " + u.From
		}
		p.printf("unusable: %s: %s\n", printable(path), printable(u.Why))
	}
}
