module tokenbucket.internal

go 1.23.0

require (
	github.com/TykTechnologies/tyk v1.9.2-0.20260707114557-2e9450120e2b
	github.com/redis/go-redis/v9 v9.7.0
	github.com/sirupsen/logrus v1.9.3
)

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	golang.org/x/sys v0.0.0-20220715151400-c0bba94af5f8 // indirect
)

// The plugin compiler's workspace wins over this replace, so a release is
// always built against the gateway's own source.
replace github.com/TykTechnologies/tyk => ./ci/tykapi
