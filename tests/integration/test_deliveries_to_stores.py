"""Deliveries into real stores: what is in the table is what was sent, whatever came twice or cannot be written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

import gearshift as gs
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.delivery.worker import Worker
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.errors import DeliveryError
from gearshift.schemas import Registry
from gearshift.topics import Admin, Producer, read
from tests.gateways import HttpGateway, SmtpGateway
from tests.support import eventually, librdkafka

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Reading:
    meter_id: str
    n: int
    read_at: datetime
    load_kw: float


@contextmanager
def running(app: gs.App, connection: Connection, name: str) -> Iterator[Worker]:
    worker = Worker(app.graph.deliveries[name], app.name, connection)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(60)
    assert not thread.is_alive()


def ends(app: gs.App, connection: Connection, name: str) -> BaseException:
    """Run a consumer until it fails; why it did."""
    try:
        Worker(app.graph.deliveries[name], app.name, connection).run()
    except BaseException as error:
        return error
    raise AssertionError("it ended without a failure")


def declared(name: str, connection: Connection, partitions: int = 3) -> tuple[gs.App, gs.Topic]:
    app = gs.App(name)
    readings = app.topic(f"{name}-readings", value=Reading, key="meter_id", partitions=partitions)
    with Admin(connection) as admin, Registry(connection) as registry:
        admin.ensure([readings])
        registry.register(readings)
    return app, readings


def test_a_row_that_cannot_be_written_is_set_aside_and_the_rest_is_there_once(
    connection: Connection, stores: local.Stack, unique: str
) -> None:
    dsn = stores.address("postgres")
    app, readings = declared(unique, connection)
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute(
            f"""
            create table {unique} (meter_id text, n int, load_kw float check (load_kw < 100));
            create function {unique}() returns trigger language plpgsql as $$ begin
                if new.load_kw < 0 then raise 'load_kw below zero'; end if; return new; end $$;
            create trigger refuse before insert on {unique} for each row execute function {unique}();
            """.encode()
        )
        target = gs.destinations.Postgres(table=unique, dsn=dsn, create=False)

        @app.delivery(readings, to=target, commit="async")
        def keep(record: gs.Record[Reading]) -> dict[str, object]:
            value = record.value
            return {"meter_id": value.meter_id, "n": value.n, "load_kw": value.load_kw}

        with Producer(connection) as producer:
            for n in range(500):
                load = {7: 1000.0, 8: -1.0}.get(n % 100, 1.0)
                producer.send(readings, Reading(f"m{n % 9}", n, NOON, load))
        with running(app, connection, "keep") as worker:
            eventually(lambda: worker.counts.delivered == 490)
        # The group forgets where it was; the table does not, and drops what it has seen.
        with Admin(connection) as admin:
            admin.commit_group(f"{unique}.keep", dict.fromkeys(admin.end_offsets([readings.name]), 0))
        with running(app, connection, "keep") as worker:
            eventually(lambda: worker.counts.delivered == 500)
        rows = database.execute(f"select n from {unique}".encode()).fetchall()
    assert sorted(n for (n,) in rows) == [n for n in range(500) if n % 100 not in (7, 8)]
    letters = list(read(connection, readings.dead_letters))
    assert len(letters) == 10
    assert all(b"load_kw" in (letter.header("gearshift.reason") or b"") for letter in letters)


def test_the_latest_reading_by_its_own_time_stays_in_cassandra(
    connection: Connection, stores: local.Stack, unique: str
) -> None:
    points = stores.address("cassandra")
    app, readings = declared(unique, connection)
    target = gs.destinations.Cassandra(
        table=f"{unique}.latest", key=("meter_id",), event_time="read_at", contact_points=points
    )

    @app.delivery(readings, to=target)
    def latest(record: gs.Record[Reading]) -> Reading:
        return record.value

    with Producer(connection) as producer:
        for n in range(300):
            # Every third comes late: an hour older than what was there.
            at = NOON + timedelta(seconds=n) - (timedelta(hours=1) if n % 3 == 0 else timedelta(0))
            producer.send(readings, Reading(f"m{n % 7}", n, at, float(n)))
    with running(app, connection, "latest") as worker:
        eventually(lambda: worker.counts.delivered == 300)
    expected = {f"m{key}": max(n for n in range(300) if n % 7 == key and n % 3) for key in range(7)}
    cluster, session = connect(ContactPoints.read(points), name="test")
    try:
        rows = session.execute(f'select meter_id, n from "{unique}"."latest"')
        assert {row.meter_id: row.n for row in rows} == expected
    finally:
        cluster.shutdown()


@pytest.mark.parametrize("commit", ["sync", "async"])
def test_after_a_failed_write_nothing_later_is_written_and_a_restart_loses_nothing(
    connection: Connection, stores: local.Stack, unique: str, commit: Any
) -> None:
    dsn = stores.address("postgres")
    app, readings = declared(unique, connection, partitions=1)
    target = gs.destinations.Postgres(table=unique, dsn=dsn, create=False)
    target.batch_size = 5  # many writes of one partition, one after the other

    @app.delivery(readings, to=target, commit=commit)
    def keep(record: gs.Record[Reading]) -> dict[str, object] | None:
        value = record.value
        return {"meter_id": value.meter_id, "n": value.n} if value.n % 10 != 3 else None

    with Producer(connection) as producer:
        for n in range(400):
            producer.send(readings, Reading(f"m{n % 9}", n, NOON, 1.0))
    with psycopg.connect(dsn, autocommit=True) as database:

        def numbers() -> list[int]:
            return [n for (n,) in database.execute(f"select n from {unique} order by nr".encode()).fetchall()]

        database.execute(
            f"""
            create table {unique} (nr bigserial, meter_id text, n int);
            create function {unique}() returns trigger language plpgsql as $$ begin
                if new.n = 300 then raise 'not now' using errcode = '42501'; end if; return new; end $$;
            create trigger refuse before insert on {unique} for each row execute function {unique}();
            """.encode()
        )
        failure = ends(app, connection, "keep")
        assert isinstance(failure, DeliveryError)
        assert "not now" in str(failure)
        before = numbers()
        database.execute(f"drop trigger refuse on {unique}".encode())
        with running(app, connection, "keep") as worker:
            eventually(lambda: [tracker.position for _, tracker in worker.assignment.items()] == [400])
        after = numbers()
    assert max(before) < 300, f"{len(before)} rows, up to {max(before)}"
    assert after == [n for n in range(400) if n % 10 != 3]
    assert list(read(connection, readings.dead_letters)) == []


def test_a_refused_login_stops_a_delivery_and_sets_nothing_aside(connection: Connection, unique: str) -> None:
    app, readings = declared(unique, connection, partitions=1)
    with HttpGateway(accounts={"AC1": "right"}) as provider, SmtpGateway(users={"alerts": "right"}) as server:
        sms = gs.destinations.Sms(account="AC1", token="wrong", sender="+15005550006", url=provider.url)
        mail = gs.destinations.Email(
            "127.0.0.1", server.port, "alerts@example.org", user="alerts", password="wrong", tls="none"
        )
        hook = gs.destinations.Webhook(provider.url)

        @app.delivery(readings, to=sms, group_id=f"{unique}-sms", parallelism=4)
        def text(record: gs.Record[Reading]) -> gs.destinations.SmsMessage:
            return gs.destinations.SmsMessage("+31612345678", "high load")

        @app.delivery(readings, to=mail, group_id=f"{unique}-mail", commit="async")
        def send(record: gs.Record[Reading]) -> gs.destinations.EmailMessage:
            return gs.destinations.EmailMessage("ann@example.org", "high load", "2.4 kW")

        @app.delivery(readings, to=hook, group_id=f"{unique}-hook")
        def post(record: gs.Record[Reading]) -> dict[str, object]:
            return {"meter_id": record.value.meter_id}

        with Producer(connection) as producer:
            for n in range(50):
                producer.send(readings, Reading(f"m{n % 9}", n, NOON, 1.0))
        for name, says in (("text", "answered 401"), ("send", "rejected the login: 535")):
            failure = ends(app, connection, name)
            assert isinstance(failure, DeliveryError)
            assert says in str(failure)
        provider.fail(status=403)
        assert "answered 403" in str(ends(app, connection, "post"))
        assert len(provider.accepted) == 0 == len(server.mails)
    with Admin(connection) as admin:
        offsets = admin.group_offsets(f"{unique}-sms", [readings.name])
    assert set(offsets.values()) <= {0}
    assert list(read(connection, readings.dead_letters)) == []


def test_a_topic_that_is_deleted_and_created_again_reaches_postgres_again(
    connection: Connection, stores: local.Stack, unique: str
) -> None:
    dsn = stores.address("postgres")
    app, readings = declared(unique, connection, partitions=1)

    @app.delivery(readings, to=gs.destinations.Postgres(table=unique, dsn=dsn))
    def keep(record: gs.Record[Reading]) -> dict[str, object]:
        return {"n": record.value.n}

    def deliver(numbers: range) -> list[int]:
        with Producer(connection) as producer:
            for n in numbers:
                producer.send(readings, Reading("m1", n, NOON, 1.0))
        with running(app, connection, "keep") as worker:
            eventually(lambda: worker.counts.delivered == len(numbers))
        with psycopg.connect(dsn) as database:
            return [n for (n,) in database.execute(f"select n from {unique} order by n".encode()).fetchall()]

    assert deliver(range(50)) == [*range(50)]
    with Admin(connection) as admin:
        admin.delete([readings.name])
        eventually(lambda: readings.name not in admin.names())
        admin.ensure([readings])
        # A commit that was on its way while the topic was deleted counts for the one that came after it.
        late = TopicPartition(readings.name, 0, 20, metadata="topic-id:of-the-first")
        Consumer(librdkafka(connection) | {"group.id": f"{unique}.keep"}).commit(
            offsets=[late], asynchronous=False
        )
    assert deliver(range(50, 80)) == [*range(80)]


def test_rows_that_went_with_a_restored_backup_are_written_again(
    connection: Connection, stores: local.Stack, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    dsn = stores.address("postgres")
    app, readings = declared(unique, connection, partitions=2)
    handled: list[int] = []

    @app.delivery(readings, to=gs.destinations.Postgres(table=f"{unique}.kept", dsn=dsn))
    def keep(record: gs.Record[Reading]) -> dict[str, object] | None:
        handled.append(record.value.n)
        return {"n": record.value.n} if record.value.n < 55 else None  # the last ones make no rows

    def deliver(numbers: range) -> None:
        with Producer(connection) as producer:
            for n in numbers:
                producer.send(readings, Reading(f"m{n % 7}", n, NOON, 1.0))
        done = len(handled)
        with running(app, connection, "keep") as worker:
            eventually(lambda: len(handled) >= done + len(numbers))
            eventually(lambda: len(worker.assignment.items()) == 2)

    with psycopg.connect(dsn, autocommit=True) as database:

        def sql(words: str) -> list[Any]:
            found = database.execute(words.format(unique).encode())
            return found.fetchall() if found.description else []

        def rows() -> list[int]:
            return [n for (n,) in sql("select n from {0}.kept order by n")]

        deliver(range(20))
        sql("create table {0}.old_rows as table {0}.kept")
        sql("create table {0}.old_offsets as table {0}.gearshift_offsets")
        deliver(range(20, 60))
        assert rows() == [*range(55)]
        deliver(range(0))
        assert sorted(handled) == [*range(60)], "what made no row came again with a restart"
        sql("delete from {0}.kept")
        sql("delete from {0}.gearshift_offsets")
        sql("insert into {0}.kept table {0}.old_rows")
        sql("insert into {0}.gearshift_offsets table {0}.old_offsets")
        with running(app, connection, "keep"):
            eventually(lambda: rows() == [*range(55)], within=30)
        assert "went back" in caplog.text
        caplog.clear()
        deliver(range(100, 110))
        assert rows() == [*range(55)]
        assert "went back" not in caplog.text
