# Everything is set up from nothing: `make demo` and `make test` need Python 3.11 or newer, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
SYNC := UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --frozen --quiet --inexact --python $(BIN)/python
PYTEST := $(BIN)/python -m pytest

.PHONY: help demo test check lint types format bench docs clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(UV):
	@scripts/bootstrap $(PYTHON) $(VENV)

$(VENV)/.demo: $(UV) pyproject.toml uv.lock
	@$(SYNC) --no-default-groups --extra demo
	@touch $@

$(VENV)/.dev: $(UV) pyproject.toml uv.lock
	@$(SYNC) --extra demo --extra sql --group docs
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## Run the main job: an agent, three Python tools and a real MCP server, without a key
	@$(BIN)/handrail demo

test: $(VENV)/.dev ## Run all tests, with the real model and the real servers
	@scripts/services
	@$(PYTEST) -n 2 -m 'not real' -q
	@$(PYTEST) -m real -q

check: $(VENV)/.dev lint types test ## Format and lint check, strict types, all tests

lint: $(VENV)/.dev ## Check format and lint
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: $(VENV)/.dev ## Check types with pyright, strict
	@$(BIN)/pyright

format: $(VENV)/.dev ## Format, and mend what lint can mend
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev ## Measure against a hand-written floor and three peers; writes docs/reference/benchmarks.md
	@$(SYNC) --extra demo --extra sql --group docs --group bench
	@$(BIN)/python -m benchmarks --markdown docs/reference/benchmarks.md

docs: $(VENV)/.dev ## Build the documentation into site/
	@$(BIN)/mkdocs build --strict --quiet

clean: ## Remove what was built, and the virtual environment
	@rm -rf $(VENV) site dist build .pytest_cache .ruff_cache .hypothesis
