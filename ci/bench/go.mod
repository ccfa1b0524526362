module tokenbucket.internal/ci/bench

go 1.23.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/juju/ratelimit v1.0.2
	github.com/sethvargo/go-limiter v1.1.0
	github.com/throttled/throttled/v2 v2.15.0
	github.com/ulule/limiter/v3 v3.11.2
	go.uber.org/ratelimit v0.3.1
	golang.org/x/time v0.12.0
	tokenbucket.internal v0.0.0
)

require (
	github.com/benbjohnson/clock v1.3.0 // indirect
	github.com/hashicorp/golang-lru v0.5.4 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
)

replace tokenbucket.internal => ../..
