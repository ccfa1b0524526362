# Everything that this project does is a target here; `make` lists them.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

DIST        := dist
PLUGIN      := $(DIST)/tokenbucket.so
MODULES     := . ci/tykapi ci/devgateway ci/e2e ci/bench ci/cluster
TYK_VERSION ?=
TYK_SRC     ?=
TYK_BIN     ?=
PORT        ?= 8080
BUILD_ID    ?=
KEY         ?=
MANIFEST    ?= manifest.json
DEV         ?=
DURATION    ?= 60s

# What uses them runs in other folders; abspath would not take a space.
absolute = $(if $(1),$(if $(filter /%,$(1)),$(1),$(CURDIR)/$(1)))
override TYK_SRC := $(call absolute,$(TYK_SRC))
override TYK_BIN := $(call absolute,$(TYK_BIN))

# A checkout may belong to somebody else, which git will not read.
export GOFLAGS := -buildvcs=false $(GOFLAGS)

# The development gateway loads only what was built as it was itself.
GOBUILD     := go build -trimpath -tags=goplugin

export TYK_SRC TYK_BIN PORT BUILD_ID
export PLUGIN_SO  := $(abspath $(PLUGIN))
export BUNDLE     := $(abspath $(DIST)/bundle)
export DEVGATEWAY := $(abspath $(DIST)/devgateway)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  \1|/' | column -t -s'|'

.PHONY: run
run: paths tools plugin ## serve the demo on 127.0.0.1:8080 (PORT=) until Ctrl-C
	@exec $(DIST)/demo

.PHONY: demo
demo: paths tools plugin ## ten seconds of traffic on the demo, and what came of it
	@exec $(DIST)/demo -traffic 10s

.PHONY: test
test: paths check unit e2e ## everything: vet, unit tests with the race detector, end to end

.PHONY: check
check: ## gofmt and go vet in every module
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted; run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	@for m in $(MODULES); do echo "vet $$m"; (cd $$m && go vet ./...); done

.PHONY: unit
unit: ## unit tests with the race detector; with TYK_SRC= the plugin's against Tyk's own packages too
	go test -race ./...
	go test -run 'Memory|ManyRandom' ./limiter
	go test -count=1 -run TestSoak ./plugin -soak 10s -soak-keys 100000 -soak-p999 100ms
	cd ci/tykapi && go test -race ./...
	cd ci/devgateway && go test -race ./...
	cd ci/cluster && go test -parallel 6 ./... # they wait more than they work
	cd ci/bench && go test ./...
	@if [ -n "$(TYK_SRC)" ]; then ci/compile/workspace -test "$(TYK_SRC)"; fi

.PHONY: soak
soak: ## 100 000 decisions a second through the hooks for DURATION=60s
	go test -count=1 -run TestSoak -v ./plugin -soak $(DURATION)

.PHONY: e2e
e2e: paths tools plugin ## the end-to-end suite; with TYK_BIN= and TYK_SRC= on a real gateway
	cd ci/e2e && go test -count=1 ./...

# A wrong path is told before anything is built.
.PHONY: paths
paths:
	@[ -z "$(TYK_BIN)" ] || { [ -f "$(TYK_BIN)" ] && [ -x "$(TYK_BIN)" ]; } || { echo "TYK_BIN: $(TYK_BIN) is not a program: name the gateway's binary"; exit 1; }
	@[ -z "$(TYK_BIN)" ] || [ -n "$(TYK_SRC)" ] || { echo "TYK_BIN is set, TYK_SRC is not: name the source tree of that gateway too"; exit 1; }
	@[ -z "$(TYK_SRC)" ] || [ -f "$(TYK_SRC)/go.mod" ] || { echo "TYK_SRC: $(TYK_SRC) has no go.mod: name a Tyk Gateway source tree"; exit 1; }

.PHONY: plugin
plugin: ## the .so: for the development gateway, or TYK_SRC=dir, or TYK_VERSION=v5.14.0 (or several) with Docker; BUILD_ID=2
	@mkdir -p $(DIST)
	@if [ -n "$(TYK_VERSION)" ]; then ci/compile/image $(DIST) $(TYK_VERSION); \
	elif [ -n "$(TYK_SRC)" ]; then ci/compile/workspace "$(TYK_SRC)" $(PLUGIN) "$(BUILD_ID)"; \
	else $(GOBUILD) -buildmode=plugin -o $(PLUGIN) . && echo "$(PLUGIN): for the development gateway"; fi

.PHONY: bundle
bundle: tools ## the bundle zip of the releases in dist or here, or of TYK_VERSION=, TYK_SRC=dir or DEV=1; KEY=private.pem signs it, MANIFEST=manifest-response.json adds the response hook
	@[ -z "$(TYK_VERSION)$(TYK_SRC)$(DEV)" ] || $(MAKE) --no-print-directory plugin
	@files=$$(if [ -z "$(TYK_VERSION)" ] && [ -n "$(TYK_SRC)$(DEV)" ]; then echo $(PLUGIN); else ci/compile/releases $(DIST) $(TYK_VERSION); fi); \
	echo "bundling" $$files; \
	$(DIST)/bundle build -manifest $(MANIFEST) $(if $(KEY),-key $(KEY)) -o $(DIST)/tokenbucket.zip $$files

.PHONY: tools
tools: ## the commands that the other targets use
	@mkdir -p $(DIST)
	@go build -o $(BUNDLE) ./bundle
	@cd ci/devgateway && $(GOBUILD) -o $(DEVGATEWAY) .
	@cd ci/e2e && go build -o $(abspath $(DIST)/demo) ./demo

VERSIONS := $(or $(TYK_VERSION),v5.14.0)
# Of several versions the trial runs the first.
COMPOSE  := TYK_VERSION=$(firstword $(VERSIONS)) $(shell command -v docker-compose || echo docker compose) -f ci/compose/docker-compose.yml

.PHONY: docker
docker:
	@command -v docker >/dev/null || { echo "docker is not installed; without it: make run"; exit 1; }
	@docker version >/dev/null 2>&1 || { echo "docker has no engine here ('docker version' says why); without it: make run"; exit 1; }

.PHONY: up
up: docker ## a Tyk Gateway with the demo on 127.0.0.1:8080 (PORT=), in Docker
	$(MAKE) bundle TYK_VERSION="$(VERSIONS)"
	$(COMPOSE) up -d --force-recreate upstream gateway
	$(COMPOSE) run --rm keys
	@echo "try: curl -i -H 'Authorization: free' http://127.0.0.1:$(PORT)/demo/"

.PHONY: down
down: docker ## end what `make up` started
	$(COMPOSE) down -v

.PHONY: e2e-docker
e2e-docker: docker ## start the trial, check it, end it
	@status=0; { $(MAKE) up && ci/compose/check.sh http://127.0.0.1:$(PORT); } || { status=$$?; $(COMPOSE) logs gateway; }; $(MAKE) down; exit $$status

.PHONY: bench
bench: ## the limiter beside its peers: a table, and ci/bench/results (raw figures and charts); CPUS=1,2,4
	go test -run '^$$' -bench 'TokenBucket|RateLimit' -benchmem ./...
	cd ci/bench && go run . -out results

.PHONY: bench-cluster
bench-cluster: paths tools plugin ## three gateways on one Redis, beside a script for each request, and as processes; needs redis-server
	cd ci/cluster && go run ./bench -out results
	cd ci/e2e && go run ./fleet -out ../cluster/results/fleet.txt

.PHONY: mutate
mutate: ## change each comparison and constant of the limiter, and see that the tests notice (long)
	cd ci/bench && go run ./mutate

.PHONY: bench-gateway
bench-gateway: ## what a request costs a real gateway, beside its own limiter; TYK_BIN= and TYK_SRC=
	PLUGIN_SO= BUNDLE= ci/bench/gateway

.PHONY: lint
lint: check ## check, and staticcheck
	@for m in $(MODULES); do echo "staticcheck $$m"; (cd $$m && go run honnef.co/go/tools/cmd/staticcheck@v0.8.0 ./...); done

.PHONY: clean
clean: ## remove what the targets made
	rm -rf $(DIST)
