# Everything a fresh machine needs: each target makes its own environment first.
PYTHON ?= python3
BIN := .venv/bin
BARE := .venv-bare/bin
EXTRAS := train,fast,data,bench,stream,serve,dask,dev
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-long lint bench docs clean browser

demo: .venv/.ready ## train on synthetic wearers, adapt to an unseen one, write a report
	$(BIN)/sight demo

test: .venv/.ready .venv-bare/.ready browser lint ## everything that should hold, in minutes
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile

test-long: .venv/.ready browser ## engines, kills and soaks
	$(BIN)/python -m pytest -m long tests

lint: .venv/.ready ## style, types, direction of imports, spelling
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests docs benchmarks/beyond *.md

bench: .venv/.ready ## speed of every method, beside the paper's
	$(BIN)/sight bench speed

docs: .venv/.ready ## write generated pages and tables anew
	$(BIN)/python -m tests.documents write

# Chromium opens reports and pages in the tests.
browser:
	@command -v chromium >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; } \
		|| echo "Chromium is missing; install it (Debian: apt-get install chromium) to run the page tests."

.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

# The base install alone, to prove that what is optional is optional.
.venv-bare/.ready: pyproject.toml constraints.txt
	test -x $(BARE)/python || $(PYTHON) -m venv .venv-bare
	$(BARE)/python -m pip install -q -c constraints.txt -e .
	@touch $@

clean:
	rm -rf .venv .venv-bare .mypy_cache .ruff_cache .pytest_cache build out
