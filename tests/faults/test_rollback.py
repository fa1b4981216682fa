"""A shift whose new gear fails goes back to the old one, and nothing is lost on the way."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift.errors import ShiftError
from gearshift.freshness import Gear
from gearshift.pipelines.steps import Step
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from tests.flow import Event, Flow, seen_twice, values
from tests.support import eventually

BATCH, NEAR, REAL = Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME


def test_a_shift_whose_new_gear_fails_goes_back_and_loses_nothing(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=3)
    copies = app.topic(f"{unique}-copies", value=Event, key="key", partitions=3)
    world = {"is": "well"}

    @app.pipeline(source=events, to=copies, freshness="2 seconds", gear="near-real-time")
    def copy(events: DataFrame) -> DataFrame:
        if world["is"] == "refusing":
            raise ConnectionError("the tariff service does not answer")
        if world["is"] == "poisoned":
            return events.withColumn(
                "n", F.col("n") + F.raise_error(F.lit("the tariff is void")).cast("long")
            )
        return events

    def turns(to: str) -> Step:
        """The world changes between the check and the start, and is mended when the shift goes back."""

        def on_step(step: str, _: str) -> None:
            steps.append(step)
            if step == "stop":
                world["is"] = to
            if step == "rollback":
                world["is"] = "well"

        return on_step

    with Runner(app, settings) as runner:
        supervisor = runner.supervisors["copy"]
        connection = runner.context.connection

        def wait_for_copies() -> None:
            count = written(runner, copies.name)
            eventually(lambda: written(runner, copies.name) > count + 500)

        with Flow(connection, events, rate=500) as flow:
            wait_for_copies()
            for to, words in (
                ("refusing", "the tariff service does not answer"),
                ("poisoned", "the tariff is void"),
            ):
                steps: list[str] = []
                with pytest.raises(ShiftError, match=words) as raised:
                    runner.shift("copy", REAL, on_step=turns(to))
                assert "near-real-time runs again" in raised.value.what
                assert raised.value.pipeline == "copy"
                assert steps[-3:] == ["rollback", "start", "verify"]
                assert supervisor.gear is NEAR
                wait_for_copies()
        runner.shift("copy", BATCH)
        copied = values(connection, copies)
        assert {event.n for event in copied} == set(range(flow.sent))
        ledger = supervisor.ledger
        assert (ledger.gap, ledger.replayed) == (0, seen_twice(copied))
        assert [run.gear for run in ledger.runs] == [NEAR, REAL, NEAR, REAL, NEAR, BATCH]
        assert [run.why.split(":")[0] for run in ledger.runs] == [
            "run",
            "shift from near-real-time",
            "rollback",
            "shift from near-real-time",
            "rollback",
            "shift from near-real-time",
        ]
        assert supervisor.condition.restarts == 0
        for failed in ledger.runs[1:5:2]:
            assert not failed.verified
            assert failed.error and "tariff" in failed.error


def test_a_shift_out_of_batch_that_fails_goes_back_to_waiting(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key")
    copies = app.topic(f"{unique}-copies", value=Event, key="key")
    world = {"is": "well"}

    @app.pipeline(source=events, to=copies, gear="batch")
    def copy(events: DataFrame) -> DataFrame:
        if world["is"] == "refusing":
            raise ConnectionError("the tariff service does not answer")
        return events

    def on_step(step: str, _: str) -> None:
        if step == "stop":
            world["is"] = "refusing"
        if step == "rollback":
            world["is"] = "well"

    with Runner(app, settings) as runner:
        supervisor = runner.supervisors["copy"]
        eventually(lambda: supervisor.condition.state == "waiting" and supervisor.ledger.runs)
        with Flow(runner.context.connection, events, rate=100) as flow:
            eventually(lambda: flow.sent > 10)
            with pytest.raises(ShiftError, match="batch waits for its next run again"):
                runner.shift("copy", REAL, on_step=on_step)
            assert (supervisor.gear, supervisor.condition.state, supervisor.condition.error) == (
                BATCH,
                "waiting",
                None,
            )
            # Nobody is there any more to hear of the steps: the shift goes on, and to its end.
            runner.shift("copy", NEAR, on_step=lambda step, _: print(1 / 0))
            assert supervisor.gear is NEAR
            eventually(lambda: written(runner, copies.name))
        runs = supervisor.ledger.runs
        assert [run.gear for run in runs] == [BATCH, REAL, NEAR]
        assert runs[1].records == 0


def written(runner: Runner, topic: str) -> int:
    """How many records are on a topic."""
    return sum(runner.context.admin.end_offsets([topic]).values())
