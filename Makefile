# Everything here runs from a clean clone with Go, make, bash and git; tools are pinned in go.tools.mod and go.lint.mod.

SHELL := bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
IMAGE ?= quay.io/open-cluster-management/knative-addon:$(VERSION)
CONTAINER_TOOL ?= docker

CHART := charts/knative-addon
# What `make generate` writes and git tracks.
GENERATED := $(CHART)/crds $(CHART)/README.md
# Modules with tests. Those below test/lab/tools hold the pins of the lab's programs: the lab builds them, only their
# format is checked here (analyzing them means analyzing Kubernetes).
MODULES := . $(patsubst %/go.mod,%,$(wildcard test/lab/go.mod test/e2e/go.mod))

TOOL := go tool -modfile=$(CURDIR)/go.tools.mod
LINT := go tool -modfile=$(CURDIR)/go.lint.mod golangci-lint
# Built as the lab builds its own, so that the two share compiled packages.
HELM := CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false -trimpath" $(TOOL) helm

# in-modules runs a command in every module.
in-modules = for module in $(MODULES); do echo "--- $$module: $(1)"; (cd $$module && $(1)); done

# progress runs a command that may take minutes the first time, and says so while it does.
progress = echo "$(1) ..."; start=$$SECONDS; \
	(while sleep 20; do echo "$(1) ... $$((SECONDS - start)) s"; done) & ticker=$$!; trap "kill $$ticker" EXIT; \
	($(2)); echo "$(1) took $$((SECONDS - start)) s"

##@ General

.PHONY: help
help: ## Show the targets.
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  \033[36m%-17s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Start a fleet on this machine and install Knative Serving on it.
	@$(call progress,building the demo,cd test/e2e && go build -o $(CURDIR)/bin/demo ./cmd/demo)
	@exec bin/demo

.PHONY: presubmit
presubmit: verify test ## Everything a change has to pass.

.PHONY: clean
clean: ## Remove what was built here. The lab's cache lies elsewhere and stays.
	rm -rf bin _output pkg/render/releases/archive/kodata.tar.gz

##@ Generate

.PHONY: generate
generate: manifests helm-docs releases ## Write everything that is generated.

.PHONY: manifests
manifests: ## Write the CustomResourceDefinitions into the chart.
	go run ./manifests/crds/generate

.PHONY: helm-docs
helm-docs: ## Write the chart's README.
	$(TOOL) helm-docs --log-level warning --chart-search-root charts --template-files README.md.gotmpl

.PHONY: releases
releases: ## Make the archive of Knative's release manifests that the binary carries.
	go run ./pkg/render/releases/generate

.PHONY: update-golden
update-golden: releases ## Write the expected output of the rendering tests anew; review the diff.
	go test ./pkg/render -run TestGolden -update

##@ Verify

.PHONY: fmt
fmt: ## Format all Go files.
	$(LINT) fmt

.PHONY: vet
vet: ## Run go vet in every module.
	@$(call in-modules,go vet ./...)

.PHONY: lint
lint: ## Run the linters in every module.
	@$(call in-modules,$(LINT) run ./...)

.PHONY: lint-fix
lint-fix: ## Run the linters and let them repair what they can.
	@$(call in-modules,$(LINT) run --fix ./...)

.PHONY: helm-lint
helm-lint: ## Check the chart.
	$(HELM) lint --strict $(CHART)
	@$(HELM) template knative-addon $(CHART) --namespace knative-addon --include-crds >/dev/null
	@$(HELM) template knative-addon $(CHART) --namespace knative-addon --set podDisruptionBudget.enabled=true >/dev/null

.PHONY: verify-generated
verify-generated: generate ## Fail if generated files are not up to date.
	@git --no-pager diff --exit-code -- $(GENERATED) || { echo "commit what make generate has written"; exit 1; }
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
		[[ -z $$new ]] || { echo "add what make generate has written:"; echo "$$new"; exit 1; }

.PHONY: verify-format
verify-format: ## Fail if a Go file of any module is not formatted.
	@$(LINT) fmt --diff || { echo "run make fmt"; exit 1; }

VERIFY := verify-generated verify-format helm-lint vet lint

.PHONY: verify
verify: ## Everything that can be checked without running the code.
	@for step in $(VERIFY); do \
		start=$$SECONDS; \
		echo "=== $$step"; \
		$(MAKE) --no-print-directory $$step; \
		times+="$$(printf '\n  %-18s %4d s' $$step $$((SECONDS - start)))"; \
	done; echo "=== verified$$times"

##@ Test

.PHONY: test
test: test-unit test-e2e ## Run all tests.

.PHONY: test-unit
test-unit: releases ## Run the unit tests.
	go test -race -shuffle=on -timeout 20m ./...
	cd test/lab && go test -race -shuffle=on ./...

.PHONY: test-e2e
test-e2e: build ## Run the end-to-end tests on fleets of real components, two at a time.
	cd test/e2e && go test ./... -count=1 -parallel 2 -timeout 75m

.PHONY: bench-render
bench-render: releases ## Compare the cost of rendering for many clusters with the Knative Operator's functions.
	go test ./pkg/render -count=1 -v -bench-table
	go test ./pkg/addon -run '^$$' -bench Manifests -benchmem

.PHONY: bench-pull
bench-pull: build ## Measure installing, repairing and reporting on a fleet, against a bare ManifestWork; about 7 minutes.
	cd test/e2e && go run ./cmd/benchpull

.PHONY: bench-footprint
bench-footprint: releases ## Measure what a cluster costs that is watched or polled without a work agent.
	go test ./pkg/delivery/direct -run '^$$' -bench Footprint -benchtime 200x

.PHONY: bench-isolation
bench-isolation: build ## Measure what clusters that never answer cost the others; about 10 minutes.
	cd test/e2e && go test . -count=1 -run '^TestIsolation$$' -v -timeout 40m -compare-isolation 2

.PHONY: bench-push
bench-push: build ## Measure push mode against the Knative Operator on equal spokes; about 40 minutes (BENCH_FLAGS=-quick: 7).
	cd test/e2e && go run ./cmd/benchpush $(BENCH_FLAGS)

.PHONY: bench-rollout
bench-rollout: build ## Measure installs, edits and rest of 200 played clusters; about 40 minutes (BENCH_FLAGS="-clusters=20 -rest=1m": 8).
	cd test/e2e && go run ./cmd/benchrollout $(BENCH_FLAGS)

COUNT ?= 50
PACKAGES ?= ./...
.PHONY: deflake
deflake: releases ## Run unit tests again and again (COUNT, PACKAGES) until one fails.
	go test -race -shuffle=on -failfast -count=$(COUNT) $(PACKAGES)

##@ Build

.PHONY: build
build: ## Build bin/knative-addon.
	@$(call progress,making the archive of Knative's release manifests,go run ./pkg/render/releases/generate)
	@$(call progress,building bin/knative-addon,go build -ldflags "-X main.version=$(VERSION)" -o bin/knative-addon ./cmd/knative-addon)

.PHONY: image
image: ## Build the manager's image (IMAGE, CONTAINER_TOOL).
	$(CONTAINER_TOOL) build --file deploy/Dockerfile --build-arg VERSION=$(VERSION) --tag $(IMAGE) .
