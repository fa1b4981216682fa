"""What a pipeline finds when it starts: records that retention took, a topic that was made again, other code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.errors import ContinuityError
from gearshift.pipelines.check import continuity
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.runner.checking import check_app
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.topics import Admin, Producer
from gearshift.topics.client import Client
from tests.arrow_frames import HERE
from tests.command import Command
from tests.faults.processes import write_settings
from tests.flow import Event, values
from tests.support import eventually


def test_records_that_are_gone_stop_a_pipeline_until_a_person_accepts_it(
    unique: str, settings: Settings, connection: Connection, tmp_path: Path
) -> None:
    write_settings(settings, tmp_path)
    gearshift = Command(connection, tmp_path)
    app = gs.App(unique)
    counted = app.topic(f"{unique}-counted", value=Event, key="key")
    copied = app.topic(f"{unique}-copied", value=Event, key="key")
    recreated = app.topic(f"{unique}-recreated", value=Event, key="key")
    copies = app.topic(f"{unique}-copies", value=Event, key="key")
    again = app.topic(f"{unique}-again", value=Event, key="key")

    @app.pipeline(source=counted, to=app.table("counts", key="key"), freshness="10 seconds")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").count()

    @app.pipeline(source=copied, to=copies, gear="real-time")
    def copy(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=recreated, to=again, freshness="10 seconds")
    def repeat(events: DataFrame) -> DataFrame:
        return events

    def send(producer: Producer, topic: Topic, first: int, last: int) -> None:
        for n in range(first, last):
            producer.send(topic, Event(key="k", n=n))
        producer.flush()

    def total() -> int:
        uri = tables.table_uri(settings.warehouse_uri, "counts")
        return sum(row["count"] for row in tables.rows(uri)) if tables.exists(uri) else 0

    def numbers(topic: Topic) -> list[int]:
        return sorted(event.n for event in values(connection, topic))

    with Runner(app, settings), Producer(connection) as producer:
        for topic in (counted, copied, recreated):
            send(producer, topic, 0, 100)
        eventually(lambda: total() == 100, every=0.3)
        eventually(
            lambda: len(values(connection, copies)) == len(values(connection, again)) == 100, every=0.3
        )
        # What real-time has written is committed at the end of its batch.
        eventually(lambda: all(ledger.ends for ledger in find_ledgers(settings.checkpoints_uri)), every=0.3)
    with Producer(connection) as producer:
        for topic in (counted, copied):
            send(producer, topic, 100, 150)
            take(connection, topic, before=130)
        make_again(connection, recreated)
        send(producer, recreated, 1000, 1300)

    with Runner(app, settings) as runner:
        stopped = eventually(lambda: errors(runner, 3), within=60)
    assert "30 unread records are no longer in Kafka" in stopped["count"]
    assert f"topic {counted.name} partition 0 offsets 100 to 129 (30 records)" in stopped["count"]
    assert f"topic {copied.name} partition 0 offsets 100 to 129 (30 records)" in stopped["copy"]
    assert f"topic {recreated.name} was deleted and created again" in stopped["repeat"]
    for name in ("count", "copy", "repeat"):
        named = re.search(r"gearshift (resume \S+ --skip-lost)", stopped[name])
        assert named is not None
        done = gearshift(*named[1].split())
        assert done.returncode == 0, done.stderr
    assert "has lost no records" in gearshift("resume", "count", "--skip-lost").stderr

    with Runner(app, settings) as runner, Producer(connection) as producer:
        eventually(lambda: total() == 120, within=90, every=0.3)  # the state of the first 100 is kept
        eventually(lambda: numbers(copies) == [*range(100), *range(130, 150)], within=90, every=0.3)
        eventually(lambda: numbers(again) == [*range(100), *range(1000, 1300)], within=90, every=0.3)
        # The same while it runs.
        make_again(connection, recreated)
        send(producer, recreated, 2000, 2600)
        stopped = eventually(lambda: errors(runner, 1), within=60)
        assert f"topic {recreated.name} was deleted and created again" in stopped["repeat"]
        assert "a runner is already running" in gearshift.refusal("resume", "repeat", "--skip-lost")
    ledgers = {ledger.pipeline: ledger for ledger in find_ledgers(settings.checkpoints_uri)}
    assert {name: (ledger.gap, ledger.lost) for name, ledger in ledgers.items()} == {
        "count": (0, 30),
        "copy": (0, 30),
        "repeat": (0, 0),
    }
    shown = gearshift("ledger", "count").stdout
    assert "30 lost and accepted" in shown
    assert f"accepted: topic {counted.name} partition 0 offsets 100 to 129" in " ".join(shown.split())


def test_nothing_takes_a_record_of_a_topic_that_was_created_again_under_its_query(
    unique: str, settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key")

    @app.pipeline(source=events, to=app.table("kept"), freshness="10 seconds")
    def keep(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=events, to=app.table("counts", key="key"), freshness="10 seconds")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").count()

    def found() -> tuple[int, int]:
        kept, counts = (tables.table_uri(settings.warehouse_uri, name) for name in ("kept", "counts"))
        if not tables.exists(kept) or not tables.exists(counts):
            return 0, 0
        return len(tables.rows(kept)), sum(row["count"] for row in tables.rows(counts))

    copies = app.topic(f"{unique}-copies", value=Event, key="key")

    @app.pipeline(source=events, to=copies, freshness="10 seconds")
    def copy(events: DataFrame) -> DataFrame:
        return events

    # Its new log is longer than what was read of the old one: the old offsets seem to go on.
    monkeypatch.setattr(continuity, "_CHECK_EVERY", 3600.0)
    with Runner(app, settings) as runner, Producer(connection) as producer:
        for n in range(100):
            producer.send(events, Event(key="k", n=n))
        producer.flush()
        eventually(lambda: found() == (100, 100), every=0.3)
        eventually(lambda: len(values(connection, copies)) == 100, every=0.3)
        make_again(connection, events)
        for n in range(1000, 1150):
            producer.send(events, Event(key="k", n=n))
        producer.flush()
        stopped = eventually(lambda: errors(runner, 3), within=90)
    assert all("was deleted and created again" in error for error in stopped.values())
    assert found() == (100, 100)
    # Nor does a topic: its consumers compare the topic's id with that which the checkpoint has read.
    assert len(values(connection, copies)) == 100
    assert [ledger.replayed for ledger in find_ledgers(settings.checkpoints_uri)] == [0, 0, 0]


def test_code_that_does_not_fit_the_checkpoint_is_refused_with_the_command_that_goes_on(
    unique: str, settings: Settings, connection: Connection, tmp_path: Path
) -> None:
    write_settings(settings, tmp_path)
    gearshift = Command(connection, tmp_path)
    target = Topic(name=f"{unique}-copies", value=Event, key="key", defined_at=HERE)

    def version(by: str, name: str, *aggregates: str) -> gs.App:
        app = gs.App(unique)
        events = app.topic(f"{unique}-events", value=Event, key="key")

        @app.pipeline(source=events, to=app.table("counts", key=by), freshness="10 seconds")
        def count(events: DataFrame) -> DataFrame:
            return events.groupBy(by).agg(F.count(F.lit(1)).alias("count"), *map(F.expr, aggregates))

        copies = app.topic(target.name, value=Event, key="key")

        def copy(events: DataFrame) -> DataFrame:
            return events

        copy.__name__ = name
        app.pipeline(source=events, to=copies, freshness="10 seconds")(copy)
        return app

    def rows() -> list[dict[str, Any]]:
        uri = tables.table_uri(settings.warehouse_uri, "counts")
        return tables.rows(uri) if tables.exists(uri) else []

    app = version("key", "copy")
    with Runner(app, settings), Producer(connection) as producer:
        for n in range(9):
            producer.send(app.graph.topics[f"{unique}-events"], Event(key=f"k{n % 3}", n=n))
        producer.flush()
        eventually(lambda: sum(row["count"] for row in rows()) == 9, every=0.3)
        eventually(lambda: len(values(connection, target)) == 9, every=0.3)

    # Another name: it would read everything again.
    renamed = version("key", "copied")
    counting, copying = check_app(renamed, settings)
    assert counting["error"] is None
    assert "pipeline copied looks like copy renamed" in copying["error"]["what"]
    with (
        pytest.raises(ContinuityError, match="looks like copy renamed") as refused,
        Runner(renamed, settings),
    ):
        pass
    named = re.search(r"gearshift (rename \S+ \w+)", str(refused.value))
    assert named is not None
    assert gearshift(*named[1].split()).returncode == 0

    # Other keys, another aggregate: the state means something else.
    for changed in (version("n", "copied"), version("key", "copied", "sum(n) AS total")):
        counting, copying = check_app(changed, settings)
        assert "the code no longer matches the pipeline's checkpoint" in counting["error"]["what"]
        assert "groupBy(key string): count(1) bigint" in counting["error"]["what"]
        assert copying["error"] is None
    with pytest.raises(ContinuityError, match="no longer matches") as refused, Runner(changed, settings):
        pass
    accepting = re.search(r"gearshift (resume \S+ --accept-change)", str(refused.value))
    assert accepting is not None
    assert gearshift(*accepting[1].split()).returncode == 0
    with Runner(changed, settings) as runner, Producer(connection) as producer:
        producer.send(app.graph.topics[f"{unique}-events"], Event(key="k0", n=9))
        producer.flush()
        # Spark cannot, and it is not tried for ever.
        stopped = eventually(lambda: errors(runner, 1), within=60)
        # What was `copy` goes on where it ended.
        eventually(lambda: len(values(connection, target)) == 10, within=90, every=0.3)
    named = re.search(r"gearshift (reset \S+)", stopped["count"])
    assert named is not None, stopped
    dry = gearshift(*named[1].split())
    assert "table counts with key key gets the same rows again, which replace the existing ones" in dry.stderr
    assert "dry run" in dry.stderr
    assert gearshift(*named[1].split(), "--yes").returncode == 0
    # The other one from now on only.
    assert gearshift("reset", f"{unique}.copied", "--to", "latest", "--yes").returncode == 0
    with Runner(changed, settings), Producer(connection) as producer:
        producer.send(app.graph.topics[f"{unique}-events"], Event(key="k0", n=10))
        producer.flush()
        eventually(lambda: sum(row["count"] for row in rows()) == 11, within=90, every=0.3)
        assert sum(row["total"] for row in rows()) == sum(range(11))
        eventually(lambda: len(values(connection, target)) == 11, within=90, every=0.3)


def errors(runner: Runner, count: int) -> dict[str, str]:
    """What each stopped pipeline says, once there are so many."""
    found = {
        name: supervisor.condition.error or ""
        for name, supervisor in runner.supervisors.items()
        if supervisor.condition.state == "stopped"
    }
    return found if len(found) == count else {}


def take(connection: Connection, topic: Topic, *, before: int) -> None:
    """Delete the first records of a topic, as retention does."""
    client = Client(connection)
    admin = client.open(AdminClient)
    asked = TopicPartition(topic.name, 0, before)
    for future in admin.delete_records([asked]).values():
        future.result()


def make_again(connection: Connection, topic: Topic) -> None:
    """Delete a topic and create it again, under the same name."""
    with Admin(connection) as admin:
        admin.delete([topic.name])
        admin.ensure([topic])
