module tokenbucket.internal/ci/e2e

go 1.23.0

require github.com/santhosh-tekuri/jsonschema/v6 v6.0.2

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/redis/go-redis/v9 v9.7.0 // indirect
)

require (
	golang.org/x/text v0.14.0 // indirect
	tokenbucket.internal/ci/cluster v0.0.0
)

replace tokenbucket.internal/ci/cluster => ../cluster

replace tokenbucket.internal => ../..

replace github.com/TykTechnologies/tyk => ../tykapi
