// Package tyk holds the part of Tyk Gateway's public Go API that the plugin and
// the development gateway use: the same names, types and JSON tags, nothing more.
//
// It is written from the public API, so that the plugin builds and tests
// anywhere in seconds. The plugin compiler's workspace replaces it with the
// gateway's own source; running the plugin's tests there proves that both agree.
package tyk
