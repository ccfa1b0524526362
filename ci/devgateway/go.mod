module tokenbucket.internal/ci/devgateway

go 1.23.0

require (
	github.com/TykTechnologies/tyk v1.9.2-0.20260707114557-2e9450120e2b
	github.com/sirupsen/logrus v1.9.3
	tokenbucket.internal v0.0.0
)

require golang.org/x/sys v0.0.0-20220715151400-c0bba94af5f8 // indirect

replace github.com/TykTechnologies/tyk => ../tykapi

replace tokenbucket.internal => ../..
