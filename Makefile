# Two commands are all a newcomer needs: `make demo` and `make test`.
# Each makes the virtual environment, installs the pinned requirements, fetches what is missing, and goes.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
# Tests that no clock hurries.
PATIENT := tests/unit tests/tables tests/commands
# A whole app with every service and fault keeps the machine busy by itself: the clocks of other tests would suffer.
ALONE := tests/faults/test_harness.py
# PySpark comes as source: packed for its wheel without compression, it is there in half the time.
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --no-build-isolation --config-settings=--build-option=--compression=stored

# Modules are compiled once, also where the environment says otherwise, as that of many containers does.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-food demo-cards test test-patient test-timed test-alone faults lint bench bench-tables bench-deliveries bench-cdc bench-ingest bench-remembered lock clean

help:
	@echo "make demo   run the smart-meter story: alerts, history and bills, shifted live between the gears"
	@echo "make demo-food  run the food-delivery story: from the app's database to kitchens, tables and a chart"
	@echo "make demo-cards  run the card-statements story: month ends, late corrections, one month again"
	@echo "make test   check and test everything"
	@echo "make faults  run a whole app under random faults for ten minutes (ARGS='--seed 7 --seconds 600')"
	@echo "make bench  measure Gearshift beside plain PySpark"
	@echo "make bench-tables  measure tables beside Spark's own Parquet writer"
	@echo "make bench-deliveries  measure deliveries beside a bare consumer and Quix Streams"
	@echo "make bench-cdc  measure the way from PostgreSQL to Cassandra"
	@echo "make bench-ingest  measure ingest by HTTP and files beside Kafka's client alone"
	@echo "make bench-remembered  measure what remembering ten million identities takes"

demo: .venv/run.done .venv/startup.done
	@$(BIN)/python examples/smart_meter/demo.py $(ARGS)

# PostgreSQL and the drivers of both stores come with the development requirements.
demo-food: .venv/dev.done .venv/startup.done
	@$(BIN)/python examples/food_delivery/demo.py $(ARGS)

demo-cards: .venv/run.done .venv/startup.done
	@$(BIN)/python examples/card_statements/demo.py $(ARGS)

# What is patient goes on beside what is not, and lets it go first.
test:
	@$(MAKE) --no-print-directory --jobs 2 .venv/dev.done .venv-airflow/done
	@$(MAKE) --no-print-directory .venv/startup.done
	@$(MAKE) --no-print-directory --jobs 3 lint test-patient test-timed
	@$(MAKE) --no-print-directory test-alone

test-patient: .venv/startup.done
	nice -n 5 $(BIN)/python -m pytest -q $(PATIENT)

test-timed: .venv/startup.done .venv-airflow/done
	$(BIN)/python -m pytest $(PATIENT:%=--ignore=%) $(ALONE:%=--ignore=%) --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-alone: .venv/startup.done
	$(BIN)/python -m pytest $(ALONE)

# Ten minutes of random faults; other seeds are other orders.
faults: .venv/dev.done .venv/startup.done
	$(BIN)/python -m tests.faults.harness $(ARGS)

lint: .venv/dev.done .venv-airflow/done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	nice $(BIN)/pyright
	nice $(BIN)/pyright --project airflow
	$(BIN)/lint-imports

bench: .venv/dev.done
	$(BIN)/python benchmarks/overhead.py $(ARGS)

bench-cdc: .venv/dev.done
	$(BIN)/python benchmarks/cdc_latency.py $(ARGS)

bench-ingest: .venv/dev.done
	$(BIN)/python benchmarks/ingest.py $(ARGS)

bench-remembered: .venv/dev.done
	$(BIN)/python benchmarks/remembered.py $(ARGS)

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

# The classes of Spark, Kafka and the registry, archived once: from then on they start in half the time.
.venv/startup.done: .venv/run.done
	$(BIN)/python -m gearshift.pipelines.training
	touch $@

# Quix Streams wants a confluent-kafka of its own, so it gets an environment of its own.
.venv-bench/done: requirements/bench.txt | .venv/made
	$(PYTHON) -m venv --without-pip .venv-bench
	$(INSTALL) --python .venv-bench --only-binary :all: --require-hashes -r requirements/bench.txt
	touch $@

# Airflow pins what Gearshift uses in other versions, so its provider is tested in an environment of its own.
.venv-airflow/done: requirements/airflow.txt airflow/pyproject.toml | .venv/made
	$(PYTHON) -m venv --without-pip .venv-airflow
	$(INSTALL) --python .venv-airflow --only-binary :all: --require-hashes -r requirements/airflow.txt
	$(INSTALL) --python .venv-airflow --no-deps --editable airflow
	touch $@

# After a change of the dependencies in a pyproject.toml.
lock: .venv/made
	printf 'setuptools>=77\nuv>=0.8\n' | $(BIN)/uv pip compile - --universal --generate-hashes --no-header -q -o requirements/build.txt
	$(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --no-header -q -o requirements/run.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --generate-hashes --no-header -q -c requirements/run.txt -o requirements/dev.txt
	echo 'quixstreams==3.28.*' | $(BIN)/uv pip compile - --universal --generate-hashes --no-header -q -o requirements/bench.txt
	echo 'setuptools>=77' | $(BIN)/uv pip compile airflow/pyproject.toml - --universal --generate-hashes --no-header -q -o requirements/airflow.txt

clean:
	rm -rf .venv .venv-airflow .venv-bench build dist .gearshift
