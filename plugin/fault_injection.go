//go:build faultinjection

package plugin

import "net/http"

// injectFault panics in the hook that the request names. Only the end-to-end
// suite builds the plugin so, to see what a fault does to a gateway.
func injectFault(r *http.Request, hook string) {
	if r.Header.Get("X-Ratelimit-Fault") == hook {
		panic("injected fault")
	}
}
