"""A row of a transform's result that its target cannot take is set aside with its reason, and stops nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import stack as local
from gearshift import tables
from gearshift.freshness import Gear
from gearshift.pipelines.sinks.table_rows import BatchOfRows, write_valid
from gearshift.runner.runner import Runner
from gearshift.settings import load
from gearshift.topics import Producer
from gearshift.topics.dead_letters.letters import DeadLetterTopic, Letter
from gearshift.topics.dead_letters.replay import discard, replay
from tests.flow import Event, values
from tests.support import cluster, eventually, librdkafka

EACH = 5  # rows of each kind


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Item:
    name: str
    weight: float | None


@dataclass
class Result:
    key: str
    n: int
    required: str
    text: str | None
    money: Annotated[Decimal, gs.DecimalOf(6, 2)] | None
    at: datetime | None
    day: date | None
    colour: Colour | None
    item: Item | None
    items: list[Item]
    counts: dict[str, int]


ITEM = "named_struct('name', 'a', 'weight', cast(null as double))"
BAD_ITEM = "named_struct('name', if(rand() < 2, cast(null as string), ''), 'weight', 1.5d)"
COLUMNS = {
    "required": "'there'",
    "text": "'plain'",
    "money": "1.5bd",
    "at": "timestamp'2026-01-01 00:00:00Z'",
    "day": "date'2026-01-01'",
    "colour": "'red'",
    "item": ITEM,
    "items": f"array({ITEM})",
    "counts": "map('one', 1)",
}
# By the reason: the column, and what is in it.
KINDS = {
    "required field required is null": ("required", "null"),
    "text is not valid UTF-8": ("text", "cast(X'61ff' as string)"),
    "money does not fit decimal(6,2)": ("money", "9999.995bd"),
    "at is not between the years 1 and 9999": ("at", "timestamp_micros(9223372036854775807)"),
    "day is not between the years 1 and 9999": ("day", "date_from_unix_date(3000000)"),
    "colour is not a member of Colour": ("colour", "'green'"),
    "required field item.name is null": ("item", BAD_ITEM),
    "required field items[] is null": ("items", f"array({ITEM}, null)"),
    "required field items[].name is null": ("items", f"array({ITEM}, {BAD_ITEM})"),
    "required field counts[] is null": ("counts", "map('one', cast(null as int))"),
    "a key of counts is not valid UTF-8": ("counts", "map(cast(X'ff' as string), 1)"),
    "bytes exceed the topic's limit": ("text", "repeat('x', 1000000)"),
}


# By the column of a table: which rows in ten are wrong, what is right, and what is wrong.
TABLE_KINDS = {
    "text": (1, "'plain'", "cast(X'61ff' as string)"),
    "at": (2, "timestamp'2026-01-01 00:00:00Z'", "timestamp_micros(9223372036854775807)"),
    "day": (3, "date'2026-01-01'", "date_from_unix_date(3000000)"),
    "items": (4, "array('a')", "array('a', cast(X'ff' as string))"),
}


def spoiled(events: DataFrame) -> DataFrame:
    """One row in so many is wrong, each in its own way; the last kind is a good one."""
    kind = f"(n % {len(KINDS) + 1})"
    columns = ["key", "n"]
    for name, good in COLUMNS.items():
        cases = [
            f"WHEN {kind} = {number} THEN {bad}"
            for number, (of, bad) in enumerate(KINDS.values())
            if of == name
        ]
        columns.append(f"CASE {' '.join(cases)} ELSE {good} END AS {name}")
    return events.selectExpr(*columns)


@pytest.fixture(scope="module")
def runner(stack: local.Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    app = gs.App("invalid")
    events = app.topic("invalid-events", value=Event, key="key", partitions=2)
    for form in ("avro", "json"):
        target = app.topic(f"invalid-{form}", value=Result, key="key", format=form)

        def spoil(events: DataFrame) -> DataFrame:
            return spoiled(events)

        spoil.__name__ = f"to_{form}"
        app.pipeline(source=events, to=target, gear="near-real-time", freshness="10 seconds")(spoil)
    kept, keyed, summed = app.table("kept"), app.table("keyed", key="key"), app.table("summed")

    @app.pipeline(source=events, to=kept, gear="near-real-time", freshness="10 seconds")
    def to_kept(events: DataFrame) -> DataFrame:
        return events.selectExpr(
            "key",
            "n",
            *(f"if(n % 10 = {at}, {bad}, {good}) AS {name}" for name, (at, good, bad) in TABLE_KINDS.items()),
        )

    @app.pipeline(source=events, to=keyed, gear="near-real-time", freshness="10 seconds")
    def to_keyed(events: DataFrame) -> DataFrame:
        return events.groupBy(F.when(F.col("key") != "k3", F.col("key")).alias("key")).agg(
            F.count("*").alias("n")
        )

    @app.pipeline(source=kept, to=summed, freshness="1 day")
    def to_summed(kept: DataFrame) -> DataFrame:
        return kept.selectExpr("n", "if(n = 7, cast(X'ff' as string), key) AS key")

    stopped = app.topic("invalid-stopped", value=Result)

    @app.pipeline(source=events, to=stopped, gear="near-real-time", freshness="10 seconds", on_invalid="stop")
    def stops(events: DataFrame) -> DataFrame:
        return spoiled(events)

    limit = {"max.message.bytes": "1000000"}
    admin = AdminClient(librdkafka(stack.connection))
    for made in admin.create_topics(
        [NewTopic(f"invalid-{name}", 1, config=limit) for name in ("avro", "json", "stopped")]
    ).values():
        made.result()
    folder: Path = tmp_path_factory.mktemp("invalid")
    settings = load(
        {"home": folder, **cluster(stack.connection), "checkpoint_interval": "5 seconds"},
        folder=folder,
        environ={},
    )
    with Runner(app, settings) as running:
        yield running


@pytest.mark.parametrize("gear", [Gear.NEAR_REAL_TIME, Gear.REAL_TIME, Gear.BATCH])
def test_rows_that_a_topic_cannot_take_are_set_aside_with_their_reasons_in_every_gear(
    runner: Runner, gear: Gear
) -> None:
    connection, events = runner.context.connection, runner.graph.topics["invalid-events"]
    names = ("to_avro", "to_json")
    for name in names:
        runner.shift(name, gear)
    before = {name: (_letters(runner, name), _good(runner, name), _invalid(runner, name)) for name in names}
    sent = EACH * (len(KINDS) + 1)
    with Producer(connection) as producer:
        for number in range(sent):
            producer.send(events, Event(key=f"k{number % 7}", n=number))
    for name in names:
        if gear is Gear.BATCH:
            runner.shift(name, gear)
        letters, good, invalid = before[name]
        eventually(lambda name=name, good=good: _good(runner, name) >= good + EACH, every=0.3)
        eventually(
            lambda name=name, letters=letters: len(_letters(runner, name)) >= len(letters) + sent - EACH,
            every=0.3,
            within=60,
        )
        found = _letters(runner, name)[len(letters) :]
        reasons = Counter(_kind(letter.reason) for letter in found)
        assert reasons == dict.fromkeys(KINDS, EACH)
        assert {(letter.pipeline, letter.origin, letter.stage) for letter in found} == {
            (name, None, "KAFKA_PRODUCE")
        }
        for letter in found:
            assert letter.value is not None and letter.value.startswith(b'{"key":"k')
            assert letter.key is not None and letter.key.startswith(b"k")
        assert _good(runner, name) == good + EACH
        eventually(lambda name=name, invalid=invalid: _invalid(runner, name) == invalid + sent - EACH)
        ledger = runner.supervisors[name].ledger
        assert sum(run.written for run in ledger.runs) == _good(runner, name)
        assert (ledger.gap, ledger.replayed, runner.supervisors[name].condition.restarts) == (0, 0, 0)


def test_rows_that_a_table_cannot_hold_are_set_aside_while_the_others_are_kept(runner: Runner) -> None:
    connection, context = runner.context.connection, runner.context
    sent = [event.n for event in values(connection, runner.graph.topics["invalid-events"])]
    good = sum(number % 10 not in (1, 2, 3, 4) for number in sent)
    for gear in (Gear.NEAR_REAL_TIME, Gear.BATCH):
        runner.shift("to_kept", gear)
        runner.shift("to_keyed", gear)
    kept = runner.graph.pipelines["to_kept"].target
    assert tables.load(runner.spark, context.table_uri(kept)).count() == good
    letters = list(DeadLetterTopic(connection, "kept.table").open_letters())
    assert Counter(letter.reason for letter in letters) == Counter(
        reason
        for number in sent
        for at, reason in enumerate(
            (
                "text is not valid UTF-8",
                "at is not between the years 1 and 9999",
                "day is not between the years 1 and 9999",
                "items contains text that is not valid UTF-8 or a year beyond 9999",
            ),
            start=1,
        )
        if number % 10 == at
    )
    assert {(letter.pipeline, letter.stage, letter.result_for) for letter in letters} == {
        ("to_kept", "TASK_PUT", "kept")
    }
    ledger = runner.supervisors["to_kept"].ledger
    eventually(lambda: _invalid(runner, "to_kept") == len(letters))
    assert (sum(run.written for run in ledger.runs), ledger.gap) == (good, 0)
    assert {
        row["key"] for row in tables.rows(context.table_uri(runner.graph.pipelines["to_keyed"].target))
    } == {f"k{number}" for number in range(7) if number != 3}
    reasons = {letter.reason for letter in DeadLetterTopic(connection, "keyed.table").open_letters()}
    assert reasons == {"key column key is null"}


def test_a_batch_over_tables_sets_its_invalid_rows_aside(runner: Runner) -> None:
    runner.shift("to_summed", Gear.BATCH)
    summed = runner.graph.pipelines["to_summed"].target
    found = tables.load(runner.spark, runner.context.table_uri(summed))
    assert found.count() > 0 and found.where("n = 7").count() == 0
    letters = list(DeadLetterTopic(runner.context.connection, "summed.table").open_letters())
    assert {letter.reason for letter in letters} == {"key is not valid UTF-8"}
    assert _invalid(runner, "to_summed") == len(letters)


def test_a_batch_that_is_run_again_writes_its_letters_once(runner: Runner, tmp_path: Path) -> None:
    table = runner.graph.pipelines["to_kept"].target
    assert isinstance(table, gs.Table)
    frame = runner.spark.range(10).selectExpr("id", "if(id < 4, cast(X'ff' as string), 'a') AS text")
    uri, batch = (tmp_path / "again").as_uri(), BatchOfRows(name="again/0", since_ms=int(time.time() * 1000))
    before = _count_open(runner, "kept.table")
    for _ in range(2):
        done = write_valid(
            runner.context,
            runner.graph.pipelines["to_kept"],
            table,
            frame,
            lambda rows: tables.append(table, uri, rows, writer="again", batch_id=0),
            batch,
        )
        assert done[1] == 4
    assert tables.load(runner.spark, uri).count() == 6
    assert _count_open(runner, "kept.table") == before + 4


def test_a_row_of_a_result_is_not_replayed(runner: Runner) -> None:
    for topic in ("invalid-avro", "kept.table"):
        before = _count_open(runner, topic)
        done = replay(runner.context.connection, topic)
        assert (done.letters, done.to_topic, done.results) == (0, 0, before)
        assert _count_open(runner, topic) == before > 0
    assert discard(runner.context.connection, "kept.table").letters > 0
    assert _count_open(runner, "kept.table") == 0


def _count_open(runner: Runner, topic: str) -> int:
    return len(list(DeadLetterTopic(runner.context.connection, topic).open_letters()))


def test_on_invalid_stop_stops_with_the_reason(runner: Runner) -> None:
    supervisor = runner.supervisors["stops"]
    error = eventually(lambda: supervisor.condition.error)
    assert supervisor.condition.state == "failed"
    assert "a row of the result does not fit invalid-stopped: " in error
    assert any(_kind(reason) in error for reason in KINDS)
    assert list(DeadLetterTopic(runner.context.connection, "invalid-stopped").open_letters()) == []


def _kind(reason: str) -> str:
    return next((kind for kind in KINDS if kind in reason), reason)


def _letters(runner: Runner, name: str) -> list[Letter]:
    topic = runner.graph.pipelines[name].target.name
    return list(DeadLetterTopic(runner.context.connection, topic).open_letters())


def _good(runner: Runner, name: str) -> int:
    target = runner.graph.pipelines[name].target
    assert isinstance(target, gs.Topic)
    return len(values(runner.context.connection, target))


def _invalid(runner: Runner, name: str) -> int:
    return sum(run.invalid for run in runner.supervisors[name].ledger.runs)
