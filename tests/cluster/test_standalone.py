"""An app on a Spark standalone cluster of two workers, with checkpoints and tables on HDFS."""

from __future__ import annotations

import re
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gearshift as gs
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.settings import Settings
from tests.cluster.apps import Priced
from tests.cluster.meter_run import REAL, MeterRun, settings_on
from tests.cluster.standalone import StandaloneCluster
from tests.flow import highest_counts, seen_twice, values
from tests.support import eventually

KEYS = 50  # of a flow

# A function of a module next to the app's file, in a Python UDF: no executor could import it from there.
APP = """
from pyspark.sql import functions as F

from tariffs import price
from tests.cluster.apps import Priced, meter

declared = meter({name!r})
app = declared.app
prices = app.topic("{name}-prices", value=Priced, key="key", partitions=2)


@app.pipeline(source=declared.events, to=prices, freshness="4 seconds", gear="near-real-time")
def bill_now(events):
    return events.select("key", "n", F.udf(price, "long")("n").alias("price"))
"""
TARIFFS = """
import os

def price(n):
    return int(os.environ["TARIFF"]) * n
"""
# An environment that is sent, as venv-pack makes one: here its Python is this one, and says that it was called.
PYTHON = f"""#!/bin/sh
TARIFF=3 exec {sys.executable} "$@"
"""


@pytest.fixture
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as running:
        yield running


def packed_environment(folder: Path) -> dict[str, str]:
    """An archive with a Python, and the settings with which it runs UDFs."""
    python = folder / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    return {
        "spark.archives": f"{folder / 'environment.tar.gz'}#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }


def alerts(settings: Settings) -> Ledger:
    return next(each for each in find_ledgers(settings.checkpoints_uri) if each.pipeline == "alert")


def test_a_killed_worker_loses_nothing_of_an_app_in_three_gears(
    unique: str, hdfs: local.Stack, standalone: StandaloneCluster, tmp_path: Path, connection: Connection
) -> None:
    root = f"{hdfs.address('hdfs')}/{unique}"
    store = {
        "checkpoints": f"{root}/checkpoints",
        "warehouse": f"{root}/warehouse",
        **standalone.settings(packed_environment(tmp_path)),
    }
    settings = settings_on(store, connection, tmp_path)
    with MeterRun(unique, settings, tmp_path, connection) as run:
        (tmp_path / "meter.py").write_text(APP.format(name=unique), encoding="utf-8")
        (tmp_path / "tariffs.py").write_text(TARIFFS, encoding="utf-8")
        with run.runner() as runner:
            run.shift_five_times(runner)
            began = time.monotonic()
            standalone.kill_worker()
            rounds, counts = (
                run.flow.sent // KEYS + 2,
                run.declared.counts,
            )  # each key's next records are counted
            eventually(lambda: min(highest_counts(values(connection, counts)).values()) >= rounds, every=0.2)
            print(f"counted on {time.monotonic() - began:.1f} s after a worker was killed")
            run.in_mid_batch()
            assert runner.gears()["count"] == REAL
            run.flow.__exit__()
            run.await_all()
            run.await_bills()
            eventually(lambda: all(run_.replayed is not None for run_ in alerts(settings).runs[:-1]))
            runner.stop()
        run.verify()
        assert alerts(settings).replayed == seen_twice(values(connection, run.declared.alerts))
        prices = gs.App("prices").topic(f"{unique}-prices", value=Priced, key="key", partitions=2)
        priced = {row.n: row.price for row in values(connection, prices)}
        assert priced == {n: 3 * n for n in range(run.flow.sent)}


@pytest.mark.parametrize(
    ("workers", "spark", "refusal"),
    [
        (
            0,
            {"spark.scheduler.maxRegisteredResourcesWaitingTime": "3s"},
            r"no executor of spark://127\.0\.0\.1:\d+ has registered within 3 seconds",
        ),
        (
            1,
            {"spark.cores.max": "2"},
            r"real-time needs 2 task slots \(alert 2\) and one to spare, but Spark has 2.*spark\.cores\.max in \[spark\]",
        ),
    ],
    ids=["no worker", "too few cores"],
)
def test_a_cluster_with_too_few_executors_is_one_sentence_that_names_the_setting(
    workers: int, spark: dict[str, str], refusal: str, unique: str, tmp_path: Path, connection: Connection
) -> None:
    with StandaloneCluster(tmp_path / "standalone", workers) as cluster:
        settings = settings_on(cluster.settings(spark), connection, tmp_path)
        with MeterRun(unique, settings, tmp_path, connection) as run:
            assert re.search(refusal, " ".join(run.refusal("run", "meter.py").split()))
