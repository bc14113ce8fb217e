# Two commands: `make demo` and `make test`. Each sets up its own environment in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || echo python3.11)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo -n)
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup browser demo demo-seeds compare outside synthetic federation faults soak bench test quick lint clean

help:           ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## make .venv and install everything, pinned

$(STAMP): requirements.txt requirements-dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found; install Python 3.11 or 3.12, or give PYTHON=/path/to/python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

demo: setup     ## six synthetic hospitals, NVFlare simulator, table and HTML report in runs/demo
	$(BIN)/python -m fedsuper.studies.demo --out runs/demo

demo-seeds: setup ## the demonstration with two other seeds, in process, in runs/demo-seed-1 and -2
	$(BIN)/python -m fedsuper.studies.demo --out runs/demo-seed-1 --seed 1 --engine local
	$(BIN)/python -m fedsuper.studies.demo --out runs/demo-seed-2 --seed 2 --engine local

compare: setup  ## every method of both papers and their variants, three seeds, and the papers' orderings, in runs/compare
	test -d runs/compare-data || $(BIN)/fedsuper synth --task retina --images 300 --size 48 --out runs/compare-data
	rows=$$($(BIN)/python -m fedsuper.studies.orderings --rows) && \
	$(BIN)/fedsuper compare --data runs/compare-data --config custom/fedsuper/studies/compare.yaml --methods $$rows --seeds 0,1,2 --out runs/compare
	$(BIN)/fedsuper report runs/compare --out runs/compare/report.html
	$(BIN)/python -m fedsuper.studies.orderings runs/compare

outside: setup  ## every mode on a hospital outside the federation, three seeds, tables and figures in runs/outside
	$(BIN)/python -m fedsuper.studies.outside --out runs/outside

federation: setup ## a provisioned federation on this machine: trained through kills, then used at a hospital outside
	$(BIN)/python tests/integration/federation.py --out runs/federation

synthetic: setup ## learning curves of the synthetic hospitals, beside real images where REAL holds them, in runs/synthetic
	$(BIN)/python -m fedsuper.studies.synthetic --out runs/synthetic \
	$(if $(REAL),--real-retina $(REAL)/retina-idrid --real-prostate $(REAL)/prostate-prostatex)

faults: setup   ## break a provisioned federation in every way we know; each study must end with the unbroken bits
	$(BIN)/python tests/faults --out runs/faults

soak: setup     ## 200 rounds in the simulator: memory and disk must not grow with the rounds
	$(BIN)/python tests/faults/soak.py --out runs/soak

bench: setup    ## every promise about speed and memory, and docs/results/performance.md from it; exit 1 where one is missed
	$(BIN)/fedsuper bench --out runs/bench; code=$$?; \
	$(BIN)/python -m fedsuper.bench.performance_page runs/bench docs/results/performance.md; exit $$code

robustness: setup ## what lying sites cost FedSM, with and without a robust rule, in runs/robustness
	$(BIN)/python -m fedsuper.studies.robustness --out runs/robustness

privacy: setup  ## membership inference and gradient inversion, with and without noise, tables in runs/privacy
	$(BIN)/python -m fedsuper.studies.privacy.measure --out runs/privacy

inversion: setup ## what a server can see of an image in a site's update, with and without privacy, in runs/inversion
	$(BIN)/python -m fedsuper.studies.privacy.inversion --out runs/inversion

browser:        ## Chromium for the tests of pages, from Debian's packages where they are to be had
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	{ command -v apt-get >/dev/null && $(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -y -qq chromium chromium-driver >/dev/null; } || \
	echo "make: no chromium and chromedriver here; the tests of pages will be skipped" >&2

test: setup browser lint ## lint, then every test
	$(BIN)/python -m pytest -n 2 --dist loadfile

quick: setup    ## the inner loop: lint and the unit tests that are not slow
	$(BIN)/ruff check -q custom tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not integration and not slow" tests/unit tests/golden

lint: setup     ## ruff and mypy
	$(BIN)/ruff check custom tests
	$(BIN)/mypy custom/fedsuper

clean:          ## remove the environment and all runs
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
