"""Live pipelines get another number of shuffle partitions, and topics more partitions, while records flow."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift.errors import CheckError, DefinitionError, ScaleError, TooFewSlotsError
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import Ledger, count_between
from gearshift.runner.checking import check_app
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.spark.jobs import Tasks
from tests.flow import Count, Event, Flow, highest_counts, values
from tests.support import eventually, librdkafka

BATCH, NEAR, REAL = Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME
PIPELINES = ("near", "real", "daily")


@dataclass(frozen=True)
class Counting:
    app: gs.App
    events: gs.Topic
    copies: gs.Topic
    counts: dict[str, gs.Topic]


def counting(name: str, *, parallelism: int | None = None) -> Counting:
    """A count per key in each gear, and a pipeline without state."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=3)
    copies = app.topic(f"{name}-copies", value=Event, key="key", partitions=3)
    counts = {each: app.topic(f"{name}-{each}", value=Count, key="key", partitions=3) for each in PIPELINES}

    def counted(events: DataFrame) -> DataFrame:
        return events.groupBy("key").agg(F.count("*").alias("count"))

    @app.pipeline(events, to=counts["near"], freshness="2 seconds", gear="near-real-time")
    def near(events: DataFrame) -> DataFrame:
        return counted(events)

    @app.pipeline(events, to=counts["real"], freshness="1 second", parallelism=parallelism)
    def real(events: DataFrame) -> DataFrame:
        return counted(events)

    @app.pipeline(events, to=counts["daily"], freshness="1 day", parallelism=5)
    def daily(events: DataFrame) -> DataFrame:
        return counted(events)

    @app.pipeline(events, to=copies, freshness="1 day")
    def copy(events: DataFrame) -> DataFrame:
        return events

    return Counting(app, events, copies, counts)


def test_state_moves_from_two_to_eight_to_three_partitions_while_records_flow_and_every_count_is_exact(
    unique: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    declared = counting(unique)
    with Runner(declared.app, settings) as runner:
        connection = runner.context.connection
        with Flow(connection, declared.events, rate=500) as flow:
            await_batches(runner, "near", "real", "daily", "copy")
            assert shown(runner) == {"near": 2, "real": 2, "daily": 5, "copy": None}
            for partitions in (8, 3):
                for name in PIPELINES:
                    done = runner.scale(name, partitions)
                    assert (done.after, done.replayed) == (partitions, 0)
                    target = flow.sent
                    eventually(lambda target=target: flow.sent > target + 500)
            assert shown(runner) == {"near": 3, "real": 3, "daily": 3, "copy": None}
            steps: list[str] = []
            runner.scale("near", 3, on_step=lambda step, _: steps.append(step))
            assert steps == ["check", "done"]
            refuse(runner)
            cancel_a_move(runner, "near")
            cancel_a_move(runner, "daily")
            scale_in_the_middle_of_a_batch(runner, "near", 4)
        ledgers = drained(runner, declared, flow)
    for name in PIPELINES:
        ledger, first = ledgers[name], 5 if name == "daily" else 2
        done = [(each.before, each.after) for each in ledger.scalings if each.error is None]
        assert done == [(first, 8), (8, 3), *([(3, 4)] if name == "near" else [])]
        for each in ledger.scalings:
            assert each.ended is not None and each.why == "requested"
            assert (each.pause is not None) == (each.error is None)
        assert stored_partitions(settings, unique, name) == (4 if name == "near" else 3)
    whys = [run.why for run in ledgers["real"].runs]
    assert whys == [
        "run",
        "scaled from 2 to 8 shuffle partitions",
        "scaled from 8 to 3 shuffle partitions",
        "shift from real-time",
    ]
    assert all(run.pause is not None for run in ledgers["real"].runs[1:])

    redeclared = counting(unique, parallelism=8)
    warning = "declared parallelism=8, the checkpoint has 3: run gearshift scale real 8"
    reports = {each["pipeline"]: each for each in check_app(redeclared.app, settings)}
    assert (reports["real"]["parallelism"], reports["real"]["warnings"]) == (3, [warning])
    assert (reports["near"]["parallelism"], reports["near"]["warnings"]) == (4, [])
    assert reports["copy"]["parallelism"] is None
    with (
        caplog.at_level(logging.WARNING, logger="gearshift.runner.pipelines"),
        Runner(redeclared.app, settings) as runner,
    ):
        assert f"real: {warning}" in caplog.messages
        assert shown(runner) == {"near": 4, "real": 3, "daily": 3, "copy": None}
        (status,) = (each for each in runner.status()["pipelines"] if each["name"] == "real")
        assert status["warning"] == warning
        runner.scale("real", 8)
        (status,) = (each for each in runner.status()["pipelines"] if each["name"] == "real")
        assert (status["parallelism"], status["warning"]) == (8, None)
        with Flow(connection, declared.events, rate=500) as more:
            eventually(lambda: more.sent > 500)
        drained(runner, declared, flow, more)


def refuse(runner: Runner) -> None:
    """What cannot be scaled is refused before anything stops, with what to do."""
    queries = {name: supervisor.query for name, supervisor in runner.supervisors.items()}
    with pytest.raises(
        CheckError, match="copy keeps no state, so there is nothing to scale"
    ) as without_state:
        runner.scale("copy", 8)
    assert "add partitions to" in (without_state.value.hint or "")
    with pytest.raises(TooFewSlotsError, match="task slots"):
        runner.scale("real", 100)
    for nonsense in (0, -1, 100_000):
        with pytest.raises(DefinitionError, match=f"cannot have {nonsense} shuffle partitions"):
            runner.scale("real", nonsense)
    assert queries == {name: supervisor.query for name, supervisor in runner.supervisors.items()}


def cancel_a_move(runner: Runner, name: str) -> None:
    """Spark fails in the middle of a move: the pipeline has the number it had, and goes on."""
    supervisor = runner.supervisors[name]
    back = threading.Event()

    def cancel() -> None:
        eventually(lambda: supervisor.ledger.checkpoint.unfinished_repartition() is not None, every=0.005)
        tasks = Tasks(runner.spark, name)
        while not back.wait(0.02):
            tasks.cancel()

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    try:
        with pytest.raises(ScaleError, match="4 shuffle partitions did not work, 3 again: "):
            runner.scale(name, 4, on_step=lambda step, _: back.set() if step == "rollback" else None)
    finally:
        back.set()
        cancelling.join()
    assert supervisor.ledger.checkpoint.unfinished_repartition() is None
    assert (supervisor.parallelism.number, supervisor.ledger.checkpoint.partitions()) == (3, 3)
    failed = supervisor.ledger.scalings[-1]
    assert (failed.before, failed.after) == (3, 4)
    assert failed.error is not None and failed.error.startswith("3 again: ")


def scale_in_the_middle_of_a_batch(runner: Runner, name: str, partitions: int) -> None:
    """A batch that is planned and not committed runs to its end first: the move would skip it."""
    supervisor = runner.supervisors[name]
    planned = supervisor.ledger.checkpoint.has_planned
    with supervisor.lock:  # or its thread would start the query again
        while True:
            eventually(lambda: supervisor.query is not None and supervisor.query.status["isTriggerActive"])
            supervisor.halt()
            if planned():
                break
            supervisor.start(supervisor.gear, "between two batches")
        runner.scale(name, partitions)
    assert "finishing the planned batch" in [run.why for run in supervisor.ledger.runs]
    assert supervisor.parallelism.number == partitions


def test_partitions_that_a_topic_gets_are_read_in_every_gear(unique: str, settings: Settings) -> None:
    declared = counting(unique)
    with Runner(declared.app, settings) as runner:
        connection = runner.context.connection
        with Flow(connection, declared.events, rate=300) as before:
            await_batches(runner, "near", "real", "daily", "copy")
            admin = AdminClient(librdkafka(connection))
            (widened,) = admin.create_partitions([NewPartitions(declared.events.name, 6)]).values()
            widened.result()
        with Flow(connection, declared.events, rate=300) as after:
            for name in ("near", "real"):
                ledger = runner.supervisors[name].ledger
                eventually(lambda ledger=ledger: read_of(ledger, declared.events.name, range(3, 6)))
        ledgers = drained(runner, declared, before, after)
        runner.shift("copy", BATCH)
        ledgers["copy"] = runner.supervisors["copy"].ledger
        assert Counter(event.n for event in values(connection, declared.copies)) == numbers(before, after)
    for ledger in ledgers.values():
        assert read_of(ledger, declared.events.name, range(6))
        assert (ledger.gap, ledger.replayed) == (0, 0)


def await_batches(runner: Runner, *names: str) -> None:
    """Wait until each of these pipelines has read records in a batch that is committed."""
    for name in names:
        supervisor = runner.supervisors[name]
        if supervisor.gear is BATCH:
            eventually(lambda: any(values(runner.context.connection, events(runner))))
            eventually(lambda each=supervisor: each.condition.state == "waiting" and each.ledger.runs)
            runner.shift(name, BATCH)
        eventually(lambda each=supervisor: any(run.records for run in each.ledger.runs))


def events(runner: Runner) -> gs.Topic:
    return runner.graph.topics[f"{runner.graph.app}-events"]


def shown(runner: Runner) -> dict[str, int | None]:
    """The parallelism of each pipeline, as `gearshift status` shows it."""
    return {each["name"]: each["parallelism"] for each in runner.status()["pipelines"]}


def drained(runner: Runner, declared: Counting, *flows: Flow) -> dict[str, Ledger]:
    """The ledgers, once every pipeline has read everything, and every count is that of plain Python."""
    expected = Counter(f"k{number % 50}" for flow in flows for number in range(flow.sent))
    for name in PIPELINES:
        runner.shift(name, BATCH)
        counted = values(runner.context.connection, declared.counts[name])
        assert highest_counts(counted) == expected, name
        ledger = runner.supervisors[name].ledger
        assert ledger.gap == 0
        assert sum(run.records for run in ledger.runs) == expected.total()
        assert count_between({}, ledger.ends) == expected.total()
    return {name: runner.supervisors[name].ledger for name in PIPELINES}


def numbers(*flows: Flow) -> Counter[int]:
    return Counter(number for flow in flows for number in range(flow.sent))


def read_of(ledger: Ledger, topic: str, partitions: range) -> bool:
    """Whether records of each of these partitions were read."""
    return all(ledger.ends.get(topic, {}).get(partition, 0) > 0 for partition in partitions)


def stored_partitions(settings: Settings, app: str, pipeline: str) -> int:
    """In how many partitions the last commit has state, in the files that Spark wrote."""
    commits = Path(f"{settings.home}/checkpoints/{app}/{pipeline}/spark/commits")
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    ids = json.loads(last.read_text().split("\n")[1])["stateUniqueIds"]
    return len(ids["0"])
