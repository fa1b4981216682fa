"""A live pipeline goes through all gears while records flow, and nothing is lost."""

from __future__ import annotations

import threading
from statistics import median

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import count_between
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from tests.flow import Count, Event, Flow, highest_counts, seen_twice, values
from tests.support import eventually

BATCH, NEAR, REAL = Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME


def app_of_two(unique: str) -> tuple[gs.App, gs.Topic, gs.Topic, gs.Topic]:
    """A stateless pipeline and a stateful one over the same topic."""
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=3)
    copies = app.topic(f"{unique}-copies", value=Event, key="key", partitions=3)
    counts = app.topic(f"{unique}-counts", value=Count, key="key", partitions=3)

    @app.pipeline(source=events, to=copies, gear="batch")
    def copy(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=events, to=counts, gear="batch")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").agg(F.count("*").alias("count"))

    return app, events, copies, counts


def test_a_shift_through_all_gears_loses_nothing_while_records_flow(unique: str, settings: Settings) -> None:
    app, events, copies, counts = app_of_two(unique)
    with Runner(app, settings) as runner:
        connection = runner.context.connection
        threads = threading.active_count()
        shifts = []
        with Flow(connection, events, rate=500) as flow:
            eventually(lambda: flow.sent > 1000)
            for gear in (NEAR, REAL, NEAR, BATCH, REAL):
                for name in ("copy", "count"):
                    shifts.append(runner.shift(name, gear))
                target = flow.sent
                eventually(lambda target=target: flow.sent > target + 1500)
        for name in ("copy", "count"):
            shifts.append(runner.shift(name, BATCH))
        eventually(
            lambda: threading.active_count() <= threads + 3
        )  # a thread for each query would be 12 more
        ledgers = {name: supervisor.ledger for name, supervisor in runner.supervisors.items()}

        copied = values(connection, copies)
        assert {event.n for event in copied} == set(range(flow.sent))
        assert ledgers["copy"].replayed == seen_twice(copied)
        counted = highest_counts(values(connection, counts))
        assert sum(counted.values()) == flow.sent
        for ledger in ledgers.values():
            assert ledger.gap == 0
            assert [run.gear for run in ledger.runs] == [
                BATCH,
                NEAR,
                REAL,
                NEAR,
                BATCH,
                REAL,
                BATCH,
            ]
            assert sum(run.records for run in ledger.runs) == flow.sent
            assert count_between({}, ledger.ends) == flow.sent
            for run in ledger.runs[1:]:
                assert run.pause is not None
                assert (run.paused_for is None) == (run.pause < 5)
        assert median(done.pause for done in shifts) < 5, [done.pause for done in shifts]


def test_a_shift_that_does_not_wait_counts_what_it_replays(unique: str, settings: Settings) -> None:
    app, events, copies, _ = app_of_two(unique)
    with Runner(app, settings) as runner:
        connection = runner.context.connection
        with Flow(connection, events, rate=500) as flow:
            runner.shift("copy", REAL)
            written = sum(runner.context.admin.end_offsets([copies.name]).values())
            eventually(
                lambda: sum(runner.context.admin.end_offsets([copies.name]).values()) > written + 500,
            )
            done = runner.shift("copy", NEAR, now=True)
        runner.shift("copy", BATCH)
        copied = values(connection, copies)
        assert {event.n for event in copied} == set(range(flow.sent))
        assert seen_twice(copied) == runner.supervisors["copy"].ledger.replayed
        assert done.replayed > 0
