"""Change data capture from a real PostgreSQL through a real Kafka Connect, to topics, tables and deliveries."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import urllib3
from pydantic import SecretStr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import stack as local
from gearshift.definitions import ChangeCapture
from gearshift.delivery.worker import Worker
from gearshift.errors import (
    ConnectUnreachableError,
    DatabaseUnreachableError,
    DefinitionError,
    SlotInUseError,
    WrongPasswordError,
)
from gearshift.runner.captures import describe, start_captures
from gearshift.runner.checking import check_app
from gearshift.runner.runner import Runner
from gearshift.schemas.debezium.events import Change, ChangeDecoder, Op
from gearshift.settings import Settings, load
from gearshift.sources.cdc.capture import Capture
from gearshift.sources.cdc.connect_api import Connect
from gearshift.sources.cdc.databases import Database
from gearshift.stack.services import postgres
from gearshift.stack.services.accounts import account_of
from gearshift.topics import Admin, Producer, read
from tests import changes_in_avro, meals
from tests.flow import values
from tests.support import closed_port, eventually


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    amount: Decimal
    placed_at: datetime
    day: date | None


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return load(
        {
            "home": tmp_path_factory.mktemp("cdc"),
            "services": "postgres,connect",
            "checkpoint_interval": "5 seconds",
        },
        environ={},
    )


@pytest.fixture(scope="module")
def stack(settings: Settings) -> Iterator[local.Stack]:
    with local.up(settings) as running:
        yield running


@pytest.fixture(scope="module")
def database(stack: local.Stack) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(stack.address("postgres"), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, amount numeric(12,2) NOT NULL,"
            " placed_at timestamp NOT NULL, day date)"
        )
        connection.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
        yield connection


def declared(name: str, **tables: type[Any]) -> ChangeCapture:
    return gs.App("food").cdc(name, tables={f"public.{table}": row for table, row in tables.items()})


def changes(stack: local.Stack, capture: ChangeCapture) -> list[Change[Order] | None]:
    (topic,) = capture.topics.values()
    decoder = ChangeDecoder(Order, replica_identity_full=True)
    return [decoder.decode(record.key, record.value) for record in read(stack.connection, topic.name)]


def current(found: list[Change[Order] | None]) -> dict[int, Order]:
    """The rows that the changes lead to."""
    rows: dict[int, Order] = {}
    for change in found:
        if change is None:
            continue
        if change.op is Op.TRUNCATE:
            rows.clear()
        elif change.after is not None:
            rows[change.after.id] = change.after
        elif change.key is not None:
            rows.pop(change.key["id"], None)
    return rows


def truth(database: psycopg.Connection[Any]) -> dict[int, Order]:
    rows = database.execute("SELECT id, customer, amount, placed_at, day FROM orders").fetchall()
    return {row[0]: Order(*row[:3], row[3].replace(tzinfo=UTC), row[4]) for row in rows}


def test_snapshot_then_every_kind_of_change_and_nothing_lost_when_connect_is_killed(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    database.execute(
        "INSERT INTO orders SELECT n, 'Ann ' || n, n + 0.25, '2026-03-01 10:00:00.123456', '2026-03-01'"
        " FROM generate_series(1, 50) n"
    )
    capture = declared("orders-db", orders=Order)
    running = Capture(capture, settings, stack.connection)
    running.open()
    try:
        eventually(lambda: len(changes(stack, capture)) == 50, every=0.3)
        first = changes(stack, capture)[0]
        assert first is not None
        assert (first.op, first.before) == (Op.READ, None)
        assert first.after == Order(
            1, "Ann 1", Decimal("1.25"), datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC), date(2026, 3, 1)
        )

        database.execute("INSERT INTO orders VALUES (51, 'Bo', 0.01, '1999-12-31 23:59:59', NULL)")
        database.execute("UPDATE orders SET amount = 7 WHERE id = 51")
        database.execute("DELETE FROM orders WHERE id = 51")
        eventually(lambda: len(changes(stack, capture)) == 54, every=0.3)
        created, updated, deleted, tombstone = changes(stack, capture)[50:]
        assert created is not None and updated is not None and deleted is not None and tombstone is None
        assert [one.op for one in (created, updated, deleted)] == [Op.CREATE, Op.UPDATE, Op.DELETE]
        assert updated.before == created.after and updated.after == deleted.before
        assert (deleted.after, deleted.key) == (None, {"id": 51})
        assert created.source_time is not None
        assert abs((datetime.now(UTC) - created.source_time).total_seconds()) < 60

        (pid,) = [service.pid.number for service in stack.services if service.name == "connect"]
        os.killpg(pid, signal.SIGKILL)
        database.execute("UPDATE orders SET customer = 'while it was down' WHERE id <= 10")
        stack.start_service("connect")
        database.execute("UPDATE orders SET customer = 'when it was back' WHERE id = 50")
        eventually(lambda: current(changes(stack, capture)) == truth(database), every=0.5)

        database.execute("TRUNCATE orders")
        database.execute("INSERT INTO orders VALUES (60, 'Cy', 1, '2026-03-02', NULL)")
        eventually(lambda: current(changes(stack, capture)) == truth(database), every=0.3)
        assert len(truth(database)) == 1
        eventually(lambda: running.error is None)
    finally:
        running.close()


def test_a_table_that_joins_later_comes_with_the_rows_it_has(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    database.execute("CREATE TABLE riders (LIKE orders INCLUDING ALL)")
    database.execute("INSERT INTO riders VALUES (1, 'Ann', 1, '2026-03-01', NULL)")
    with ExitStack() as opened:

        def started(*tables: str) -> dict[str, Capture]:
            app = gs.App("food")
            app.cdc("joined-db", tables=dict.fromkeys(tables, Order))
            return start_captures(
                app.graph, stack.connection, settings, progress=lambda _: None, at_exit=opened.callback
            )

        def riders() -> int:
            return len(list(read(stack.connection, "joined-db.public.riders")))

        started("public.orders")
        captures = started("public.orders", "public.riders")
        assert list(captures) == ["joined-db", "joined-db.part2"]
        eventually(lambda: riders() == 1, every=0.3)
        captures = started("public.riders", "public.orders")
        assert list(captures) == ["joined-db", "joined-db.part2"]
        database.execute("INSERT INTO riders VALUES (2, 'Bo', 1, '2026-03-01', NULL)")
        eventually(lambda: riders() == 2, every=0.3)
        assert [capture.error for capture in captures.values()] == [None, None]
        for capture in captures.values():
            capture.delete()
    database.execute("DROP TABLE riders")


def test_the_password_is_in_no_configuration_answer_or_log(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    running = Capture(declared("secret-db", orders=Order), settings, stack.connection)
    running.open()
    try:
        name = running.capture.connector
        eventually(lambda: (found := running.status()) is not None and found.running, every=0.3)
        place = settings.home / "stack"
        password = postgres.passwords(place / "postgres").read_text().strip().rpartition(":")[2]
        url, secret = (
            next(s.address for s in stack.services if s.name == "connect"),
            account_of(place / "connect"),
        )
        login = urllib3.make_headers(basic_auth=f"{secret.user}:{secret.password}")
        asked = [
            urllib3.request("GET", f"{url}/connectors/{name}{rest}", headers=login) for rest in ("", "/tasks")
        ]
        assert [answer.status for answer in asked] == [200, 200]
        answers = [answer.data for answer in asked]
        records = [record.value or b"" for record in read(stack.connection, "gearshift-connect-config")]
        logs = [log.read_bytes() for log in (place / "logs").iterdir()]
        assert all(password.encode() not in text for text in (*answers, *records, *logs))
        # Whoever could validate a configuration could have that password sent to an address of their own.
        stolen = json.dumps(
            {**(Connect(stack.address("connect")).config(name) or {}), "database.hostname": "there"}
        )
        for wrong in ({}, urllib3.make_headers(basic_auth="gearshift:gearshift")):
            for method, path in (
                ("GET", "/"),
                ("PUT", "/connector-plugins/PostgresConnector/config/validate"),
            ):
                headers = {**wrong, "Content-Type": "application/json", "Host": "evil.example"}
                assert urllib3.request(method, url + path, body=stolen, headers=headers).status == 401
        (file,) = (place / "connect" / "secrets").glob(f"{name}.password.properties")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    finally:
        running.close()
        Connect(stack.address("connect")).delete(running.capture.connector)


def test_a_missing_table_is_told_and_mended_without_a_restart(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    missing = Capture(declared("missing-db", riders=Order), settings, stack.connection)
    missing.open()
    try:
        eventually(lambda: missing.error, every=0.2)
        assert "does not exist in the database" in str(missing.error)
        database.execute("CREATE TABLE riders (LIKE orders INCLUDING ALL)")
        eventually(lambda: missing.error is None and missing.restarts, every=0.3)
    finally:
        missing.close()
        Connect(stack.address("connect")).delete(missing.capture.connector)


def test_a_slot_in_use_is_told_by_name_and_shows_no_password(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    first, second = (
        Capture(declared(name, orders=Order), settings, stack.connection) for name in ("first-db", "first_db")
    )
    first.open()
    try:
        eventually(lambda: (found := first.status()) is not None and found.running, every=0.3)
        second.open()  # its slot has the same name
        eventually(lambda: second.restarts and second.error, every=0.3)
        shown = describe(second)
        assert "another connector reads the replication slot gearshift_food_first_db" in shown["error"]
        failure = eventually(lambda: (status := second.status()) is not None and status.failure, every=0.3)
        assert isinstance(failure, SlotInUseError)
        passwords = postgres.passwords(settings.home / "stack" / "postgres").read_text()
        assert passwords.strip().rpartition(":")[2] not in json.dumps(shown)
    finally:
        for capture in (second, first):
            capture.delete()
            capture.close()


@pytest.mark.parametrize("mistake", ["password", "port"])
def test_a_database_that_lets_nobody_in_is_told_before_the_connector_exists(
    stack: local.Stack, settings: Settings, mistake: str
) -> None:
    dsn = stack.address("postgres")
    wrong = (
        dsn.partition("?")[0].replace("gearshift@", "gearshift:hunter2@")
        if mistake == "password"
        else dsn.replace(f":{Database.read(dsn).port}/", f":{closed_port()}/")
    )
    capture = declared("locked-db", orders=Order)
    own = settings.model_copy(update={"postgres": SecretStr(wrong)})
    running = Capture(capture, own, stack.connection)
    with pytest.raises(
        (WrongPasswordError, DatabaseUnreachableError), match="correct the setting postgres"
    ) as told:
        running.open()
    assert "hunter2" not in str(told.value)
    assert running.status() is None
    running.close()


def test_a_copy_of_changes_from_more_partitions_than_are_declared_is_refused(
    stack: local.Stack, settings: Settings
) -> None:
    elsewhere = gs.App("elsewhere").topic("own.public.orders", value=Order, envelope="debezium", partitions=3)
    with Admin(stack.connection) as admin:
        admin.ensure([elsewhere])
    app = gs.App("food")
    own = app.topic("own.public.orders", value=Order, envelope="debezium")

    @app.delivery(own, to=gs.destinations.Cassandra(table="food.orders", key="id"))
    def copy(record: gs.Record[gs.Change[Order]]) -> gs.Change[Order]:
        return record.value

    worker = Worker(app.graph.deliveries["copy"], app.name, stack.connection, settings=settings)
    with pytest.raises(DefinitionError, match=r"with 3 partitions: a truncate has no key.*test_cdc\.py"):
        worker.run()


def test_no_connect_is_one_sentence_with_what_to_do() -> None:
    with pytest.raises(
        ConnectUnreachableError,
        match=r"Kafka Connect at http://127(?s:.*)is not reachable(?s:.*)gearshift up --with connect",
    ):
        Connect(f"http://ann:secret@127.0.0.1:{closed_port()}").status("orders")


def test_a_captured_table_is_kept_row_for_row_through_every_kind_of_change_and_avro_is_too(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    database.execute(
        "CREATE TABLE meals (id int PRIMARY KEY, customer varchar(20) NOT NULL, amount numeric(10,2) NOT NULL,"
        " status text NOT NULL, note text)"
    )
    database.execute(
        "INSERT INTO meals SELECT n, 'c' || n % 10, n * 1.25, 'placed', NULL FROM generate_series(1, 500) n"
    )
    kitchen = meals.declared()

    def as_served() -> bool:
        return meals.kept(settings) == meals.served(database)

    with Runner(kitchen.app, settings) as runner:
        in_avro = changes_in_avro.Sender(changes_in_avro.postgresql(), stack.connection, kitchen.shop.name)
        in_avro.send(slice(6))
        eventually(as_served, every=0.5)
        three = (3, "Cy", Decimal("12.50"), 5)
        eventually(lambda: meals.bought(settings) == [(1, "Ann", Decimal("-99.99"), 5), three], every=0.5)

        database.execute("UPDATE meals SET status = 'cooked', amount = amount + 0.01 WHERE id <= 50")
        database.execute("DELETE FROM meals WHERE id BETWEEN 40 AND 60")
        database.execute("UPDATE meals SET id = id + 1000 WHERE id = 1")
        database.execute("INSERT INTO meals VALUES (45, 'back', -0.01, 'placed', 'again')")
        in_avro.send(slice(6, 9))  # the table has another schema now
        eventually(as_served, every=0.5)
        eventually(lambda: meals.bought(settings) == [three], every=0.5)
        found = eventually(
            lambda: len(seen := values(stack.connection, kitchen.moves)) >= 50 + 21 + 1 and seen,
            every=0.5,
        )
        assert {meals.Move(2, "u", "placed", "cooked"), meals.Move(60, "d", "placed", None)} < set(found)

        database.execute("TRUNCATE meals")
        database.execute(
            "INSERT INTO meals SELECT n, 'new', 1, 'placed', NULL FROM generate_series(30, 70) n"
        )
        in_avro.send(slice(9, 10))
        eventually(as_served, every=0.5)
        eventually(lambda: meals.bought(settings) == [], every=0.5)
        eventually(lambda: len(kitchen.delivered) >= 8)
        assert [change.op.value for change in kitchen.delivered] == ["r", "r", "c", "u", "d", "u", "d", "t"]
        assert kitchen.delivered[5].after == meals.Shopping(1, "Ann", Decimal("-99.99"), tip=7)

        with Producer(stack.connection) as producer:
            for bad in (b"garbage", b'{"op":"c","after":{"id":"seven"}}', b'{"op":"x"}'):
                producer.send_bytes(kitchen.meals.name, bad)
        letters = eventually(
            lambda: len(found := list(read(stack.connection, kitchen.meals.dead_letters))) >= 6 and found,
            every=0.5,
        )
        reasons = {
            (letter.header("__connect.errors.exception.message") or b"").decode() for letter in letters
        }
        assert any("after.id is not a valid bigint" in reason for reason in reasons), reasons

        database.execute("ALTER TABLE meals ADD COLUMN tip numeric NOT NULL DEFAULT 0")
        database.execute("ALTER TABLE meals ALTER id TYPE bigint, ALTER customer TYPE text")
        database.execute("INSERT INTO meals VALUES (5000000000, %s, 2, 'placed', NULL, 3)", ["long " * 20])
        database.execute("ALTER TABLE meals DROP COLUMN note")
        database.execute("INSERT INTO meals VALUES (72, 'x', 2, 'placed', 4)")
        database.execute("ALTER TABLE meals ADD COLUMN note text")
        eventually(as_served, every=0.5)

        (status,) = runner.status()["captures"]
        assert status["running"], status
        assert [task["state"] for task in status["tasks"]] == ["running"]

        database.execute("ALTER TABLE meals RENAME COLUMN status TO state")
        database.execute(
            "INSERT INTO meals (id, customer, amount, state, tip) VALUES (73, 'x', 2, 'placed', 4)"
        )
        told = eventually(lambda: runner.status()["pipelines"][0]["error"], every=0.5)
        assert "the source table no longer has a column status" in told
        runner.captures["meals-db"].delete()


def test_what_would_be_out_of_date_is_refused_by_check(settings: Settings) -> None:
    app = gs.App("checked")
    captured = app.cdc("meals-db", tables={"public.meals": meals.Meal}).topics["public.meals"]

    def table(name: str) -> gs.Table:
        return app.table(name, key="id", sequence_by="_position", deleted="_deleted")

    @app.pipeline(source=captured, to=table("placed"), as_of="latest", freshness="10 seconds")
    def placed(captured: DataFrame) -> DataFrame:
        return captured.where(F.col("status") == "placed")

    @app.pipeline(source=captured, to=table("latest"), as_of="latest", freshness="10 seconds")
    def latest(captured: DataFrame) -> DataFrame:
        return captured.groupBy("id").agg(F.max("_position").alias("_position"))

    hints = [report["error"]["hint"] for report in check_app(app, settings)]
    assert "mark it as deleted" in hints[0]
    assert "aggregate over that table" in hints[1]
