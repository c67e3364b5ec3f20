# `make help` lists the targets. Whatever they need, they set up.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON_BIN := .venv/bin/python
UP := $(PYTHON_BIN) tools/up.py
# A lock names packages and hashes; where they come from is each machine's own affair.
PIP_COMPILE := env -u PIP_FIND_LINKS -u PIP_INDEX_URL .venv/bin/pip-compile -q --generate-hashes --strip-extras \
	--allow-unsafe --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## virtual environment with the locked dependencies
	@tools/setup

.PHONY: demo
demo: setup ## broker, worker and a small fleet, to watch; ends with Ctrl-C (DEMO=once: ends by itself)
	@$(UP) kafka -- $(PYTHON_BIN) -m sim demo

.PHONY: run
run: setup ## the worker, on KAFKA_BOOTSTRAP_SERVERS or a local broker, which it leaves running
	@$(UP) --keep kafka -- .venv/bin/faust -A streams.app worker --loglevel=info

.PHONY: broker
broker: setup ## a local broker and Redis, left running; prints their addresses
	@$(PYTHON_BIN) tools/broker.py start
	@$(PYTHON_BIN) tools/redis.py start

.PHONY: stop
stop: setup ## stop the local broker and Redis, keeping their data
	@$(PYTHON_BIN) tools/redis.py stop
	@$(PYTHON_BIN) tools/broker.py stop

.PHONY: check
check: setup ## format, lint, strict types, import rules
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/pytest -q tests/unit/test_house.py

.PHONY: test
test: setup ## every test (ARGS=… goes to pytest)
	@$(PYTHON_BIN) tools/broker.py fetch
	@$(PYTHON_BIN) tools/redis.py fetch || echo "the tests that need a Redis will be skipped"
	@$(PYTHON_BIN) tools/browser.py
	.venv/bin/pytest -q --durations=10 $(ARGS)

.PHONY: docs
docs: setup ## the documents that are made from the code: AsyncAPI, JSON Schemas, OpenAPI, metrics, dashboard
	@$(PYTHON_BIN) -m tools.docs

.PHONY: bench
bench: setup ## how fast, side by side with what a user would pick instead (ARGS=--quick: a minute)
	@$(UP) kafka -- $(PYTHON_BIN) -m bench $(ARGS)

.PHONY: lock
lock: setup ## pin the dependencies anew, from pyproject.toml
	$(PIP_COMPILE) -o requirements.lock pyproject.toml
	$(PIP_COMPILE) --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml

.PHONY: clean
clean: ## stop what was started here; remove .venv, .obol and caches
	@if [[ -d .obol && -x $(PYTHON_BIN) ]]; then \
		$(PYTHON_BIN) tools/redis.py stop; \
		$(PYTHON_BIN) tools/broker.py stop; \
		$(PYTHON_BIN) -m tools.leftovers; \
	fi
	rm -rf .venv .obol .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
