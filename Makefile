# Two commands are all a newcomer needs: `make demo` and `make test`.
# Each makes the virtual environment, installs the pinned requirements, fetches what is missing, and goes.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
# Tests that no clock hurries.
PATIENT := tests/unit tests/records tests/tables tests/commands
# A whole app with every service and fault, and eight deliveries at a time under faults, keep the machine busy by
# themselves: the sessions of their consumers last ten seconds, and the clocks of other tests would suffer.
HARNESS := tests/faults/test_harness.py
ALONE := tests/faults/deliveries $(HARNESS)
# Unit tests that write hundreds of batches: the full run has them.
HEAVY := tests/unit/tables/test_upkeep.py tests/unit/tables/test_upserts.py
# PySpark comes as source: packed for its wheel without compression, it is there in half the time.
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --no-build-isolation --config-settings=--build-option=--compression=stored

# Modules are compiled once, also where the environment says otherwise, as that of many containers does.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo docs pages tutorial check check-types check-units test test-patient test-timed test-alone faults lint bench bench-tables bench-deliveries bench-cdc bench-ingest bench-remembered bench-decoding bench-gearbox bench-scaling bench-console screenshots test-cluster lock clean

help:
	@echo "make demo   run the smart-meter story: alerts, history and bills, shifted live between the gears"
	@echo "make demo STORY=live_cricket  run another story (.venv/bin/gearshift demo --list)"
	@echo "make docs   build the documentation's site into build/site"
	@echo "make pages  write the generated pages of the documentation again"
	@echo "make check  lint, types and the unit tests that need no server; under two minutes"
	@echo "make test   check and test everything"
	@echo "make test-cluster  test S3 and HDFS, Spark clusters, a standby and a secured Kafka"
	@echo "make faults  run a whole app under random faults for ten minutes (ARGS='--seed 7 --seconds 600')"
	@echo "make screenshots  take the pictures of the console that docs/console.md shows"
	@echo "make bench  measure Gearshift beside plain PySpark"
	@echo "make bench-tables  measure tables beside Spark's own Parquet writer"
	@echo "make bench-deliveries  measure deliveries beside a bare consumer and Quix Streams"
	@echo "make bench-cdc  measure the way from PostgreSQL to Cassandra"
	@echo "make bench-ingest  measure ingest by HTTP and files beside Kafka's client alone"
	@echo "make bench-decoding  measure our decoder beside Spark's own"
	@echo "make bench-remembered  measure what remembering ten million identities takes"
	@echo "make bench-gearbox  simulate the gearbox beside fixed gears"
	@echo "make bench-scaling  measure what it takes to scale a million keys"
	@echo "make bench-console  measure what five open pages of the console cost"

# PostgreSQL and the drivers of both stores, which one story needs, come with the development requirements.
demo: .venv/$(if $(filter food%,$(STORY)),dev,run).done .venv/startup.done
	@$(BIN)/gearshift demo $(STORY) $(ARGS)

# What to run after every change: nothing in it starts Kafka, Spark or a store.
check: .venv/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 check-types check-units

check-types: .venv/dev.done
	$(BIN)/pyright
	$(BIN)/lint-imports

check-units: .venv/dev.done
	$(BIN)/python -m pytest -q tests/unit tests/examples/test_docs.py $(HEAVY:%=--ignore=%) --numprocesses $(WORKERS)

# What is patient goes on beside what is not, and lets it go first.
test:
	@$(MAKE) --no-print-directory --jobs 2 .venv/dev.done .venv-airflow/done
	@$(MAKE) --no-print-directory .venv/startup.done .venv/browser.done
	@$(MAKE) --no-print-directory --jobs 3 lint test-patient test-timed
	@$(MAKE) --no-print-directory test-alone

test-patient: .venv/startup.done
	nice -n 5 $(BIN)/python -m pytest -q $(PATIENT)

test-timed: .venv/startup.done .venv-airflow/done .venv/browser.done
	$(BIN)/python -m pytest $(PATIENT:%=--ignore=%) --ignore=tests/cluster $(ALONE:%=--ignore=%) --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-alone: .venv/startup.done
	$(BIN)/python -m pytest $(filter-out $(HARNESS),$(ALONE))
	$(BIN)/python -m pytest $(HARNESS)

# Checkpoints, ledgers and tables on an S3 server and on HDFS, and apps on a standalone cluster and on YARN: all of them
# real and on this machine.
test-cluster: .venv/startup.done .venv-s3/done
	$(BIN)/python -m pytest tests/cluster $(ARGS)

# Ten minutes of random faults; other seeds are other orders.
faults: .venv/dev.done .venv/startup.done
	$(BIN)/python -m tests.faults.harness $(ARGS)

lint: .venv/dev.done .venv-airflow/done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	nice $(BIN)/pyright
	nice $(BIN)/pyright --project airflow
	$(BIN)/lint-imports

docs: .venv-docs/done
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict

# The pages and pictures that are generated from the code: after a change of a story, a gear check or a picture's data.
pages: .venv/dev.done
	$(BIN)/python tools/stories.py --write
	$(BIN)/python tools/operators.py --write
	$(BIN)/python tools/pictures.py


# The pictures of the console's pages, as its tests see them.
screenshots: .venv/startup.done .venv/browser.done
	mkdir -p build/screenshots
	GEARSHIFT_SCREENSHOTS=build/screenshots $(BIN)/python -m pytest -q tests/browser/test_pages.py -k "replayed or fits"
	cp build/screenshots/overview-1280-light.png build/screenshots/pipeline-1280-dark.png build/screenshots/topic-1280-light.png build/screenshots/board-1280-light.png docs/pictures/

# Follows the tutorial from an empty folder, some minutes long, and writes what its commands print into the page.
tutorial: .venv/dev.done .venv/startup.done
	$(BIN)/python tools/tutorial.py --write

bench: .venv/dev.done
	$(BIN)/python benchmarks/overhead.py $(ARGS)

bench-cdc: .venv/dev.done
	$(BIN)/python benchmarks/cdc_latency.py $(ARGS)

bench-ingest: .venv/dev.done
	$(BIN)/python benchmarks/ingest.py $(ARGS)

bench-remembered: .venv/dev.done
	$(BIN)/python benchmarks/remembered.py $(ARGS)

bench-decoding: .venv/dev.done
	$(BIN)/python benchmarks/decoding.py $(ARGS)

bench-gearbox: .venv/dev.done
	$(BIN)/python benchmarks/gearbox.py $(ARGS)

bench-scaling: .venv/dev.done
	$(BIN)/python benchmarks/scaling.py $(ARGS)

bench-console: .venv/browser.done
	$(BIN)/python -m benchmarks.console $(ARGS)

bench-tables: .venv/dev.done
	$(BIN)/python benchmarks/tables.py $(ARGS)

bench-deliveries: .venv/dev.done .venv-bench/done
	$(BIN)/python benchmarks/deliveries.py $(ARGS)

.venv/made: requirements/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $$($(PYTHON) --version) is not. Set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	touch $@

.venv/run.done: requirements/run.txt pyproject.toml | .venv/made
	$(INSTALL) --python .venv --require-hashes -r requirements/run.txt
	$(INSTALL) --python .venv --no-deps --editable .
	touch $@

.venv/dev.done: requirements/dev.txt pyproject.toml | .venv/made
	$(INSTALL) --python .venv --require-hashes -r requirements/dev.txt
	$(INSTALL) --python .venv --no-deps --editable .
	touch $@ .venv/run.done

# The classes of Spark and Kafka, archived once: from then on they start in half the time.
.venv/startup.done: .venv/run.done
	$(BIN)/python -m gearshift.spark.training
	touch $@

# What the tests of the console's pages drive.
.venv/browser.done: tools/browser.py .venv/dev.done
	$(BIN)/python tools/browser.py
	touch $@

# Quix Streams wants a confluent-kafka of its own, so it gets an environment of its own.
.venv-bench/done: requirements/bench.txt | .venv/made
	$(PYTHON) -m venv --without-pip .venv-bench
	$(INSTALL) --python .venv-bench --only-binary :all: --require-hashes -r requirements/bench.txt
	touch $@

# The site's tools read the package's source and install nothing of it.
.venv-docs/done: requirements/docs.txt | .venv/made
	$(PYTHON) -m venv --without-pip .venv-docs
	$(INSTALL) --python .venv-docs --only-binary :all: --require-hashes -r requirements/docs.txt
	touch $@

# Airflow pins what Gearshift uses in other versions, so its provider is tested in an environment of its own.
.venv-airflow/done: requirements/airflow.txt airflow/pyproject.toml | .venv/made
	$(PYTHON) -m venv --without-pip .venv-airflow
	$(INSTALL) --python .venv-airflow --only-binary :all: --require-hashes -r requirements/airflow.txt
	$(INSTALL) --python .venv-airflow --no-deps --editable airflow
	touch $@

# moto, an S3 server, wants a python-dateutil of its own.
.venv-s3/done: requirements/s3.txt | .venv/made
	$(PYTHON) -m venv --without-pip .venv-s3
	$(INSTALL) --python .venv-s3 --only-binary :all: --require-hashes -r requirements/s3.txt
	touch $@

# After a change of the dependencies in a pyproject.toml.
lock: .venv/made
	printf 'setuptools>=77\nuv>=0.8\n' | $(BIN)/uv pip compile - --universal --generate-hashes --no-header -q -o requirements/build.txt
	$(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --no-header -q -o requirements/run.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --generate-hashes --no-header -q -c requirements/run.txt -o requirements/dev.txt
	echo 'quixstreams==3.28.*' | $(BIN)/uv pip compile - --universal --generate-hashes --no-header -q -o requirements/bench.txt
	echo 'moto[server]>=5.2' | $(BIN)/uv pip compile - --universal --generate-hashes --no-header -q -o requirements/s3.txt
	printf 'mkdocs-material>=9.6\nmkdocstrings[python]>=0.29\n' | $(BIN)/uv pip compile - --universal --generate-hashes --no-header -q -o requirements/docs.txt
	echo 'setuptools>=77' | $(BIN)/uv pip compile airflow/pyproject.toml - --universal --generate-hashes --no-header -q -o requirements/airflow.txt

clean:
	rm -rf .venv .venv-airflow .venv-bench .venv-docs .venv-s3 build dist .gearshift
