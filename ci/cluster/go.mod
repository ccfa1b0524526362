module tokenbucket.internal/ci/cluster

go 1.23.0

require (
	github.com/TykTechnologies/tyk v1.9.2-0.20260707114557-2e9450120e2b
	github.com/alicebob/miniredis/v2 v2.35.0
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/redis/go-redis/v9 v9.7.0
	tokenbucket.internal v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/sirupsen/logrus v1.9.3 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	golang.org/x/sys v0.0.0-20220715151400-c0bba94af5f8 // indirect
)

replace tokenbucket.internal => ../..

replace github.com/TykTechnologies/tyk => ../tykapi
