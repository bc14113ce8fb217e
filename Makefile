# Two commands: `make demo` and `make test`. Each sets up its own environment in .venv.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-seeds compare outside test lint clean

help:           ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## make .venv and install everything, pinned

$(STAMP): requirements.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found; install Python 3.11 or give PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

demo: setup     ## six synthetic hospitals, NVFlare simulator, table and HTML report in runs/demo
	$(BIN)/python -m fedsuper.demo --out runs/demo

demo-seeds: setup ## the demonstration with two other seeds, in process, in runs/demo-seed-1 and -2
	$(BIN)/python -m fedsuper.demo --out runs/demo-seed-1 --seed 1 --engine local
	$(BIN)/python -m fedsuper.demo --out runs/demo-seed-2 --seed 2 --engine local

compare: setup  ## every method of both papers and their variants, three seeds, and the papers' orderings, in runs/compare
	test -d runs/compare-data || $(BIN)/fedsuper synth --task retina --images 400 --size 64 --out runs/compare-data
	rows=$$($(BIN)/python -m fedsuper.bench.orderings --rows) && \
	$(BIN)/fedsuper compare --data runs/compare-data --config custom/fedsuper/demo.yaml --methods $$rows --seeds 0,1,2 --out runs/compare
	$(BIN)/fedsuper report runs/compare --out runs/compare/report.html
	$(BIN)/python -m fedsuper.bench.orderings runs/compare

outside: setup  ## every mode on a hospital outside the federation, three seeds, tables and figures in runs/outside
	$(BIN)/python -m fedsuper.bench.outside --out runs/outside

test: setup lint ## lint, then every test
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: setup     ## ruff and mypy
	$(BIN)/ruff check custom tests
	$(BIN)/mypy custom/fedsuper

clean:          ## remove the environment and all runs
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
