# Every target creates the environment it needs first. Missing Debian packages are installed if that is possible (root);
# otherwise a message names them, and the tests that need them are skipped by name; with SIGHT_REQUIRE_ALL=1 they fail.
PYTHON ?= python3
BIN := .venv/bin
BARE := .venv-bare/bin
SPARK := .venv-spark/bin
EXTRAS := train,fast,data,live,serve,cohort,bench,dask,docs,dev
export OMP_NUM_THREADS ?= 1
export SIGHT_DATA ?= $(abspath ../shared/data)
# Tests start Python more than a hundred times; without stored bytecode, each start compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test pytest coverage test-long mutants lint bench device docs site licences clean browser servers java r compilers arm deployment fleet-env

demo: .venv/.ready ## adapt a bundled model to an unseen synthetic wearer, write a report
	$(BIN)/sight demo

test: .venv/.ready .venv-bare/.ready browser servers compilers ## run all tests but the long ones, and lint beside them
	$(MAKE) --no-print-directory -j2 lint pytest

pytest: .venv/.ready
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile -rs --no-fold-skipped

coverage: .venv/.ready .venv-bare/.ready browser servers compilers ## the same tests, with the lines they run: build/coverage.xml
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile -rs --no-fold-skipped --cov --cov-report=xml --cov-report=term:skip-covered

test-long: .venv/.ready .venv-spark/.ready browser servers java r deployment compilers arm ## run the long tests: engines, kills, soaks, emulators
	$(BIN)/python -m pytest -m long tests -rs --no-fold-skipped

mutants: .venv/.ready servers ## mutation tests of a sample: which changes of the code would no test notice? (an hour)
	$(BIN)/python -m tools.mutants

lint: .venv/.ready ## style, types, direction of imports, spelling
	$(BIN)/ruff check src tests tools benchmarks examples docs
	$(BIN)/ruff format --check src tests tools benchmarks examples docs/conf.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src tests tools docs/*.md examples benchmarks/keel *.md

bench: .venv/.ready ## measure the speed of every method
	$(BIN)/python -m benchmarks.speed methods

device: .venv/.ready arm ## measure flash, RAM and instructions on an emulated microcontroller
	$(BIN)/python -m benchmarks.device.measure

docs: .venv/.ready ## regenerate tables and pages of the docs
	$(BIN)/python -m tools.build_docs write

site: .venv/.ready ## build the documentation site, with the examples, into build/site; warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/site
	@echo "Open build/site/index.html"

licences: .venv/.ready ## list the licences of all dependencies, and write a bill of materials
	$(BIN)/python -m tools.licences

# Chromium for tests of reports and pages.
browser:
	@command -v chromium >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; } \
		|| echo "Chromium is missing; install it (Debian: apt-get install chromium) to run the page tests."

# Redis and Mosquitto for tests that start them; RUNLEVEL=1 keeps their packages from starting a service.
servers:
	@{ command -v redis-server && PATH=$$PATH:/usr/sbin command -v mosquitto; } >/dev/null \
		|| { apt-get update -q && RUNLEVEL=1 apt-get install -q -y --no-install-recommends redis-server mosquitto; } \
		|| echo "Redis or Mosquitto is missing; install both (Debian: apt-get install redis-server mosquitto) to run their tests."

# Compilers for tests of exported C source on this machine, and Node.js for the host of docs/onnx.md in JavaScript.
compilers:
	@{ command -v gcc && command -v clang && command -v node; } >/dev/null \
		|| { apt-get update -q && apt-get install -q -y --no-install-recommends gcc libc6-dev make clang libclang-rt-14-dev nodejs; } \
		|| echo "gcc, clang or node is missing; install them (Debian: apt-get install gcc clang libclang-rt-14-dev nodejs) to run the tests of C source and of the JavaScript host."

# Compiler and emulator of a Cortex-M4F.
arm:
	@{ command -v arm-none-eabi-gcc && command -v qemu-system-arm; } >/dev/null \
		|| { apt-get update -q && apt-get install -q -y --no-install-recommends gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm; } \
		|| echo "The ARM compiler or QEMU is missing; install both (Debian: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm)."

java:
	@command -v java >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends openjdk-17-jre-headless; } \
		|| echo "Java 17 is missing; install it (Debian: apt-get install openjdk-17-jre-headless) to run fleets."

# R for the blocks of the docs.
r:
	@command -v Rscript >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends r-base-core; } \
		|| echo "R is missing; install it (Debian: apt-get install r-base-core) to run the R blocks of the docs."

# An image, units of systemd and alerts of Prometheus are checked with these; RUNLEVEL=1 keeps Prometheus from starting.
deployment:
	@{ command -v buildah && command -v systemd-analyze && command -v promtool && PATH=$$PATH:/usr/sbin command -v debootstrap; } >/dev/null \
		|| { apt-get update -q && RUNLEVEL=1 apt-get install -q -y --no-install-recommends buildah debootstrap systemd prometheus; } \
		|| echo "buildah, debootstrap, systemd or prometheus is missing; install them (Debian: apt-get install) to check deployments."

fleet-env: java .venv-spark/.ready ## Spark in an environment of its own, for sight fleet

.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

# The base install alone, for tests without the optional packages.
.venv-bare/.ready: pyproject.toml constraints.txt
	test -x $(BARE)/python || $(PYTHON) -m venv .venv-bare
	$(BARE)/python -m pip install -q -c constraints.txt -e .
	@touch $@

# pyspark needs pandas before 3, so Spark has its own environment; all other pins are the same.
.venv-spark/.ready: pyproject.toml constraints.txt
	test -x $(SPARK)/python || $(PYTHON) -m venv .venv-spark
	grep -v '^pandas==' constraints.txt > .venv-spark/constraints.txt
	$(SPARK)/python -m pip install -q -c .venv-spark/constraints.txt -e ".[spark,fast]" "pyspark==4.3.0" "pandas==2.3.3"
	@touch $@

clean:
	rm -rf .venv .venv-bare .venv-spark .mypy_cache .ruff_cache .pytest_cache build out
