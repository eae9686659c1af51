# Every target makes .venv first if it is missing or older than the lock. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.holdfast-setup
SOURCES = $(wildcard src tests bench tools examples docs)
# mypy refuses a folder that holds no Python file.
TYPED = $(foreach dir,$(SOURCES),$(if $(shell find $(dir) -name .venvs -prune -o -name '*.py' -print -quit),$(dir)))
COMPILE := $(VENV)/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-annotate --no-header $(if $(UPGRADE),--upgrade)

# The stamp names the folder it was made in; a copied .venv is made anew.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(shell pwd -P))
$(STAMP): FORCE
endif

.PHONY: help setup demo test test-agents check format bench docs lock web clean FORCE

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything needed (PYTHON=python3.13 picks an interpreter)
	@:

$(STAMP): pyproject.toml requirements/dev.txt $(PY)
	@PYTHON='$(PYTHON)' tools/setup.sh

# No recipe: a missing interpreter makes the stamp out of date.
$(PY):

FORCE:

demo: $(STAMP) ## Run the demonstration
	@$(PY) examples/demo.py

test: $(STAMP) ## Run all tests (ARGS='-k events -x' goes to pytest)
	@tools/web_tools.sh
	@$(PY) -m pytest -n auto --maxprocesses 4 --dist loadfile $(ARGS)

test-agents: $(STAMP) ## Test with agents of vendors, installed from npm into .cache (ARGS='-k claude')
	@$(PY) -m pytest tests/acp/vendors.py $(ARGS)

check: $(STAMP) ## Lint, formatting, types, import layers
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy $(TYPED)
	@$(VENV)/bin/lint-imports --no-logo

format: $(STAMP) ## Format the code and apply safe lint fixes
	@$(PY) -m ruff check --fix --exit-zero --silent
	@$(PY) -m ruff format

bench: $(STAMP) ## Measure Holdfast beside its peers (ROWS=emit,import picks rows)
	@$(PY) -m bench $(ROWS)

docs: $(STAMP) ## Regenerate the generated reference pages
	@$(PY) tools/gen_docs.py

web: ## Build the web page that the package serves (needs npm)
	@cd web && npm ci --no-audit --no-fund --loglevel=error && npm run build

lock: $(STAMP) ## Regenerate requirements/*.txt from pyproject.toml (UPGRADE=1 takes newer releases)
	@$(PY) -m pip install --quiet 'uv>=0.8' 2>/dev/null || $(PY) -m pip install 'uv>=0.8'
	@$(COMPILE) -o requirements/runtime.txt >/dev/null
	@$(COMPILE) --group dev -c requirements/runtime.txt -o requirements/dev.txt >/dev/null
	@echo 'lock: wrote requirements/runtime.txt and requirements/dev.txt'

clean: ## Remove .venv, caches and everything built
	@rm -rf $(VENV) .cache .venv.lock web/node_modules bench/.venvs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
