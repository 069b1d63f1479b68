# Everything here runs from a clean clone with Go, make, bash and git; tools are pinned in go.tools.mod and go.lint.mod.

SHELL := bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
PLATFORMS ?= linux/amd64,linux/arm64
IMAGE ?= quay.io/open-cluster-management/knative-addon:$(VERSION)

CHART := charts/knative-addon
# The image that the chart runs without other values.
CHART_IMAGE = $(shell sed -n 's/^ *repository: *//p' $(CHART)/values.yaml):$(shell sed -n 's/^appVersion: *"*\([^"]*\)"*$$/\1/p' $(CHART)/Chart.yaml)
# What `make generate` writes and git tracks.
GENERATED := $(CHART)/crds $(CHART)/README.md deploy/kustomize/knative-addon.yaml pkg/api/fleet/v1alpha1/zz_generated.deepcopy.go
# Modules with tests. Those below test/lab/tools hold the pins of the lab's programs: the lab builds them, only their
# format is checked here (analyzing them means analyzing Kubernetes).
MODULES := . $(patsubst %/go.mod,%,$(wildcard test/lab/go.mod test/e2e/go.mod test/alerts/go.mod deploy/image/go.mod))

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
demo: build ## Start a fleet on this machine and install Knative Serving with one KnativeFleet.
	@$(call progress,building the demo,cd test/e2e && go build -o $(CURDIR)/bin/demo ./cmd/demo)
	@exec bin/demo

.PHONY: presubmit
presubmit: verify test ## What to run before a commit; .ci/run runs make test-all too.

.PHONY: clean
clean: ## Remove what was built here. The lab's cache lies elsewhere and stays.
	rm -rf bin _output pkg/render/releases/archive/kodata.tar.gz

##@ Generate

.PHONY: generate
generate: manifests helm-docs kustomize releases ## Write everything that is generated.

.PHONY: manifests
manifests: ## Write the CustomResourceDefinitions into the chart.
	go run ./manifests/crds/generate

.PHONY: helm-docs
helm-docs: ## Write the chart's README.
	$(TOOL) helm-docs --log-level warning --chart-search-root charts --template-files README.md.gotmpl

.PHONY: kustomize
kustomize: ## Write the kustomize base: the chart with its default values, without hooks and without traces of Helm.
	@$(HELM) template knative-addon $(CHART) --namespace knative-addon --no-hooks --skip-crds \
		--set keepAddOns=false --set uninstallCheck.enabled=false | \
		sed -e '/^ *helm\.sh\//d' -e '/^# Source: /d' -e 's/managed-by: Helm/managed-by: kustomize/' > deploy/kustomize/knative-addon.yaml.part
	@{ echo '# Generated from charts/knative-addon: change the chart and run "make generate".'; cat deploy/kustomize/knative-addon.yaml.part; } \
		> deploy/kustomize/knative-addon.yaml; rm deploy/kustomize/knative-addon.yaml.part

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
	@$(HELM) template knative-addon $(CHART) --namespace knative-addon --set metrics.serviceMonitor.enabled=true \
		--set metrics.prometheusRule.enabled=true --set metrics.dashboard.enabled=true --set metrics.perCluster=true >/dev/null

.PHONY: verify-generated
verify-generated: generate ## Fail if generated files are not up to date.
	@git --no-pager diff --exit-code -- $(GENERATED) || { echo "commit what make generate has written"; exit 1; }
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
		[[ -z $$new ]] || { echo "add what make generate has written:"; echo "$$new"; exit 1; }

.PHONY: verify-format
verify-format: ## Fail if a Go file of any module is not formatted.
	@$(LINT) fmt --diff || { echo "run make fmt"; exit 1; }

# The cache of go test does not see changes of the chart, which is outside of the module.
.PHONY: verify-alerts
verify-alerts: ## Test alerts and dashboard of the chart with Prometheus' query engine, and the health checks with the code of Argo CD and Flux.
	cd test/alerts && go test -count=1 ./...

.PHONY: verify-workflows
verify-workflows: ## Check the workflows of GitHub.
	go tool -modfile=$(CURDIR)/go.lint.mod actionlint .github/workflows/*.yml

.PHONY: verify-release
verify-release: ## Fail unless VERSION, such as v0.1.0, is the version of the chart and has a section in CHANGELOG.md.
	@grep -qx 'version: $(VERSION:v%=%)' $(CHART)/Chart.yaml && grep -qx 'appVersion: "*$(VERSION:v%=%)"*' $(CHART)/Chart.yaml || \
		{ echo "version and appVersion of $(CHART)/Chart.yaml have to be $(VERSION:v%=%)"; exit 1; }
	@grep -q '^## \[$(VERSION:v%=%)\]' CHANGELOG.md || { echo "CHANGELOG.md lacks section [$(VERSION:v%=%)]"; exit 1; }

VERIFY := verify-generated verify-format verify-workflows helm-lint verify-alerts lint

.PHONY: verify
verify: ## Everything that can be checked without running the code.
	@for step in $(VERIFY); do \
		start=$$SECONDS; \
		echo "=== $$step"; \
		$(MAKE) --no-print-directory $$step; \
		times+="$$(printf '\n  %-18s %4d s' $$step $$((SECONDS - start)))"; \
	done; echo "=== verified$$times"

##@ Test

# How many stories of the end-to-end tests act at a time; beside these stories, the fleet of one story may come to rest. The tests order the
# stories: -parallel is greater than the number of stories. With more stories than cores, TLS handshakes exceed their time limit on a slow machine.
E2E_PARALLEL ?= 2
STORY_TIMES := $(CURDIR)/_output/stories.txt
E2E := mkdir -p $(CURDIR)/_output && : > $(STORY_TIMES) && go test . -count=1 -parallel 1000 -acting-stories $(E2E_PARALLEL) -story-times $(STORY_TIMES) -timeout 150m
# Carries from `make test` to `make test-rest` which permissions of the manager were used, for the verdict on those that never are.
PERMISSION_RECORD := $(CURDIR)/_output/permissions.json
# Groups of programs that only stories of `make test-nightly` need: a build beside the stories would slow the stories down.
NIGHTLY_PROGRAMS := cluster-proxy cluster-proxy-accounts argocd

.PHONY: test
test: test-unit test-main ## Run the unit tests and the main end-to-end tests of both modes; about 14 minutes on two cores.

.PHONY: test-all
test-all: ## Run make test and what users meet besides: the other end-to-end tests, the demo, and stories on real nodes.
	@$(MAKE) --no-print-directory test UNIT_TEST_FLAGS=-shuffle=on
	@$(MAKE) --no-print-directory test-rest
	@$(MAKE) --no-print-directory test-real-short

# Flags of go test for the unit tests. -shuffle=on, as in make test-all, finds tests that depend on their order, and makes go test repeat
# the tests of packages that did not change.
UNIT_TEST_FLAGS ?=

# The cache of go test sees no change outside of a module: of the programs of the lab, and of the chart.
.PHONY: test-unit
test-unit: releases ## Run the unit tests.
	go test -race -short $(UNIT_TEST_FLAGS) -timeout 20m ./...
	go test $(UNIT_TEST_FLAGS) -timeout 20m ./pkg/render # the tests that -short leaves out
	cd test/lab && go test -count=1 $(UNIT_TEST_FLAGS) -timeout 40m ./... # builds the programs of the lab on a new machine
	cd deploy/image && go test -count=1 $(UNIT_TEST_FLAGS) ./...
	cd test/e2e && go test -count=1 $(UNIT_TEST_FLAGS) ./cmd/... ./harness/...

# Other targets run these tests without the race detector: a new machine would compile the dependencies of each module once more.
.PHONY: test-race
test-race: releases ## Run the unit tests of lab, image and end-to-end harness with the race detector.
	cd test/lab && go test -race -count=1 -timeout 40m ./...
	cd deploy/image && go test -race -count=1 ./...
	cd test/e2e && go test -race -count=1 ./cmd/... ./harness/...

.PHONY: test-main
test-main: build ## Run the main end-to-end tests, on fleets of real components (E2E_PARALLEL at a time).
	cd test/e2e && $(E2E) -stories=main -permission-record=$(PERMISSION_RECORD)
	@sort -rn $(STORY_TIMES)

.PHONY: test-rest
test-rest: build ## Run the end-to-end tests that make test leaves out, and the demo; needs the record of a green make test.
	cd test/e2e && $(E2E) -stories=rest -permission-record=$(PERMISSION_RECORD)
	@sort -rn $(STORY_TIMES)
	DEMO_ONCE=1 $(MAKE) --no-print-directory demo
	@if command -v chromium >/dev/null; then $(MAKE) --no-print-directory test-browser; \
	else echo "make test-browser is left out: Debian's package chromium is missing"; fi

.PHONY: test-e2e
test-e2e: build ## Run the end-to-end tests of make test and make test-rest at once, and the demo.
	cd test/e2e && $(E2E)
	@sort -rn $(STORY_TIMES)
	DEMO_ONCE=1 $(MAKE) --no-print-directory demo

.PHONY: test-nightly
test-nightly: build ## Run the end-to-end tests that no other target runs: rare faults, many clusters, other projects, repeats in push mode.
	cd test/lab && go run ./cmd/lab build $(NIGHTLY_PROGRAMS)
	cd test/lab && LAB_TEST_CLUSTER_PROXY=1 go test -count=1 -run '^TestClusterProxy$$' -timeout 20m .
	cd test/e2e && $(E2E) -stories=nightly
	@sort -rn $(STORY_TIMES)

.PHONY: quickstart-test
quickstart-test: build ## Run every command of docs/quickstart.md on a fleet of real components; about 3 minutes on two cores.
	cd test/e2e && go test . -count=1 -v -run '^TestQuickstart$$' -timeout 20m

# One story acts at a time: the pods of one node occupy two cores.
REAL_STORIES ?= ^TestReal
.PHONY: test-real
test-real: build ## Run the end-to-end tests on a node that runs pods; needs root and packages of Debian, which the test names.
	@$(MAKE) --no-print-directory image PLATFORMS=linux/$$(go env GOARCH) IMAGE=$(CHART_IMAGE)
	cd test/e2e && $(E2E) -acting-stories 1 -v -run '$(REAL_STORIES)' -stories=real

REAL_PACKAGES := runc containernetworking-plugins iptables iproute2
.PHONY: real-packages
real-packages: ## Install the packages of Debian that a node needs to run pods; needs root.
	apt-get install --yes --no-install-recommends $(REAL_PACKAGES) || \
		{ apt-get update && apt-get install --yes --no-install-recommends $(REAL_PACKAGES); }

# The last story waits for minutes until Knative's pods have ended.
.PHONY: test-real-short
test-real-short: ## Run make test-real without the longest story where this machine can run real nodes; otherwise say in one line what lacks.
	@cd test/lab && go build -o $(CURDIR)/bin/lab ./cmd/lab
	@if lack=$$(bin/lab check-node 2>&1); then $(MAKE) --no-print-directory test-real REAL_STORIES='^TestReal(Node|Manager)'; \
		else echo "make test-real-short runs no test: $${lack#lab: }"; fi

.PHONY: test-browser
test-browser: releases ## Show the pages of the dashboard in headless Chromium, which Debian's package chromium has.
	go test ./pkg/dashboard -count=1 -run '^TestBrowser$$' -browser

SOAK_DURATION ?= 30m
# 0 draws a seed; the test prints it.
SOAK_SEED ?= 0
.PHONY: soak
soak: build ## Inject random faults into a fleet for SOAK_DURATION; SOAK_SEED repeats the faults of an earlier run.
	cd test/e2e && go test . -count=1 -v -run '^TestSoak$$' -timeout 0 -stories=soak -soak-duration=$(SOAK_DURATION) -seed=$(SOAK_SEED)

FUZZTIME ?= 60s
# How many fuzz targets run at a time, each with one worker.
FUZZ_PARALLEL ?= 2
FUZZ_TARGETS := $(shell grep -r --include='*_test.go' '^func Fuzz' cmd manifests pkg | sed -n 's|^\(.*\)/[^/]*:func \(Fuzz[A-Za-z0-9_]*\).*|fuzz/\1/\2|p' | LC_ALL=C sort)
.PHONY: fuzz $(FUZZ_TARGETS)
fuzz: releases ## Run each fuzz target of the module for FUZZTIME.
	@$(MAKE) --no-print-directory -j $(FUZZ_PARALLEL) --output-sync=target $(FUZZ_TARGETS)

# Go's fuzzer may report the end of FUZZTIME as a failure of the target (https://go.dev/issue/75804, fixed in Go 1.27).
# fuzz-expired says whether a log has that failure and no other.
fuzz-expired = grep -A 1 '^--- FAIL: ' $(1) | sed 1d | grep -qx ' *context deadline exceeded' && ! grep -qE 'Failing input|^panic:|_test\.go:' $(1)
$(FUZZ_TARGETS): fuzz/%:
	@echo "--- $(@F) of $(*D), $(FUZZTIME)"; log=$$(mktemp); trap 'rm -f $$log' EXIT; \
	go test ./$(*D) -run '^$$' -fuzz '^$(@F)$$' -fuzztime $(FUZZTIME) -parallel 1 2>&1 | tee $$log || \
		{ $(call fuzz-expired,$$log) && echo "$(@F): the time is over, no failing input"; }

.PHONY: bench-render
bench-render: releases ## Compare the cost of rendering for many clusters with the Knative Operator's functions.
	go test ./pkg/render -count=1 -v -bench-table
	go test ./pkg/addon -run '^$$' -bench Manifests -benchmem

.PHONY: bench-pull
bench-pull: build ## Measure installing, repairing and reporting on a fleet, against a bare ManifestWork; about 7 minutes.
	cd test/e2e && go run ./cmd/benchpull

.PHONY: bench-memory
bench-memory: releases ## Measure the memory that the works of a cluster take in the manager's caches; fails above a limit.
	go test ./pkg/hub -run '^$$' -bench WorkCache -benchtime 1x

.PHONY: bench-footprint
bench-footprint: releases ## Measure what a cluster costs that is watched or polled without a work agent.
	go test ./pkg/clustercache -run '^$$' -bench Footprint -benchtime 200x

.PHONY: bench-isolation
bench-isolation: build ## Measure what clusters that never answer cost the others; about 10 minutes.
	cd test/e2e && go test . -count=1 -run '^TestIsolation$$' -v -timeout 40m -compare-isolation 2

.PHONY: bench-real
bench-real: build ## Measure answers on a node that runs pods against the same manifests applied with kubectl; needs root, about 20 minutes.
	cd test/e2e && go run ./cmd/benchreal $(BENCH_FLAGS)

.PHONY: bench-push
bench-push: build ## Measure push mode against the Knative Operator on equal spokes; about 40 minutes (BENCH_FLAGS=-quick: 7).
	cd test/e2e && go run ./cmd/benchpush $(BENCH_FLAGS)

.PHONY: bench-rollout
bench-rollout: build ## Measure 200 played clusters, and a KnativeFleet with 200 more in memory; about an hour (BENCH_FLAGS="-clusters=20 -spokes=20 -rest=1m").
	cd test/e2e && go run ./cmd/benchrollout $(BENCH_FLAGS)

.PHONY: bench-scale
bench-scale: build ## Measure 1,000 played clusters, and 1,000 in memory without a work agent; about an hour (BENCH_FLAGS="-parts=push -spokes=100 -rest=1m").
	cd test/e2e && go run ./cmd/benchrollout -clusters=1000 -spokes=1000 -components=knative-serving -compare=same -rounds=1 \
		-parts=edit,rest,restart,partition,push $(BENCH_FLAGS)

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

# The URI of the builder, for the provenance of each image; empty outside of the workflow of releases, and then images have none.
BUILDER ?= $(if $(GITHUB_WORKFLOW_REF),https://github.com/$(GITHUB_WORKFLOW_REF))

BUILD_IMAGE = $(MAKE) --no-print-directory releases && (cd deploy/image && go build -o $(CURDIR)/bin/image .) && \
	bin/image -version $(VERSION) -name $(IMAGE) -platforms $(PLATFORMS) -builder '$(BUILDER)' -output bin/knative-addon-image.tar

.PHONY: image
image: ## Build the manager's image IMAGE for PLATFORMS as an OCI archive, with bills of materials and, with BUILDER, provenance; no container engine is needed.
	@$(BUILD_IMAGE)

.PHONY: image-push
image-push: ## Build the image, and push it to its registry with the credentials of ~/.docker/config.json.
	@$(BUILD_IMAGE) -push
