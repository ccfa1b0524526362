//go:build !faultinjection

package plugin

import "net/http"

// injectFault does nothing here; see fault_injection.go.
func injectFault(*http.Request, string) {}
