# Everything runs from .venv, which holds exactly the pinned packages. No path here is absolute, so
# a checkout may lie below a folder with spaces in its name. Works with GNU make 3.81 (macOS) too.

BIN := .venv/bin
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)
# The installation is for one place and one set of pins; a change of either makes it anew.
KEY := { pwd; cat requirements-dev.lock pyproject.toml; } | cksum
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

.DEFAULT_GOAL := help
.PHONY: help setup install run test check bench lock clean

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the pinned packages and Tonnage into .venv (at once when nothing changed)
	@[ "$$($(KEY))" = "$$(cat .venv/complete 2>/dev/null)" ] && $(BIN)/python -c '' 2>/dev/null \
	|| $(MAKE) --no-print-directory --silent install

install:
	@set -e; python=; \
	for name in $(PYTHONS); do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    python=$$name; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Tonnage needs Python 3.11 or newer and found none as: $(PYTHONS)." >&2; \
	  echo "Install one, or name it: make setup PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	if [ "$$(pwd)" != "$$(cat .venv/place 2>/dev/null)" ] || ! $(BIN)/python -c '' 2>/dev/null; then \
	  rm -rf .venv; \
	fi; \
	if [ ! -d .venv ] && ! "$$python" -m venv .venv; then \
	  rm -rf .venv; \
	  echo "$$python can not make a virtual environment (Debian: apt install python3-venv)." >&2; \
	  exit 1; \
	fi; \
	pwd > .venv/place; \
	echo "Installing the pinned packages into .venv; the first time takes about a minute."; \
	pip="$(BIN)/python -m pip --quiet --quiet --disable-pip-version-check --no-input install"; \
	$$pip --require-hashes -r requirements-dev.lock; \
	$$pip --no-deps --no-build-isolation -e .; \
	$(KEY) > .venv/complete

run: setup ## Start Tonnage with a database of its own; Ctrl-C stops both
	@trap : INT; $(BIN)/tonnage up $(ARGS) || [ $$? -eq 130 ]

test: setup ## Run the tests; ARGS="-k name" hands options to pytest
	@$(BIN)/pytest -n auto --maxprocesses 8 $(ARGS)

check: setup ## Check style, types, layers, the contract, the migrations, image and compose files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/tonnage openapi --check
	$(BIN)/tonnage migrate --check
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml

bench: setup ## Measure the service and the engine
	@$(BIN)/python -m benchmarks $(ARGS)

lock: ## Resolve the pins anew from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv on PATH: pip install uv" >&2; exit 1; }
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) --group dev pyproject.toml -o requirements-dev.lock

clean: ## Remove .venv and caches; databases stay
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@rm -rf build dist service/*.egg-info
	@find service tests migrations -type d -name __pycache__ -prune -exec rm -rf {} +
