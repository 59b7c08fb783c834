# wsbouncer: developers and CI run the same commands. `make help` lists them.

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS = -s -w -X github.com/wsbouncer/wsbouncer/internal/cli.version=$(VERSION)
FUZZTIME ?= 60s
# The benchmarks are a Go module of their own.
BENCH = $(GO) -C bench
# A tool of the Go module in tools, which is built once; the directory stays this one.
TOOL = $$($(GO) -C tools tool -n $(1))

.DEFAULT_GOAL := help
.PHONY: help licences docs-lint docs-check build demo demo-calibrate demo-failover demo-stt demo-translation test ci proof test-alerts test-manifests test-stt test-browser test-clients test-sdks test-servers test-portable test-fips test-native cross lint fmt generate-packages image-context image packages test-packages release release-check chart manifests vuln site bench bench-check bench-profiles chaos chaos-restart fuzz conformance conformance-server tls-conformance soak failover reconnect reconnect-fleet fleet fleet-model upgrade-test upgrade-outages scenes lag-limit endurance proof-race clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/wsbouncer
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/wsbouncer ./cmd/wsbouncer

demo: build ## Run the demonstration: three simulated servers, the proxy, clients that stream speech (DEMO_SECONDS=10 ends it)
	@bin/wsbouncer demo

# The example recogniser needs a virtual environment; POCKETSPHINX_PYTHON creates it once.
POCKETSPHINX_PYTHON ?= python3
POCKETSPHINX = .cache/pocketsphinx
STT_PROFILE ?= vosk

$(POCKETSPHINX)/ready: examples/pocketsphinx/requirements.txt
	@mkdir -p $(@D) && $(POCKETSPHINX_PYTHON) -m venv --clear $(@D) || { \
		echo "the example recogniser needs Python 3.10 or newer with venv (Debian: python3-venv)"; exit 1; }
	@echo "installing PocketSphinx and its model (40 MB) in $(@D)" && $(@D)/bin/pip install --quiet -r $< || { \
		echo "the example recogniser's packages could not be installed (examples/pocketsphinx/requirements.txt)"; exit 1; }
	@touch $@

demo-stt: build $(POCKETSPHINX)/ready ## Run the demonstration with real recognisers, which it installs; fails if the proxy changes a letter (STT_FLAGS)
	@$(GO) run ./examples/stt -profile $(STT_PROFILE) -python $(POCKETSPHINX)/bin/python $(STT_FLAGS)

demo-failover: build $(POCKETSPHINX)/ready ## Watch transcripts go on while recognisers are killed; fails if a final result is lost, repeated or different (FAILOVER_FLAGS)
	@$(GO) run ./examples/stt -servers 4 -clients 2 -rounds 1 -kill 4s -python $(POCKETSPHINX)/bin/python $(FAILOVER_FLAGS)

demo-translation: build ## Watch speech become a transcript and its translation while simulated servers are killed; fails if a translated word is lost, repeated or different (TRANSLATION_FLAGS)
	@$(GO) run ./examples/stt -translate -servers 3 -clients 2 -rounds 1 -kill 4s $(TRANSLATION_FLAGS)

demo-calibrate: build $(POCKETSPHINX)/ready ## Find out how many streams the example recogniser takes on this machine, in ten minutes; fails if noise hides it (CALIBRATE_FLAGS)
	@$(POCKETSPHINX)/bin/python examples/pocketsphinx/server.py --listen 127.0.0.1:27000 & trap "kill $$!" EXIT; sleep 5; \
		bin/wsbouncer calibrate ws://127.0.0.1:27000 --audio sample --soak 1m $(CALIBRATE_FLAGS)

test-stt: ## Test the example recogniser, and the proxy in front of it (skipped if it cannot be installed)
	@if $(MAKE) --no-print-directory $(POCKETSPHINX)/ready; then \
		(cd examples/pocketsphinx && PYTHONDONTWRITEBYTECODE=1 $(CURDIR)/$(POCKETSPHINX)/bin/python -m unittest) && \
		STT_PYTHON=$(CURDIR)/$(POCKETSPHINX)/bin/python $(GO) test -count=1 ./examples/stt; \
	else echo "test-stt: skipped, since the recogniser cannot be installed here"; fi

test-browser: ## Test the dashboard and the example page in headless Chromium, which it installs if it can (skipped otherwise; CHROMIUM)
	@if chromium=$$(CHROMIUM="$(CHROMIUM)" examples/browser/chromium.sh); then \
		CHROMIUM="$$chromium" $(GO) test -count=1 ./internal/operate/dashboard ./examples/browser; \
	else echo "test-browser: skipped"; fi

# Of the clients for JavaScript and Python, and of the stand-in for the proxy that both are tested with.
CLIENTS = .cache/clients
CLIENTS_PYTHON ?= python3

$(CLIENTS)/ready: clients/testing/requirements.txt
	@mkdir -p $(@D) && $(CLIENTS_PYTHON) -m venv --clear $(@D) && $(@D)/bin/pip install --quiet -r $< && touch $@

test-clients: ## Test the clients that return to their sessions, with the proxy too (Python 3.11; parts are skipped without Node 20.10 or Chromium)
	@if ! $(MAKE) --no-print-directory $(CLIENTS)/ready; then echo "test-clients: skipped, since websockets for Python cannot be installed"; exit; fi; \
	export PYTHON=$(CURDIR)/$(CLIENTS)/bin/python NODE= CHROMIUM="$$(CHROMIUM="$(CHROMIUM)" examples/browser/chromium.sh)"; \
	for node in node "node --experimental-websocket"; do $$node -e WebSocket 2>/dev/null && NODE=$$node && break; done; \
	(cd clients/python && $$PYTHON -B -m unittest) || exit 1; \
	if [ -n "$$NODE" ]; then (cd clients/javascript && $$NODE --test) || exit 1; \
	else echo "test-clients: without Node, since there is none with a WebSocket"; fi; \
	$(BENCH) test -count=1 ./clients

# Versions are blanked. One page has a client in Python.
DOCS_CHECK = .cache/docs-check
docs-check: VERSION = v0.0.0
docs-check: ## Run the commands of README.md and the handbook, and compare what they print with what the pages show (DOCS_FLAGS, e.g. 'docs/failover.md')
	@$(MAKE) --no-print-directory --silent $(CLIENTS)/ready || echo "docs-check: without websockets for Python, since it cannot be installed"
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(DOCS_CHECK)/wsbouncer ./cmd/wsbouncer
	@$(GO) -C tools build -o ../$(DOCS_CHECK)/docscheck ./docscheck
	@PATH="$(CURDIR)/$(CLIENTS)/bin:$$PATH" $(DOCS_CHECK)/docscheck -program $(DOCS_CHECK)/wsbouncer $(DOCS_FLAGS)

test-sdks: build ## Test the simulated services and the proxy with the vendors' SDKs, which it installs (SDKS_FLAGS)
	conformance/sdks/run $(SDKS_FLAGS)

test-servers: build ## Try the profiles on real servers, which it installs; some come from repositories (SERVERS_SRC, SERVERS_FLAGS); an hour
	$(GO) build -o bin/test-servers ./internal/proof/realservers/cmd
	bin/test-servers $(SERVERS_FLAGS)

# SQLite is C that was translated to Go: with the race detector in it, it is ten times slower, and it is not ours. (Other modules stay in: the
# linker keeps one copy of what they and we make of the same generic code, and a copy without the detector makes it report races that are none.)
RACE = -race -gcflags=modernc.org/...=-race=false
# Packages without goroutines, in their tests either: the race detector finds nothing there, and makes their many random steps ten times
# slower. What else it checks, the use of unsafe pointers, is checked without it. internal/sequential_test.go holds them to this.
SEQUENTIAL = $(addprefix ./internal/, . servers/health session/relay/failover fleet proof/simulate wire/frame protocol/profile lab/load/report operate/diagnosis)
# A program with the race detector sleeps for a second before it exits, by default, and so does each package's tests.
test ci: export GORACE ?= atexit_sleep_ms=10
# Half of what the tests of commands and stores compute is the collector's work, since their heaps are small: let them grow.
test: export GOGC ?= 400

# Tests commit to databases all the time, and a disk takes long for that: where /dev/shm is large enough, and programs run from it, files are there.
MEMORY = $(shell d=/dev/shm; [ "$$(df -Pk $$d 2>/dev/null | awk 'NR == 2 {print $$4}')" -ge 8000000 ] 2>/dev/null && \
	! grep -q " $$d .*noexec" /proc/mounts && echo $$d || echo /tmp)
test ci: export TMPDIR ?= $(MEMORY)

# With -vet=off, since `go vet` has just looked, and for more. Twice as many packages at a time as processors, since many tests wait.
TEST = test -vet=off -p $$((2 * $$(getconf _NPROCESSORS_ONLN)))

# The packages whose tests take longest begin first, so that none of them runs alone at the end.
LONGEST = $(addprefix ./internal/, proof/e2e session/relay servers/pool cli wire/loop)

# The proofs in short: sessions of all profiles against servers with bad habits, hunts for leaks, sieges, failovers, clients that come back, fleets, upgrades,
# endurance.
PROOFS = ./internal/lab/stage $(shell $(GO) list ./internal/proof/... | grep -v /e2e$$)

# vet builds what it needs as the tests do, so that nothing is compiled twice.
test: ## Run the unit and end-to-end tests, with the race detector where there are goroutines: about 6 minutes on 2 processors
	$(GO) vet $(RACE) ./...
	$(GO) $(TEST) -gcflags=-d=checkptr -timeout 5m $(SEQUENTIAL)
	$(GO) $(TEST) $(RACE) -timeout 9m $(LONGEST) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(SEQUENTIAL) $(PROOFS))")

ci: cross test-portable docs-check bench-check ## What CI runs after make test: builds for other systems, the other drivers, the commands of the handbook, the proofs in short, the tests of bench
	$(GO) $(TEST) -timeout 5m ./internal/wire/loop -io-uring=off
	$(GO) $(TEST) $(RACE) -timeout 9m $(filter-out %/simulate,$(PROOFS))
	$(BENCH) vet ./...
	$(BENCH) $(TEST) $(RACE) -timeout 9m ./...

proof: chaos soak failover reconnect fleet upgrade-test scenes lag-limit ## Run the long proofs one after the other: about an hour

lag-limit: ## Measure sessions beside a server that slows down, with a lag-limit and without (a minute, on a quiet machine)
	LAG_LIMIT=1 $(GO) test -count=1 -v -run TestLagLimit ./internal/proof/e2e

# Everything else is built with that driver for the other systems: see cross.
PORTABLE = $(addprefix ./internal/, wire/loop wire/handshake servers/backend session/admission session/relay session/jobs lab/sim lab/load)
test-portable: ## Test the packages that use event loops with the portable driver instead of epoll
	$(GO) vet -tags portableloop $(PORTABLE)
	$(GO) $(TEST) -tags portableloop -timeout 5m $(PORTABLE)

# What does not depend on Linux, in its tests either. (Many other tests compare texts of errors, which Windows words differently.)
NATIVE = ./cmd/wsbouncer ./internal $(addprefix ./internal/, config/memory config/state config/tables lab/load/report operate/admin/client \
	operate/api operate/diagnosis operate/live operate/metrics operate/top protocol/profile protocol/wav servers/health servers/pool wire/frame \
	$(addprefix ground/, figures meter panics printable spelling strictyaml value))

# Without the tests of the proxy's own record layer, which FIPS mode does not use, and of versions of TLS that it does not have.
test-fips: ## Test TLS, credentials and a whole proxy with Go's validated FIPS 140-3 module
	GOFIPS140=certified $(GO) test -vet=off -skip 'TestEverySplit|TestVersions' ./internal/wire/secure ./internal/wire/handshake ./internal/access/...
	GOFIPS140=certified $(GO) test -vet=off -run 'TLS|Keys' ./internal/proof/e2e ./internal/session/relay

test-native: ## On macOS or Windows: build everything, tests included, and test what works there
	$(GO) build ./internal/... ./cmd/...
	$(GO) vet ./...
	$(GO) test -timeout 9m $(NATIVE)

# Prometheus' own tool, in a module of its own: deploy/promtool.
PROMTOOL = $(GO) -C deploy/promtool tool promtool

test-alerts: ## Check metrics and alert rules, and test the rules, with promtool, which it builds (skipped if it cannot be downloaded)
	@if $(PROMTOOL) --version >/dev/null 2>&1; then \
		$(PROMTOOL) check metrics <internal/operate/metrics/testdata/busy.txt && $(PROMTOOL) check rules ../prometheus/alerts.yaml && \
		$(PROMTOOL) test rules ../prometheus/alerts_test.yaml && $(PROMTOOL) check config ../compose/prometheus.yaml; \
	else echo "test-alerts: skipped, since promtool cannot be built here"; fi

# Kubernetes' types are in a module of their own, deploy/manifests, and so is Helm: deploy/helm. -count=1, since Go's cache does not see files of other modules change.
test-manifests: ## Check deploy/kubernetes, deploy/kubernetes-fleet, the Helm chart and deploy/compose.yaml, drain a proxy as a kubelet does, and roll out a fleet (downloads Kubernetes' types, and builds Helm)
	$(GO) -C deploy/manifests vet ./...
	$(GO) -C deploy/manifests test -count=1 -timeout 9m ./...

cross: ## Check that the code builds for macOS and Windows
	GOOS=darwin GOARCH=arm64 $(GO) build ./internal/... ./cmd/...
	GOOS=windows GOARCH=amd64 $(GO) build ./internal/... ./cmd/...

# Shell scripts, by their first line.
SCRIPTS = $(shell grep -rlE --exclude-dir=.git --exclude-dir=.cache --exclude-dir=node_modules --exclude-dir=dist '^#!/(usr/)?bin/(env )?(ba|da)?sh' .ci .github bench conformance deploy examples)

docs-lint: ## Check README and docs for phrases that readers stumble over, and for groups of pages with too many words
	@$(GO) test -vet=off -count=1 -v -run '^(TestProse|TestWords)$$' ./internal

lint: release-check docs-lint ## Check formatting, Go code (vet, staticcheck), the licences of dependencies, workflows (actionlint) and scripts (shellcheck, where it is installed)
	@out=$$($(call TOOL,gofumpt) -l .) || exit 1; if [ -n "$$out" ]; then echo "not formatted (make fmt):"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(BENCH) vet ./...
	$(call TOOL,staticcheck) ./...
	cd bench && $$($(GO) -C ../tools tool -n staticcheck) ./...
	$(GO) -C tools test ./... && $(GO) -C tools run ./licences -check
	$(call TOOL,actionlint)
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); \
	else echo "lint: the shell scripts were not checked, since shellcheck is not installed"; fi

fmt: ## Format the code
	$(call TOOL,gofumpt) -w .

# What packages and images contain beside the program: deploy/generate writes it.
GENERATED = generated
# The image's build context, laid out as goreleaser does it: see Dockerfile.
IMAGE_CONTEXT = .cache/image
IMAGE ?= wsbouncer:devel

generate-packages:
	$(GO) run ./deploy/generate -date $$(git log -1 --format=%ct) $(GENERATED)

image-context: generate-packages
	@rm -rf $(IMAGE_CONTEXT) && mkdir -p $(IMAGE_CONTEXT)/$(GENERATED) && cp -R $(GENERATED)/rootfs $(IMAGE_CONTEXT)/$(GENERATED)
	GOOS=linux CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(IMAGE_CONTEXT)/linux/$$($(GO) env GOARCH)/wsbouncer ./cmd/wsbouncer

# goreleaser is built once, for this project only.
GORELEASER_VERSION = v2.16.0
GORELEASER = .cache/goreleaser-$(GORELEASER_VERSION)/goreleaser

$(GORELEASER):
	@echo "building goreleaser, which takes some minutes"
	GOBIN=$(CURDIR)/$(@D) $(GO) install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)

packages: $(GORELEASER) ## Build archives, deb and rpm packages, and their checksums in dist, as a release does (with syft, bills of materials, too)
	$(GORELEASER) check --quiet
	@skip=publish,docker; command -v syft >/dev/null || { echo "packages: no bills of materials, since syft is not installed"; skip=$$skip,sbom; }; \
	$(GORELEASER) release --snapshot --clean --skip=$$skip

test-packages: packages ## Build the packages; install, upgrade and remove them in scratch roots (as root); run the unit and the image (skips what this system lacks)
	WSBOUNCER_DIST=$(CURDIR)/dist $(GO) test -v -count=1 -timeout 15m ./deploy/packages ./deploy/image

image: image-context ## Build the container image with docker, podman or buildah (IMAGE=wsbouncer:devel, CONTAINER_ENGINE)
	@deploy/image/build $(IMAGE_CONTEXT) $(IMAGE)

# Builds and publishes archives, packages, images and checksums: see .goreleaser.yaml.
release: $(GORELEASER) ## Publish a release of the tag at hand; the workflow for releases calls it (docs/internals/releasing.md)
	@tag=$$(git describe --tags --exact-match) && version=$${tag#v} && mkdir -p .cache && \
	{ test "$${version%%-*}" = "$$(cat VERSION)" || { echo "release: the tag is $$tag, and VERSION has $$(cat VERSION)"; exit 1; }; } && \
	awk -v version=$${version%%-*} '/^## / {within = $$2 == version; next} within' CHANGELOG.md | \
	sed -E "s#\]\((clients|deploy|docs)/#](https://github.com/wsbouncer/wsbouncer/blob/$$tag/\1/#g" >.cache/notes.md && \
	test -s .cache/notes.md || { \
		echo "release: tag the commit at hand, and give CHANGELOG.md a section for the tag's version"; exit 1; }
	$(GORELEASER) release --clean --release-notes .cache/notes.md

SITE = .cache/site
SITE_PYTHON ?= python3

$(SITE)/ready: site/requirements.txt
	@mkdir -p $(@D) && $(SITE_PYTHON) -m venv --clear $(@D) && $(@D)/bin/pip install --quiet -r $< && touch $@

site: $(SITE)/ready ## Build the documentation as a site in dist/site, with search and llms.txt; fails for a broken link (Python 3.10)
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --config-file site/mkdocs.yml

licences: ## Write docs/reference/dependencies.md: the modules in the program, by licence; fails if one does not fit
	$(GO) -C tools run ./licences

# Chart.yaml has the version without a pre-release's suffix. The chart's appVersion is also the tag of the image that it installs.
chart: ## Package the Helm chart in dist/charts (builds Helm; CHART_VERSION, e.g. '0.2.0-rc.1', instead of the version in Chart.yaml)
	$(GO) -C deploy/helm tool helm package wsbouncer --destination ../../dist/charts $(if $(CHART_VERSION),--version $(CHART_VERSION) --app-version $(CHART_VERSION))

manifests: ## Render deploy/kubernetes and deploy/kubernetes-fleet from the chart, after a change of the chart, its values or the alert rules (builds Helm)
	$(GO) -C deploy/manifests test -count=1 -run '^TestMade$$' . -update

release-check: ## Check that all files name the version that the file VERSION has, and that CHANGELOG.md has a section for it
	@$(GO) test -vet=off -count=1 -run '^TestVersion$$' ./internal

vuln: ## Check for known vulnerabilities (needs the network)
	@out=$$($(call TOOL,govulncheck) ./... 2>&1); status=$$?; echo "$$out"; \
	if [ $$status -ne 0 ] && echo "$$out" | grep -q -e 'dial tcp' -e 'fetching vulnerabilities' -e 'lookup ' -e 'Forbidden'; then \
		echo "vuln: the vulnerability database cannot be reached, so nothing was checked"; fi; exit $$status

bench: ## Compare with nginx, HAProxy, Envoy, Caddy, Go and C, and write docs/internals/benchmarks.md and the numbers in README.md: 20 minutes, or BENCH_FLAGS=-quick
	$(BENCH) run ./compare $(BENCH_FLAGS)

bench-check: ## Check that README.md and docs/internals/benchmarks.md have the numbers of docs/internals/benchmarks.json, measured at most 300 commits ago
	$(BENCH) run ./compare -check

bench-profiles: ## Measure what profiles cost and gain: relay, return to idle (BENCH_FLAGS; see bench/README.md)
	$(BENCH) run ./compare -scenario profiles -rounds 6 -duration 3s
	$(BENCH) run ./profiles $(BENCH_FLAGS)

chaos: build ## Run the proxy for ten minutes among hostile servers, clients and operators (CHAOS_FLAGS, e.g. '-duration 20s -only bad-keys')
	$(GO) run ./internal/proof/chaos/cmd -wsbouncer bin/wsbouncer $(CHAOS_FLAGS)

chaos-restart: build ## Kill and restart a backend under 3,000 sessions, and check the other backends and the pools (CHAOS_FLAGS)
	$(GO) run ./internal/proof/chaos/cmd -wsbouncer bin/wsbouncer -only restart -sessions 3000 $(CHAOS_FLAGS)

fuzz: ## Fuzz the frame scanner, the opening handshake, credentials, where clients come from, the profiles' matchers, YAML and rewriting, tokens, records of TLS, and the texts of logs, for FUZZTIME each
	for target in FuzzScanner FuzzHostileServer; do \
		$(GO) test -run '^$$' -fuzz $$target -fuzztime $(FUZZTIME) ./internal/wire/frame || exit 1; done
	for target in FuzzRequest FuzzSmuggling; do \
		$(GO) test -run '^$$' -fuzz $$target -fuzztime $(FUZZTIME) ./internal/wire/handshake || exit 1; done
	$(GO) test -run '^$$' -fuzz FuzzCredential -fuzztime $(FUZZTIME) ./internal/access/auth
	$(GO) test -run '^$$' -fuzz FuzzTraceparent -fuzztime $(FUZZTIME) ./internal/session/record
	$(GO) test -run '^$$' -fuzz FuzzText -fuzztime $(FUZZTIME) ./internal/ground/printable
	$(GO) test -run '^$$' -fuzz FuzzFormats -fuzztime $(FUZZTIME) ./internal/operate/accesslog
	$(GO) test -run '^$$' -fuzz FuzzOpen -fuzztime $(FUZZTIME) ./internal/wire/tlsrecord
	$(GO) test -run '^$$' -fuzz FuzzTLS -fuzztime $(FUZZTIME) ./internal/wire/loop
	for target in FuzzProxyHeader FuzzClient; do \
		$(GO) test -run '^$$' -fuzz $$target -fuzztime $(FUZZTIME) ./internal/wire/origin || exit 1; done
	for target in FuzzMatch FuzzJSON FuzzParse FuzzRewrite FuzzCut FuzzMerge; do \
		$(GO) test -run '^$$' -fuzz $$target -fuzztime $(FUZZTIME) ./internal/protocol/profile || exit 1; done
	for target in FuzzToken FuzzClaims FuzzKeySet; do \
		$(GO) test -run '^$$' -fuzz $$target -fuzztime $(FUZZTIME) ./internal/access/auth/token || exit 1; done

# Each run must see all states, and fails if the time is over before: it is ample for a slow machine.
FLEET_MODEL = $(GO) run ./internal/proof/explore/cmd -time 30m
fleet-model: ## Explore all states of the protocol by which proxies share places, leave out each of its guards, and simulate large fleets: about 10 minutes
	for cap in 1 2 3; do $(FLEET_MODEL) -proxies 2 -cap $$cap -faults 1 -live 20 || exit 1; done
	$(FLEET_MODEL) -proxies 2 -cap 1 -faults 2 -live 1000
	$(FLEET_MODEL) -proxies 2 -cap 1 -faults 4 -losses 0 -only cuts,databases,delays,forgets -lost 2 -live 100
	$(FLEET_MODEL) -proxies 2 -cap 8 -faults 0 -losses 0 -live 20
	$(FLEET_MODEL) -proxies 3 -cap 1 -faults 0 -live 20
	for cap in 1 2; do $(FLEET_MODEL) -proxies 3 -cap $$cap -faults 1 -losses 0 -live 1000 || exit 1; done
	$(GO) test -count 1 -v -run TestEveryGuardIsNeeded ./internal/fleet -args -long
	$(GO) run ./internal/proof/explore/cmd -simulate

soak: ## Hold a million sessions through the proxy and check whose results reach each one; again with constant garbage collection (SOAK_FLAGS, e.g. '-tls -sessions 20000')
	$(GO) run ./internal/proof/hunt/cmd $(SOAK_FLAGS)
	$(GO) run ./internal/proof/hunt/cmd -sessions 20000 -gc-every 5ms

failover: ## Kill, hang and drain servers 2,000 times under 300 sessions of each protocol, and check every chunk of audio (FAILOVER_FLAGS, e.g. '-protocol vosk -events 50')
	$(GO) run ./internal/proof/failoverproof/cmd $(FAILOVER_FLAGS)

reconnect: ## Cut the connections of 200 clients 2,000 times in ten minutes while servers die, and check every chunk of audio (RECONNECT_FLAGS, e.g. '-duration 20s -sessions 20 -cuts 60')
	$(GO) run ./internal/proof/failoverproof/cmd -protocol vosk,deepgram,dashscope -together -sessions 200 -cuts 2000 -events 300 -every 6s $(RECONNECT_FLAGS)

reconnect-fleet: build ## Cut clients' connections in front of three proxies behind HAProxy, or of proxies that are upgraded (RECONNECT_FLAGS, e.g. '-kill' or '-proxies 1 -upgrade 15s')
	$(GO) run ./internal/proof/reconnectproof/cmd -wsbouncer bin/wsbouncer $(RECONNECT_FLAGS)

fleet: build ## Run three proxies on one PostgreSQL for ten minutes, kill, stop and cut them off, and count what servers see (FLEET_FLAGS, e.g. '-duration 1m -events kill,failover')
	$(GO) run ./internal/proof/fleetproof/cmd -wsbouncer bin/wsbouncer $(FLEET_FLAGS)

scenes: build ## Make 15 kinds of trouble, one after the other, and check that the proxy names each within 15 s and nothing else (SCENES_FLAGS, e.g. '-only hung,disk-full')
	$(GO) run ./internal/proof/scenes/cmd -wsbouncer bin/wsbouncer $(SCENES_FLAGS)

upgrade-test: build ## Replace a running proxy five times under 1,000 sessions and 200 new ones a second, and count what is refused or cut (UPGRADE_FLAGS)
	mkdir -p .cache
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)-next' -o .cache/wsbouncer-next ./cmd/wsbouncer
	$(GO) run ./internal/proof/upgradeproof/cmd -wsbouncer bin/wsbouncer -other .cache/wsbouncer-next $(UPGRADE_FLAGS)

upgrade-outages: build ## In 20 scenes, upgrade one of two proxies of a fleet while PostgreSQL stops and a server is killed, at random times (OUTAGES_FLAGS, e.g. '-scenes 3 -seed 7')
	$(GO) run ./internal/proof/upgradeproof/cmd -wsbouncer bin/wsbouncer -scenes 20 $(OUTAGES_FLAGS)

endurance: build ## Run a proxy for 24 hours while everything happens to it, and check that nothing grows; continues after Ctrl-C (ENDURANCE_FLAGS, e.g. '-duration 10m -warmup 2m -rate 20')
	$(GO) run ./internal/proof/endurance/cmd -wsbouncer bin/wsbouncer $(ENDURANCE_FLAGS)

proof-race: export GORACE ?= atexit_sleep_ms=10
proof-race: ## Prove fleets and upgrades in short, with proxies that have the race detector
	$(GO) test -count 1 $(RACE) -timeout 9m ./internal/proof/upgradeproof ./internal/proof/fleetproof -program-race

conformance: build ## Run the Autobahn|Testsuite through the proxy (see conformance/README.md)
	conformance/run

# tlsfuzzer is in no registry of packages: TLSFUZZER_SRC is a checkout of it, and without one, it is cloned. What it needs is pinned with it.
TLSFUZZER = .cache/tlsfuzzer
TLSFUZZER_COMMIT = 14555fe211456c46deccc4b2d94751dbd894aece
TLSFUZZER_PYTHON ?= python3

$(TLSFUZZER)/ready:
	@rm -rf $(@D) && mkdir -p $(@D) && if [ -n "$(TLSFUZZER_SRC)" ]; then cp -R "$(TLSFUZZER_SRC)/scripts" "$(TLSFUZZER_SRC)/tlsfuzzer" $(@D); \
	else git clone --quiet --filter=blob:none https://github.com/tlsfuzzer/tlsfuzzer $(@D) && git -C $(@D) checkout --quiet $(TLSFUZZER_COMMIT); fi
	@$(TLSFUZZER_PYTHON) -m venv $(@D)/venv && $(@D)/venv/bin/pip install --quiet tlslite-ng==0.9.0b2 ecdsa==0.19.2 && touch $@

tls-conformance: ## Test the record layer with tlsfuzzer, which it installs (skipped otherwise; Python 3.10; TLSFUZZER_SRC)
	@if $(MAKE) --no-print-directory $(TLSFUZZER)/ready; then TLSFUZZER=$(CURDIR)/$(TLSFUZZER) $(GO) test -vet=off -count=1 -v -run TestTLSFuzzer ./internal/wire/loop; \
	else echo "tls-conformance: skipped, since tlsfuzzer cannot be installed here"; fi

conformance-server: build ## Run Autobahn's hostile server as the backend, directly and through the proxy
	conformance/run-server

clean: ## Remove built and downloaded files
	rm -rf bin dist generated .cache
