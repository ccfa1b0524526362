// Command tyk-token-bucket is the Tyk Gateway plugin: the plugin compiler
// builds this folder, and the gateway looks up these three symbols.
package main

import (
	"net/http"

	"tokenbucket.internal/plugin"
)

var gateway = plugin.Load()

// RateLimitPre is the hook for "pre".
func RateLimitPre(w http.ResponseWriter, r *http.Request) { gateway.Pre(w, r) }

// RateLimitPostKeyAuth is the hook for "post_key_auth".
func RateLimitPostKeyAuth(w http.ResponseWriter, r *http.Request) { gateway.PostKeyAuth(w, r) }

// RateLimitResponse is the hook for "response"; see the README for who needs it.
func RateLimitResponse(w http.ResponseWriter, res *http.Response, r *http.Request) {
	gateway.Response(w, res, r)
}

func main() {}
