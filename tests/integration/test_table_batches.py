"""Batches over whole tables into a topic: computed once, and what a failed one wrote is counted as replayed."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from tests.arrow_frames import HERE, ArrowFrame
from tests.flow import Event, values
from tests.support import eventually

ROWS = 3000


def computing(log: Path, failing_at: int | None = None, times: int = 0) -> Column:
    """The number itself; notes each time that it is computed, and fails the first times at one of them."""

    def compute(n: int) -> int:
        if n == failing_at:
            for turn in range(times):
                try:
                    os.close(os.open(f"{log}.failed{turn}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                raise OSError("this executor has had enough")
        with open(f"{log}.{os.getpid()}", "a") as notes:  # noqa: PTH123
            notes.write(f"{n}\n")
        return n

    return F.udf(compute, "long", useArrow=False)("n")


def computed(log: Path) -> Counter[int]:
    found: Counter[int] = Counter()
    for file in log.parent.glob(f"{log.name}.[0-9]*"):
        found.update(int(line) for line in file.read_text(encoding="utf-8").split())
    return found


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_batch_over_a_table_is_computed_once_and_a_failed_one_counts_as_replayed(
    unique: str, settings: Settings, tmp_path: Path, attempts: int
) -> None:
    """With one attempt at a task the whole batch fails and runs again; with two Spark runs the task again."""
    settings = settings.model_copy(update={"spark_master": f"local[4,{attempts}]"})
    app = gs.App(unique)
    kept = app.table("kept")
    steady = app.topic(f"{unique}-steady", value=Event, key="key", partitions=2)
    shaky = app.topic(f"{unique}-shaky", value=Event, key="key", partitions=2)

    @app.pipeline(source=kept, to=steady, freshness="1 day")
    def publish(kept: DataFrame) -> DataFrame:
        return kept.where(computing(tmp_path / "steady") >= 0)

    @app.pipeline(source=kept, to=shaky, freshness="1 day")
    def publish_shakily(kept: DataFrame) -> DataFrame:
        return kept.where(computing(tmp_path / "shaky", failing_at=ROWS - 10, times=1) >= 0)

    uri = tables.table_uri(settings.warehouse_uri, "kept")
    rows = [(f"k{n % 7}", n) for n in range(ROWS)]
    for number in range(2):
        part = ArrowFrame({"key": "string", "n": "long"}, rows[number::2])
        tables.append(gs.Table(name="kept", defined_at=HERE), uri, part, writer="w", batch_id=number)

    with Runner(app, settings) as runner:
        connection = runner.context.connection

        def done() -> bool:
            for supervisor in runner.supervisors.values():
                if not any(s.verified for s in supervisor.ledger.runs):
                    return False
            return True

        eventually(done, every=0.3)
        ledgers = {name: supervisor.ledger for name, supervisor in runner.supervisors.items()}
        eventually(lambda: all(s.replayed is not None for s in ledgers["publish_shakily"].runs[:-1]))
    assert computed(tmp_path / "steady") == Counter(range(ROWS))
    published = {
        name: values(connection, topic) for name, topic in (("publish", steady), ("publish_shakily", shaky))
    }
    assert sorted(event.n for event in published["publish"]) == list(range(ROWS))
    assert ledgers["publish"].replayed == 0
    assert sum(run.written for run in ledgers["publish"].runs) == ROWS

    assert {event.n for event in published["publish_shakily"]} == set(range(ROWS))
    again = len(published["publish_shakily"]) - ROWS
    assert again > 0, "the failed attempt had written nothing"
    assert ledgers["publish_shakily"].replayed == again
    assert sum(run.written for run in ledgers["publish_shakily"].runs) == ROWS
    if attempts == 2:  # only what the failed task had done was done again
        assert computed(tmp_path / "shaky").total() < 2 * ROWS


def test_what_a_batch_wrote_before_the_runner_stopped_in_its_middle_is_counted(
    unique: str, settings: Settings, tmp_path: Path
) -> None:
    settings = settings.model_copy(update={"spark_master": "local[4]"})
    app = gs.App(unique)
    kept = app.table("kept")
    out = app.topic(f"{unique}-out", value=Event, key="key", partitions=2)
    hurry = tmp_path / "hurry"

    @app.pipeline(source=kept, to=out, freshness="1 day")
    def publish(kept: DataFrame) -> DataFrame:
        mark = str(hurry)

        def slowly(n: int) -> int:
            if n >= ROWS // 2 and not os.path.exists(mark):  # noqa: PTH110
                time.sleep(0.05)
            return n

        return kept.withColumn("n", F.udf(slowly, "long", useArrow=False)("n"))

    uri = tables.table_uri(settings.warehouse_uri, "kept")
    rows = [(f"k{n % 7}", n) for n in range(ROWS)]
    for number, half in enumerate(
        (rows[: ROWS // 2], rows[ROWS // 2 :])
    ):  # a task each, of which one is slow
        part = ArrowFrame({"key": "string", "n": "long"}, half)
        tables.append(gs.Table(name="kept", defined_at=HERE), uri, part, writer="w", batch_id=number)
    with Runner(app, settings) as runner:
        connection = runner.context.connection
        eventually(lambda: len(values(connection, out)) > 0, every=0.2)
        assert len(values(connection, out)) < ROWS
    wrote = len(values(connection, out))
    assert 0 < wrote < ROWS
    hurry.touch()
    with Runner(app, settings) as runner:
        ledger = runner.supervisors["publish"].ledger
        eventually(lambda: any(s.verified for s in ledger.runs), every=0.3)
        eventually(lambda: all(s.replayed is not None for s in ledger.runs[:-1]))
    assert len(values(connection, out)) == wrote + ROWS
    assert ledger.replayed == wrote
