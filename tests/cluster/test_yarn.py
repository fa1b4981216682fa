"""An app on YARN: a ResourceManager and a NodeManager, with checkpoints and tables on the same HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gearshift import stack as local
from gearshift.connection import Connection
from tests.cluster.meter_run import BATCH, NEAR, REAL, MeterRun, settings_on
from tests.cluster.yarn import Yarn


@pytest.fixture
def yarn(
    hdfs: local.Stack, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Yarn]:
    with Yarn(tmp_path_factory.mktemp("yarn"), hdfs.address("hdfs") or "") as running:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(running.conf))
        yield running


def test_an_app_runs_in_three_gears_on_yarn(
    unique: str, hdfs: local.Stack, yarn: Yarn, tmp_path: Path, connection: Connection
) -> None:
    root = f"{hdfs.address('hdfs')}/{unique}"
    store = {"checkpoints": f"{root}/checkpoints", "warehouse": f"{root}/warehouse", **yarn.settings()}
    with MeterRun(unique, settings_on(store, connection, tmp_path), tmp_path, connection) as run:
        with run.runner() as runner:
            runner.gears()
            for pipeline, gear in (("alert", NEAR), ("count", REAL), ("keep", BATCH), ("keep", NEAR)):
                assert runner.shift(pipeline, gear)["after"] == gear
            run.flow.__exit__()
            run.await_all()
            run.await_bills()
            runner.stop()
        run.verify()
