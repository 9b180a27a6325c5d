# Everything is installed into .venv, in the versions of constraints.txt. `make help` lists the targets.

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -c constraints.txt

# The first of these that runs and is new enough; or say `make PYTHON=/path/to/python3 …`.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
  $$python -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && \
  { echo $$python; break; }; done)

# pip's isolated build environments read the environment only. A URL, because pip splits a path at its spaces.
empty :=
export PIP_CONSTRAINT := file://$(subst $(empty) $(empty),%20,$(CURDIR))/constraints.txt
export PIP_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Read by benchmarks/run.py.
export ONLY ROUNDS PEERS ENGINE
SCALE := $(if $(SMOKE),--smoke) $(if $(ONLY),--only "$(ONLY)") $(if $(FOLDER),--folder "$(FOLDER)")

.PHONY: help run live setup test test-slow test-loop test-full lint format docs architecture gallery front-page results home concord benchmark bench bench-scale clean FORCE

help:
	@echo "make run        install the core, compare a few methods (options: make run ARGS='--rounds 5')"
	@echo "make live       watch a real federation on this machine: clients and server are killed, the run resumes"
	@echo "make test       lint, types, documentation, tests"
	@echo "make test-slow  the tests that take tens of seconds"
	@echo "make test-loop  the simulator's tests without the compiled kernels"
	@echo "make test-full  the tests that take minutes"
	@echo "make lint       ruff and mypy only"
	@echo "make format     let ruff format and mend the code"
	@echo "make docs       the documentation, in docs/_build/html"
	@echo "make architecture  the tables of modules in docs/architecture.md"
	@echo "make gallery    pictures of docs/gallery.md, from examples/gallery"
	@echo "make front-page the first comparison in README.md and docs/index.md, from a run"
	@echo "make results    docs/results.md and its pictures, from docs/claims.toml and docs/results"
	@echo "make home       docs/home.md, from docs/results/*-home"
	@echo "make concord    docs/concord.md, from docs/results/concord"
	@echo "make benchmark  docs/benchmark.md and its maps, from docs/results/absence"
	@echo "make bench      the benchmarks (ONLY=W1,W3 or pick, ROUNDS=n, PEERS=none or names, ENGINE=loop)"
	@echo "make bench-scale  how it scales, to 100,000 clients (ONLY=word, SMOKE=1, FOLDER=disk of memories)"
	@echo "make setup      only install what the targets above need"
	@echo "make clean      remove caches and build results (.venv stays)"

run: $(VENV)/.core-stamp
	@$(BIN)/understudy run $(ARGS)

live: $(VENV)/.flower-stamp
	@$(BIN)/python -m tools.live $(ARGS)

setup: $(VENV)/.test-stamp

# Tests that start or kill processes run one after another: a busy core must not decide them.
test: lint docs
	$(BIN)/python -m pytest -n 2 -m "not process and not slow and not full"
	$(BIN)/python -m pytest -m "process and not slow and not full"

test-slow: $(VENV)/.test-stamp
	$(BIN)/python -m pytest -m slow

# Without the compiled kernels: what a machine without a C compiler does.
test-loop: $(VENV)/.test-stamp
	UNDERSTUDY_ENGINE=loop $(BIN)/python -m pytest -n 2 -m "not process and not slow and not full" tests/simulation

# Hypothesis draws other examples each time; to repeat one run: make test-full SEED=...
test-full: $(VENV)/.test-stamp
	@seed="$(or $(SEED),$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '))"; echo "Hypothesis seed: $$seed"; \
	  $(BIN)/python -m pytest -m full --hypothesis-profile=full --hypothesis-seed="$$seed"

lint: $(VENV)/.test-stamp
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy --strict src tools
	$(BIN)/lint-imports

format: $(VENV)/.test-stamp
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

# -E: a warning of the last build would not be seen again in a cached page.
docs: $(VENV)/.test-stamp
	$(BIN)/python -m sphinx -q -E -W --keep-going -b html docs docs/_build/html

architecture: $(VENV)/.core-stamp
	@$(BIN)/python -m tools.architecture

gallery: $(VENV)/.core-stamp
	@$(BIN)/python -m tools.gallery

front-page: $(VENV)/.core-stamp
	@$(BIN)/python -m tools.front_page

results: $(VENV)/.core-stamp
	@$(BIN)/python -m tools.claims.results_page docs

home: $(VENV)/.core-stamp
	@$(BIN)/python -m tools.home_table docs

concord: $(VENV)/.core-stamp
	@$(BIN)/python -m tools.concord_table docs

benchmark: $(VENV)/.core-stamp
	@$(BIN)/python -m tools.absence docs

bench: $(VENV)/.test-stamp
	$(BIN)/python benchmarks/run.py

bench-scale: $(VENV)/.test-stamp
	$(BIN)/python -m benchmarks.scale $(SCALE)

clean:
	rm -rf dist build docs/_build docs/generated benchmarks/scratch
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests tools docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A .venv whose Python is gone, or that was copied or moved here with its tree, is made anew.
ifneq ($(shell $(BIN)/python -c "print('runs')" 2>/dev/null && cat $(VENV)/.made-stamp 2>/dev/null),runs $(CURDIR))
$(VENV)/.made-stamp: FORCE
endif

$(VENV)/.made-stamp:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none of python3.11, python3.12," \
	  "python3.13, python3 is. Name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is not." >&2; exit 1; }
	@"$(PYTHON)" -c "import ensurepip, venv" 2>/dev/null || { echo "$(PYTHON) cannot make virtual" \
	  "environments; on Debian and Ubuntu: apt install python3-venv (or" \
	  "$$("$(PYTHON)" -c "import sys; print('python%d.%d-venv' % sys.version_info[:2])"))" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear $(VENV)
	@echo "$(CURDIR)" > $@

# What an installation depends on: it also compiles the kernels of local training.
INSTALLED_FROM := pyproject.toml constraints.txt hatch_build.py $(addprefix \
  src/understudy/simulation/training/kernels/,kernels.c compile.py)

# Stamps are written when pip has finished: a broken-off install is repeated, a current one costs nothing.
$(VENV)/.core-stamp: $(VENV)/.made-stamp $(INSTALLED_FROM)
	@$(forget-half-installed)
	$(PIP_INSTALL) -e .
	@touch $@

$(VENV)/.flower-stamp: $(VENV)/.made-stamp $(INSTALLED_FROM)
	@$(forget-half-installed)
	$(PIP_INSTALL) -e ".[flower,dashboard]"
	@touch $(VENV)/.core-stamp $@

$(VENV)/.test-stamp: $(VENV)/.made-stamp $(INSTALLED_FROM)
	@$(forget-half-installed)
	$(PIP_INSTALL) -e ".[test,docs,parquet,ray,flower,dashboard,hdf5,fedjax]"
	@touch $(VENV)/.core-stamp $(VENV)/.flower-stamp $@

# pip writes INSTALLER last; without it a package may lack files, though pip would take it as installed.
forget-half-installed = for package in $(VENV)/lib/python*/site-packages; do \
  rm -rf "$$package"/~*; \
  for info in "$$package"/*.dist-info; do test -e "$$info/INSTALLER" || rm -rf "$$info"; done; done

FORCE:
