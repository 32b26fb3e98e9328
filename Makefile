# All targets but `adapters`, `blocks`, `browser`, `docs`, `engine`, `scale` and `wheel` work in .venv,
# which they make when it is missing or out of date.
#
#   make train   trains the default recipe; options: make train ARGS="--seed 1"
#   make quick   runs the tests of tests/quick.txt, in a minute
#   make test    runs the tests; options: make test ARGS="-k kuhn"
#   make slow    runs the tests that take minutes
#   make engine  runs the tests of vLLM on a CPU, in an environment of their own
#   make scale   runs the tests of sharding and servers on a CPU, and those of vLLM, likewise
#   make adapters runs the tests of other frameworks, in environments of their own
#   make browser builds the site, and tests pages in a headless Chromium, in an environment of its own
#   make docs    builds the documentation's site into site/; a broken link fails
#   make extras  installs each extra alone and takes its first steps; some: make extras ARGS="web eval"
#   make blocks  runs every block of the documentation in a fresh clone; half an hour
#   make mutants plants small faults, and looks whether the tests find them
#   make lint    ruff and mypy
#   make format  ruff's fixes and format
#   make wheel   builds sdist and wheel, and tests the wheel away from the sources
#   make clean   removes the environments and build outputs

PYTHON ?= python3
ARGS ?=

VENV := .venv
ENGINE := .venv-engine
SCALE := .venv-scale
ADAPTERS := .venv-adapters
BROWSER := .venv-browser
DOCS := .venv-docs
BIN := $(VENV)/bin
# Two processes, a file to each at a time: what the tests of a file share is made once.
TWO := -n 2 --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile -c constraints.txt
# pip would compile on one core, and also the tests of packages. Files that are not valid Python are left out.
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/tests/' $(VENV)/lib || true

# Small models are fastest on one thread, and pytest runs two processes.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.DELETE_ON_ERROR:
.PHONY: train quick test slow engine scale adapters browser docs extras blocks mutants lint format wheel clean

train: $(VENV)/.train
	$(BIN)/arena train $(ARGS)

quick: $(VENV)/.dev
	$(BIN)/python -m pytest $(TWO) @tests/quick.txt $(ARGS)

# Tests start processes, which compile what they import where PYTHONDONTWRITEBYTECODE is set.
test: $(VENV)/.dev
	$(BIN)/python -m compileall -q -j 0 arena_envs wrappers trainers
	$(BIN)/python -m pytest $(TWO) $(ARGS)

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow $(ARGS)

engine: $(ENGINE)/.made
	$(ENGINE)/bin/python -m pytest tests/engine $(ARGS)

scale: $(SCALE)/.made
	$(SCALE)/bin/python -m pytest tests/engine $(ARGS)
	$(SCALE)/bin/python -m pytest tests/scale $(ARGS)

adapters: $(VENV)/.dev
	$(BIN)/python tests/adapters/run.py --environments $(ADAPTERS) $(ARGS)

browser: $(BROWSER)/.made docs
	@which chromium chromium-browser google-chrome | grep -q . || { \
	  echo 'want Chromium or Chrome; install it, as by: apt-get install chromium' >&2; exit 1; }
	$(BROWSER)/bin/python -m pytest -m slow tests/browser $(ARGS)

docs: $(DOCS)/.made $(VENV)/.dev
	$(BIN)/python docs/build_reference.py
	$(DOCS)/bin/zensical build --clean --strict

extras: $(VENV)/.dev
	$(BIN)/python tests/packaging/check_extras.py $(ARGS)

blocks:
	$(PYTHON) tests/packaging/check_docs.py $(ARGS)

mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants/run.py $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel:
	$(PYTHON) tests/packaging/check_wheel.py

clean:
	rm -rf $(VENV) $(ENGINE) $(SCALE) $(ADAPTERS) $(BROWSER) $(DOCS) build dist site docs/reference .mypy_cache .pytest_cache .ruff_cache

# torch first and by itself: asked for together with the rest, pip may choose a newer
# build with gigabytes of CUDA packages.
$(VENV)/.torch: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'want Python 3.11 or newer as "$(PYTHON)"; choose one with: make PYTHON=python3.12 ...' >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	@touch $@

$(VENV)/.train: $(VENV)/.torch pyproject.toml
	$(PIP) -e '.[train]'
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(PIP) -e '.[dev]'
	@$(COMPILE)
	@touch $@ $(VENV)/.train

# torchvision, torchaudio and torchcodec come with vLLM, built for CUDA, and break its import.
define make_apart
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet torch==2.13.0
	$(@D)/bin/python -m pip install --quiet -r $< -e '.[train]'
	$(@D)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@
endef

$(DOCS)/.made: docs/requirements.txt
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet -r $<
	@touch $@

# What .venv has, and Playwright, which drives the Chromium of the system.
$(BROWSER)/.made: tests/browser/requirements.txt $(VENV)/.dev
	$(PYTHON) -m venv --clear $(@D)
	$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > $$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/of_dev.pth
	$(@D)/bin/python -m pip install --quiet -r $<
	@touch $@

$(ENGINE)/.made: tests/engine/requirements.txt pyproject.toml
	$(make_apart)

$(SCALE)/.made: tests/scale/requirements.txt pyproject.toml
	$(make_apart)
