# All targets are thin: plain go commands, or a script of scripts/ that says what it runs.
.DEFAULT_GOAL := help
export GOWORK :=
.PHONY: help curator quickstart test test-short test-all check race fuzz bench bench-peers bench-growth sim sim-mutants mutants explore compare api cross release-check

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

.DEFAULT:
	@echo "there is no target $@: make help lists all" >&2; exit 2

quickstart: ## workers take turns at a lock, on the embedded server (ARGS="-servers host:port" for a real one)
	go run ./examples/quickstart $(ARGS)

curator: ## build the program curator, static, into bin/ (docs/cli.md)
	CGO_ENABLED=0 go build -C cmd -trimpath -o ../bin/curator ./curator

test: ## ten minutes at the most: every module's tests, then every recipe on a real ZooKeeper for a moment, and beside Java Curator
	scripts/test

test-short: ## the first half of it, which needs nothing but Go
	scripts/test short

test-all: ## the rest (40 minutes): race detector, all of integration/, databases, every schedule and state, fuzzing, the release
	scripts/test all

race: ## test-short with the race detector, COUNT times (5), to catch rare interleavings
	scripts/test race

check: ## gofmt, the words of comments, go vet, staticcheck, govulncheck, in every module
	scripts/check

api: ## the exported API against the last release's (WRITE=write makes it the released one)
	scripts/api $(WRITE)

cross: ## build and vet every module for other systems and processors, and with the oldest Go (PLATFORMS, OLDEST=)
	scripts/cross

release-check: ## what would be released, by version into empty modules, from a module proxy made of the clone
	scripts/release-check

fuzz: ## every fuzz target for FUZZTIME (20s) each; FUZZ=regexp selects
	scripts/fuzz

sim: ## fault schedules in virtual time for DURATION (5m), or COUNT of them, from seed FROM (1); SEED=n replays one
	scripts/sim

mutants: ## small bugs planted in packages, which their tests must find: hours; PACKAGES="retry recipes/counter" selects
	scripts/mutants $(PACKAGES)

sim-mutants: ## deliberate bugs, each of which the simulation must find; BUG=text selects
	scripts/sim mutants

explore: ## every state of the models of the promises, and their deliberate bugs (docs/simulation.md); LONG=1 for a night
	scripts/explore

bench: ## every benchmark; BENCH=regexp selects, COUNT (1) repeats
	go test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),1) ./...

bench-peers: ## this library beside Curator for Java, go-zookeeper's Lock and bare clients (half an hour); writes docs/measured.md
	scripts/bench-peers

bench-growth: ## how cost grows with the number of waiters, sessions, locks, nodes, clients (a quarter of an hour); writes docs/measured.md
	scripts/bench-growth

compare: ## every way to lock beside this library's, under the same faults (a quarter of an hour, servers from Debian's packages); writes docs/choosing-a-lock.md
	compare/run
