# Two commands need nothing but Python 3.11 or newer: `make demo` shows jumok, `make test` proves it.
#
# The first of them sets up .venv; that may use the network, nothing after it does. Settings:
#   PYTHON      the Python to build on             make demo PYTHON=python3.12
#   TORCH_SPEC  the torch to install, as pip       make demo TORCH_SPEC=torch==2.13.0+cpu
#   PIP_...     pip's own settings and its pip.conf hold as always

PYTHON ?= python3
TORCH_SPEC ?= torch==2.13.0

BIN := .venv/bin
READY := .venv/ready
TESTS := $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile
RUN := $(if $(wildcard runs/numbers),runs/demo-$(shell date +%Y%m%d-%H%M%S),runs/numbers)

.PHONY: demo test coverage lint check format browser-tests web web-test torture trust trust-long clean

demo: $(READY)
	$(BIN)/jumok train numbers --out $(RUN)

test: $(READY)
	$(TESTS)

# The same, and which lines and branches nothing has passed; it takes longer.
coverage: $(READY)
	$(TESTS) --cov --cov-report=term

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

# Trainings that are killed, stopped, starved and damaged (docs/trust.md). In short, in a few minutes;
# with the figures that are promised, in some 18 minutes; for hours.
torture: $(READY)
	$(BIN)/python -m benchmarks.trust short
	$(BIN)/pytest -m slow tests/training

trust: $(READY)
	$(BIN)/python -m benchmarks.trust

trust-long: $(READY)
	$(BIN)/python -m benchmarks.trust long

# Every view, every gesture and every export of the page, with pictures; `make test` has a short choice of them.
browser-tests: $(READY)
	$(BIN)/pytest -m "browser or not browser" tests/browser

# The page's TypeScript, for those who change it: Node 20 or newer. What is built is committed.
web: web/node_modules
	cd web && npm run build

web-test: web/node_modules
	cd web && npm run check

web/node_modules: web/package-lock.json
	cd web && npm ci
	@touch $@

format: $(READY)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || \
		{ echo "There is no $(PYTHON) here; install Python 3.11 or newer, or name one: make PYTHON=..."; exit 1; }
	@$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv .venv
	$(BIN)/pip install "$(TORCH_SPEC)" --editable ".[dev]"
	@touch $(READY)

clean:
	rm -rf .venv build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
