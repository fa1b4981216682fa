"""Ways to make the ledger lie, each with what a user sees instead."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift.errors import LedgerError, RunnerError
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.storage.folders import open_folder
from gearshift.storage.lease import take
from gearshift.topics import Producer
from tests.flow import Event, seen_twice, values


def test_task_retries_and_an_older_checkpoint_are_counted_and_a_missing_one_or_a_second_runner_refused(
    unique: str, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings.model_copy(
        update={"spark_master": "local[8,3]"}
    )  # a task may fail twice, as on a cluster
    failed = str(tmp_path / "failed")
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=2)
    copies = app.topic(f"{unique}-copies", value=Event, key="key", partitions=2)
    again = app.topic(f"{unique}-again", value=Event, key="key", partitions=2)
    kept = app.table(f"{unique}_kept")

    def failing_once(at: int) -> Column:
        mark = f"{failed}-{at}"

        def check(n: int) -> int:
            if n == at and not os.path.exists(mark):  # noqa: PTH110
                open(mark, "x").close()  # noqa: PTH123
                raise OSError("this executor has had enough")
            return n

        return F.udf(check, "long", useArrow=False)("n")

    @app.pipeline(source=events, to=copies, gear="batch", freshness="1 day")
    def copy(events: DataFrame) -> DataFrame:
        return events.withColumn("n", failing_once(5000))

    @app.pipeline(source=events, to=kept, gear="batch", freshness="1 day")
    def keep(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=kept, to=again, freshness="1 day")
    def publish(kept: DataFrame) -> DataFrame:
        return kept.withColumn("n", failing_once(4900))

    def ledger(name: str) -> Ledger:
        return next(each for each in find_ledgers(settings.checkpoints_uri) if each.pipeline == name)

    checkpoint = settings.home / "checkpoints" / unique / "copy" / "spark"
    sent, retried = 0, 0
    copied: list[Event] = []
    for turn, count in enumerate((6000, 200, 100)):
        if turn == 2:
            shutil.rmtree(checkpoint)
            (tmp_path / "older").rename(checkpoint)
        with Runner(app, settings) as runner:
            connection = runner.context.connection
            with Producer(connection) as producer:
                for n in range(sent, sent + count):
                    producer.send(events, Event(key=f"k{n % 7}", n=n))
            sent += count
            runner.shift("copy", Gear.BATCH)
            if turn == 0:
                runner.shift("keep", Gear.BATCH)
                runner.shift("publish", Gear.BATCH)
            folder = f"{settings.checkpoints_uri}/{unique}"
            with pytest.raises(RunnerError, match=rf"another runner has .*/{unique}: process \d+ on "):
                take(open_folder(folder), home=tmp_path)
            copied = values(connection, copies)
            published = values(connection, again)
        if turn == 0:
            assert seen_twice(copied) > 0, "the failed task had written nothing"
            assert ledger("copy").replayed == seen_twice(copied)
            wrote = sum(run.written for run in ledger("publish").runs)
            assert 0 < ledger("publish").replayed == len(published) - wrote
            assert {event.n for event in published} == set(range(sent))
            assert wrote % sent == 0  # each run publishes the whole table
            shutil.copytree(checkpoint, tmp_path / "older")
            retried = seen_twice(copied)
        if turn == 1:
            assert ledger("copy").replayed == seen_twice(copied) == retried
    assert {event.n for event in copied} == set(range(sent))
    assert ledger("copy").replayed == seen_twice(copied) == retried + 200
    assert (ledger("copy").gap, ledger("copy").at_least) == (0, False)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert any("an older copy of the checkpoint was restored" in message for message in warned), warned
    assert any("which wrote" in message and "records twice" in message for message in warned), warned

    checkpoint.rename(tmp_path / "away")
    with (
        pytest.raises(LedgerError, match=r"the checkpoint in .* is missing.* gearshift reset copy"),
        Runner(app, settings),
    ):
        pass
