# Everything a fresh machine needs: each target makes its own environment first.
PYTHON ?= python3
BIN := .venv/bin
BARE := .venv-bare/bin
SPARK := .venv-spark/bin
EXTRAS := train,fast,data,bench,stream,serve,dask,dev
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-long lint bench docs clean browser servers java fleet-env

demo: .venv/.ready ## train on synthetic wearers, adapt to an unseen one, write a report
	$(BIN)/sight demo

test: .venv/.ready .venv-bare/.ready browser servers lint ## everything that should hold, in minutes
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile

test-long: .venv/.ready .venv-spark/.ready browser servers java ## engines, kills and soaks
	$(BIN)/python -m pytest -m long tests

lint: .venv/.ready ## style, types, direction of imports, spelling
	$(BIN)/ruff check src tests tools benchmarks
	$(BIN)/ruff format --check src tests tools benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests tools docs benchmarks/keel *.md

bench: .venv/.ready ## speed of every method, beside the paper's
	$(BIN)/sight bench speed

docs: .venv/.ready ## write generated pages and tables anew
	$(BIN)/python -m tools.build_docs write

# Chromium opens reports and pages in the tests.
browser:
	@command -v chromium >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; } \
		|| echo "Chromium is missing; install it (Debian: apt-get install chromium) to run the page tests."

# Redis and Mosquitto, for the tests that start real ones; packages that start theirs at once are told not to.
servers:
	@{ command -v redis-server && PATH=$$PATH:/usr/sbin command -v mosquitto; } >/dev/null \
		|| { apt-get update -q && RUNLEVEL=1 apt-get install -q -y --no-install-recommends redis-server mosquitto; } \
		|| echo "Redis or Mosquitto is missing; install both (Debian: apt-get install redis-server mosquitto) to run their tests."

java:
	@command -v java >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends openjdk-17-jre-headless; } \
		|| echo "Java 17 is missing; install it (Debian: apt-get install openjdk-17-jre-headless) to run fleets."

fleet-env: java .venv-spark/.ready ## Spark in an environment of its own, for sight fleet

.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

# The base install alone, to prove that what is optional is optional.
.venv-bare/.ready: pyproject.toml constraints.txt
	test -x $(BARE)/python || $(PYTHON) -m venv .venv-bare
	$(BARE)/python -m pip install -q -c constraints.txt -e .
	@touch $@

# pyspark wants pandas before 3, so Spark does not share the environment of the rest; all other pins hold.
.venv-spark/.ready: pyproject.toml constraints.txt
	test -x $(SPARK)/python || $(PYTHON) -m venv .venv-spark
	grep -v '^pandas==' constraints.txt > .venv-spark/constraints.txt
	$(SPARK)/python -m pip install -q -c .venv-spark/constraints.txt -e ".[spark,fast]" "pyspark==4.3.0" "pandas==2.3.3"
	@touch $@

clean:
	rm -rf .venv .venv-bare .venv-spark .mypy_cache .ruff_cache .pytest_cache build out
