# `make help` lists the targets. They set up what they need.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON_BIN := .venv/bin/python
UP := $(PYTHON_BIN) tools/up.py
# Most of a test's time is waiting for processes.
PROCESSES ?= 3
# A lock file names packages and hashes, never an index: that is each machine's own setting.
PIP_COMPILE := env -u PIP_FIND_LINKS -u PIP_INDEX_URL .venv/bin/pip-compile -q --generate-hashes --strip-extras \
	--allow-unsafe --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## create the virtual environment with the locked dependencies
	@tools/setup

.PHONY: demo
demo: setup ## run a broker, a worker and a small fleet until Ctrl-C (DEMO=once: until the play ends)
	@$(UP) kafka -- $(PYTHON_BIN) -m sim demo

.PHONY: run
run: setup ## run a worker on KAFKA_BOOTSTRAP_SERVERS, or on a local broker that is left running
	@$(UP) --keep kafka -- .venv/bin/faust -A streams.app worker --loglevel=info

.PHONY: broker
broker: setup ## start a local broker and Redis, and print their addresses
	@$(PYTHON_BIN) tools/broker.py start
	@$(PYTHON_BIN) tools/redis.py start

.PHONY: stop
stop: setup ## stop the local broker and Redis, and keep the broker's data
	@$(PYTHON_BIN) tools/redis.py stop
	@$(PYTHON_BIN) tools/broker.py stop

.PHONY: check
check: setup ## check format, lint, types and import rules
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/pytest -q tests/unit/test_house.py

.PHONY: test
test: setup ## run all tests in three processes (PROCESSES=…; ARGS=… is passed to pytest)
	@$(PYTHON_BIN) tools/broker.py fetch
	@$(PYTHON_BIN) tools/redis.py fetch || echo "the tests that need Redis are skipped"
	@$(PYTHON_BIN) tools/browser.py
	.venv/bin/pytest -q --durations=10 -n $(PROCESSES) --dist loadscope --no-loadscope-reorder $(ARGS)

.PHONY: mutate
mutate: setup ## change the rules in small ways, one at a time, and list what no test notices (ARGS=streams.rules.tick)
	@$(PYTHON_BIN) -m tools.mutate $(ARGS)

.PHONY: docs
docs: setup ## write the generated documents: AsyncAPI, JSON Schemas, OpenAPI, diagrams, metrics, dashboard
	@$(PYTHON_BIN) -m tools.docs

.PHONY: bench
bench: setup ## run the benchmarks (ARGS=--quick: one minute; PEER=streams: against Kafka Streams)
	@$(UP) kafka -- $(PYTHON_BIN) -m bench $(if $(PEER),--peer $(PEER)) $(ARGS)

.PHONY: soak
soak: setup ## run a worker under load for long, with a crash, and check every usage event (REPLICAS=… MINUTES=…)
	@$(UP) kafka -- $(PYTHON_BIN) -m bench.soak $(if $(REPLICAS),--replicas $(REPLICAS)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

.PHONY: lock
lock: setup ## update the lock files from pyproject.toml
	$(PIP_COMPILE) -o requirements.lock pyproject.toml
	$(PIP_COMPILE) --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml

.PHONY: clean
clean: ## stop local services and delete .venv, .obol and caches
	@if [[ -d .obol && -x $(PYTHON_BIN) ]]; then \
		$(PYTHON_BIN) tools/redis.py stop; \
		$(PYTHON_BIN) tools/broker.py stop; \
		$(PYTHON_BIN) -m tools.leftovers; \
	fi
	rm -rf .venv .obol .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
