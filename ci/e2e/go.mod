module tokenbucket.internal/ci/e2e

go 1.23.0
