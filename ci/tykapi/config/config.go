// Package config is the part of the gateway's configuration that plugins reach.
package config

// Config is the gateway's configuration.
type Config struct {
	HashKeys          bool                    `json:"hash_keys"`
	HttpServerOptions HttpServerOptionsConfig `json:"http_server_options"`
	Storage           StorageOptionsConf      `json:"storage"`
}

// HttpServerOptionsConfig belongs to the listener.
type HttpServerOptionsConfig struct {
	// XFFDepth picks a position in X-Forwarded-For, counted from the right;
	// 0 means the leftmost.
	XFFDepth int `json:"xff_depth"`
}

// StorageOptionsConf says where Redis is.
type StorageOptionsConf struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Username string `json:"username"`
	Password string `json:"password"`
	Database int    `json:"database"`
}

// Global returns the running gateway's configuration. The gateway sets it at
// start-up; it is nil before that.
var Global func() Config
