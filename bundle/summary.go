package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

const unsigned = "none: a gateway with public_key_path set refuses this bundle"

// summary is what build and verify print of a bundle.
type summary struct {
	manifest  *manifest
	sizes     []int64 // by position in file_list
	signature string  // what there is to say of it
}

func (s *summary) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, name := range s.manifest.FileList {
		fmt.Fprintf(tw, "file\t%s\t%d bytes\n", name, s.sizes[i])
	}
	tw.Flush() // the hooks are a table of their own
	for _, h := range s.manifest.CustomMiddleware.enabled() {
		fmt.Fprintf(tw, "hook\t%s\t%s in %s\n", h.kind, h.Name, h.Path)
	}
	tw.Flush()
	fmt.Fprintf(w, "checksum  %s\n", s.manifest.Checksum)
	fmt.Fprintf(w, "signature %s\n", s.signature)
}
