"""Checkpoints, ledgers and tables in an object store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gearshift.connection import Connection
from tests.cluster.meter_run import REAL, MeterRun, settings_on
from tests.cluster.object_store import ObjectStore
from tests.support import closed_port, eventually


def test_five_shifts_and_a_killed_runner_lose_nothing(
    unique: str, store: ObjectStore, tmp_path: Path, connection: Connection
) -> None:
    settings = settings_on(store.settings(unique), connection, tmp_path)
    with MeterRun(unique, settings, tmp_path, connection) as run:
        with run.runner() as runner:
            run.shift_five_times(runner)
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


def test_a_store_that_is_gone_for_half_a_minute_is_waited_for_also_in_a_folder_of_any_name(
    unique: str, unchecked_store: ObjectStore, tmp_path: Path, connection: Connection
) -> None:
    settings = settings_on(unchecked_store.settings(f"{unique} 50% of #1 ä%20b"), connection, tmp_path)
    with MeterRun(unique, settings, tmp_path, connection) as run, run.runner() as runner:
        runner.gears()
        run.in_mid_batch()
        with unchecked_store.relay.cut():
            gone_until = time.monotonic() + 30
            for words in (("ledger",), ("table", "list")):
                assert "the store does not answer" in run.refusal(*words)
            eventually(lambda: time.monotonic() > gone_until, every=1)
        run.in_mid_batch()
        run.flow.__exit__()
        run.await_all()
        runner.stop()
        run.verify()


def test_wrong_keys_a_missing_bucket_and_a_wrong_address_are_one_sentence_each(
    unique: str, store: ObjectStore, tmp_path: Path, connection: Connection
) -> None:
    right = store.settings(unique)
    keys = right["storage"]
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "key": ({"storage": {**keys, "access_key": "AKIAOFNOBODYATALL000"}}, "rejected the access key"),
        "secret": ({"storage": {**keys, "secret_key": "s" * 40}}, "rejected the access key"),
        "bucket": (
            {"checkpoints": "s3a://nowhere/checkpoints", "warehouse": "s3a://nowhere/warehouse"},
            "bucket nowhere does not exist",
        ),
        "address": (
            {"storage": {**keys, "endpoint": f"http://127.0.0.1:{closed_port()}"}},
            "the store does not answer",
        ),
    }
    for name, (change, why) in wrong.items():
        folder = tmp_path / name
        folder.mkdir()
        settings = settings_on({**right, **change}, connection, folder)
        run = MeterRun(f"{unique}{name}", settings, folder, connection)
        for words in (
            ("run", "meter.py"),
            ("check", "meter.py"),
            ("ledger",),
            ("table", "list"),
            ("table", "show", "history"),
            ("batch", "list", "meter.py", "bill"),
        ):
            said = run.refusal(*words)
            assert why in said, words
            assert "hint: " in said, words
            assert keys["secret_key"] not in said
