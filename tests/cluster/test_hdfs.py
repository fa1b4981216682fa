"""Checkpoints, ledgers and tables on HDFS."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.errors import StorageUnreachableError, TableError
from gearshift.storage.folders import open_folder
from gearshift.storage.location import require_for_delta
from tests.cluster.meter_run import REAL, MeterRun, settings_on
from tests.support import closed_port, eventually


def kill(hdfs: local.Stack, name: str) -> None:
    """`kill -9` of one of its processes, and wait until it is started again."""
    killed = process_of(hdfs, name)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: process_of(hdfs, name) != killed)


def process_of(hdfs: local.Stack, name: str) -> int:
    return next(service.pid.number for service in hdfs.services if service.name == name)


def test_five_shifts_and_a_killed_data_node_name_node_and_runner_lose_nothing(
    unique: str, hdfs: local.Stack, tmp_path: Path, connection: Connection
) -> None:
    root = f"{hdfs.address('hdfs')}/{unique}"
    store = {"checkpoints": f"{root} 50% of #1 ä%20b/checkpoints", "warehouse": f"{root}/warehouse"}
    with MeterRun(unique, settings_on(store, connection, tmp_path), tmp_path, connection) as run:
        with run.runner() as runner:
            run.shift_five_times(runner)
            for name in ("hdfs-datanode", "hdfs"):
                run.kill_in_mid_batch(lambda name=name: kill(hdfs, name))
                run.in_mid_batch()
            run.kill_in_mid_batch(runner.kill)
        run.whole_ledgers()
        with run.runner() as runner:
            assert runner.gears()["count"] == REAL
            run.flow.__exit__()
            run.await_all()
            run.await_bills()
            assert {entry["gap"] for entry in run.data("status")["runner"]["pipelines"]} == {0}
            runner.stop()
        run.verify()
        run.read_without_spark()


def test_an_address_at_which_no_name_node_answers_is_one_sentence() -> None:
    with pytest.raises(StorageUnreachableError, match=r"the store does not answer; check that it runs"):
        open_folder(f"hdfs://127.0.0.1:{closed_port()}/checkpoints")


def test_a_warehouse_that_delta_cannot_open_is_refused_with_the_reason() -> None:
    with pytest.raises(TableError, match=r"on HDFS, Delta cannot open a folder with ' ' in its path"):
        require_for_delta("hdfs://host:9000/my%20tables")
