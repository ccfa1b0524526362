module tokenbucket.internal/ci/bench

go 1.23.0

require (
	golang.org/x/time v0.9.0
	tokenbucket.internal v0.0.0
)

replace tokenbucket.internal => ../..
