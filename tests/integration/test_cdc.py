"""Change data capture from a real PostgreSQL through a real Kafka Connect."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import urllib3
from pydantic import SecretStr

import gearshift as gs
from gearshift import stack as local
from gearshift.definitions import ChangeCapture
from gearshift.errors import (
    ConnectError,
    ConnectUnreachableError,
    DatabaseUnreachableError,
    SlotInUseError,
    WrongPasswordError,
)
from gearshift.schemas.debezium import Change, ChangeDecoder, Op
from gearshift.settings import Settings, load
from gearshift.sources.cdc import Capture, Database, connector_config
from gearshift.sources.connect import Connect
from gearshift.stack import postgres
from gearshift.topics import read
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
    return load({"home": tmp_path_factory.mktemp("cdc"), "services": "postgres,connect"}, environ={})


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
        eventually(lambda: len(changes(stack, capture)) == 50, within=30, every=0.3)
        first = changes(stack, capture)[0]
        assert first is not None
        assert (first.op, first.before) == (Op.READ, None)
        assert first.after == Order(
            1, "Ann 1", Decimal("1.25"), datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC), date(2026, 3, 1)
        )

        database.execute("INSERT INTO orders VALUES (51, 'Bo', 0.01, '1999-12-31 23:59:59', NULL)")
        database.execute("UPDATE orders SET amount = 7 WHERE id = 51")
        database.execute("DELETE FROM orders WHERE id = 51")
        eventually(lambda: len(changes(stack, capture)) == 54, within=20, every=0.3)
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
        eventually(lambda: current(changes(stack, capture)) == truth(database), within=40, every=0.5)

        database.execute("TRUNCATE orders")
        database.execute("INSERT INTO orders VALUES (60, 'Cy', 1, '2026-03-02', NULL)")
        eventually(lambda: current(changes(stack, capture)) == truth(database), within=20, every=0.3)
        assert len(truth(database)) == 1
        eventually(lambda: running.error is None, within=10)
    finally:
        running.close()


def test_a_table_that_joins_later_is_refused_since_its_rows_would_not_come(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    database.execute("CREATE TABLE IF NOT EXISTS riders (LIKE orders INCLUDING ALL)")
    first = Capture(declared("joined-db", orders=Order), settings, stack.connection)
    first.open()
    more = Capture(declared("joined-db", orders=Order, riders=Order), settings, stack.connection)
    try:
        with pytest.raises(ConnectError, match=r"created without public\.riders, .*an app\.cdc of their own"):
            more.open()
    finally:
        first.delete()
        first.close()
        more.close()
        database.execute("DROP TABLE riders")


def test_the_password_is_in_no_configuration_answer_or_log(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    running = Capture(declared("secret-db", orders=Order), settings, stack.connection)
    running.open()
    try:
        name = running.capture.connector
        eventually(lambda: (found := running.status()) is not None and found.running, within=30, every=0.3)
        place = settings.home / "stack"
        password = postgres.passwords(place / "postgres").read_text().strip().rpartition(":")[2]
        url = stack.address("connect")
        answers = [urllib3.request("GET", f"{url}/connectors/{name}{rest}").data for rest in ("", "/tasks")]
        records = [record.value or b"" for record in read(stack.connection, "gearshift-connect-config")]
        logs = [log.read_bytes() for log in (place / "logs").iterdir()]
        assert all(password.encode() not in text for text in (*answers, *records, *logs))
        (file,) = (place / "connect" / "secrets").glob(f"{name}.properties")
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
        eventually(lambda: missing.error, within=30, every=0.2)
        assert "has no table that the connector is to capture" in str(missing.error)
        database.execute("CREATE TABLE riders (LIKE orders INCLUDING ALL)")
        eventually(lambda: missing.error is None and missing.restarts, within=30, every=0.3)
    finally:
        missing.close()
        Connect(stack.address("connect")).delete(missing.capture.connector)


def test_a_slot_in_use_is_told_by_name(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    first = Capture(declared("first-db", orders=Order), settings, stack.connection)
    first.open()
    connect = Connect(stack.address("connect"))
    name = first.capture.connector
    try:
        eventually(lambda: (found := first.status()) is not None and found.running, within=30, every=0.3)
        second = connector_config(
            declared("second-db", orders=Order),
            Database.read(stack.address("postgres")),
            (connect.config(name) or {})["database.password"],
        )
        connect.put("second", second | {"slot.name": first.capture.slot})
        failure = eventually(
            lambda: (status := connect.status("second")) and status.failure, within=30, every=0.3
        )
        assert isinstance(failure, SlotInUseError), failure
    finally:
        first.close()
        connect.delete("second")
        connect.delete(name)


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
        (WrongPasswordError, DatabaseUnreachableError), match="mend the setting postgres"
    ) as told:
        running.open()
    assert "hunter2" not in str(told.value)
    assert running.status() is None
    running.close()


def test_no_connect_is_one_sentence_with_what_to_do() -> None:
    with pytest.raises(
        ConnectUnreachableError, match=r"no Kafka Connect answers at http://127.*gearshift up --with connect"
    ):
        Connect(f"http://ann:secret@127.0.0.1:{closed_port()}").status("orders")
