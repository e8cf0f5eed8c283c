.PHONY: demo test check bench docs clean

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

demo: $(READY)  ## pick examples on an embedded data set and write a report to look at
	$(BIN)/jostle demo

test: $(READY)  ## every test
	$(BIN)/python -m pytest -q -n 2

check: $(READY)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)  ## speed and memory as ratios, a table and benchmarks/results/bench.json
	$(BIN)/python -m benchmarks

docs: $(READY)  ## write the pages that are made from the code
	$(BIN)/python -m tools.strategies_page docs/strategies.md
	$(BIN)/python -m tools.evidence docs/results.md

clean:
	rm -rf .venv dist build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)
