module tokenbucket.internal

go 1.23.0

require (
	github.com/TykTechnologies/tyk v1.9.2-0.20260707114557-2e9450120e2b
	github.com/sirupsen/logrus v1.9.3
)

require golang.org/x/sys v0.0.0-20220715151400-c0bba94af5f8 // indirect

// The plugin compiler's workspace wins over this replace, so a release is
// always built against the gateway's own source.
replace github.com/TykTechnologies/tyk => ./ci/tykapi
