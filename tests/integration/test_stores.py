"""The stores that deliveries write to, on real servers: Cassandra and PostgreSQL."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from threading import Timer
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from gearshift import stack as local
from gearshift.destinations import Cassandra, Delete, Postgres
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.destinations.postgres import statements
from gearshift.errors import DeliveryError, PermanentError, RetriableError
from gearshift.record import Destination, Record, Row
from gearshift.settings import load
from gearshift.stack.services import cassandra as node
from tests.gateways import certificate
from tests.gateways.certificate import java_stores
from tests.support import closed_port, eventually

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Phase(Enum):
    ONE = "one"
    THREE = "three"


@dataclass(frozen=True)
class Spot:
    floor: int
    room: str


@dataclass(frozen=True)
class Meter:
    meter_id: str
    read_at: datetime
    load_kw: float
    total: int
    price: Decimal
    installed: date
    phase: Phase
    open: bool
    seal: bytes
    peaks: list[float]
    spot: Spot
    note: str | None = None


METER = Meter(
    meter_id="m1",
    read_at=NOON,
    load_kw=2.5,
    total=1 << 40,
    price=Decimal("12.34"),
    installed=date(2020, 2, 29),
    phase=Phase.THREE,
    open=True,
    seal=b"\0\1",
    peaks=[1.5, 2.5],
    spot=Spot(3, "B"),
)


def row(value: Any, offset: int, *, partition: int = 0, topic: str = "readings") -> Row:
    return Row(value, Record(value, None, topic, partition, offset, NOON))


def reading(meter: str | None, seconds: float, load: Any) -> dict[str, Any]:
    return {"meter_id": meter, "read_at": NOON + timedelta(seconds=seconds), "load_kw": load}


def kill(stores: local.Stack, name: str) -> None:
    pid = next(service.pid for service in stores.services if service.name == name)
    os.kill(pid.number, signal.SIGKILL)
    eventually(stores.dead)


class Opened:
    """Destinations that a test opened, closed at its end."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, destination: Any, group_id: str = "group") -> Any:
        assert isinstance(destination, Destination)
        destination.open(group_id)
        self.all.append(destination)
        return destination


@pytest.fixture
def opened() -> Iterator[Opened]:
    opened = Opened()
    yield opened
    for destination in opened.all:
        destination.close()


@pytest.fixture
def dsn(stores: local.Stack) -> str:
    return stores.address("postgres")


@pytest.fixture
def sql(dsn: str) -> Callable[..., list[dict[str, Any]]]:
    """What PostgreSQL answers, as a client of its own sees it."""

    def ask(statement: Any, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(dsn, row_factory=dict_row, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    return ask


@pytest.fixture
def cql(stores: local.Stack) -> Iterator[Callable[..., list[Any]]]:
    """What Cassandra answers, as a client of its own sees it."""
    cluster, session = connect(ContactPoints.read(stores.address("cassandra")), name="test")
    yield lambda statement, *values: list(session.execute(statement, values))
    cluster.shutdown()


def test_postgres_makes_a_table_of_the_dataclass_and_upserts_by_key(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    table = opened(Postgres(table=f"{unique}.meters", key="meter_id", dsn=dsn))
    table.write([row(METER, 0), row({"meter_id": "m2", "load_kw": 1.0}, 1)])
    table.write([row({"meter_id": "m1", "load_kw": 3.5, "note": "seen"}, 2), row(Delete(meter_id="m2"), 3)])
    (found,) = sql(f"SELECT * FROM {unique}.meters")
    assert found == {
        "meter_id": "m1",
        "read_at": NOON,
        "load_kw": 3.5,
        "total": 1 << 40,
        "price": Decimal("12.34"),
        "installed": date(2020, 2, 29),
        "phase": "three",
        "open": True,
        "seal": b"\0\1",
        "peaks": [1.5, 2.5],
        "spot": {"floor": 3, "room": "B"},
        "note": "seen",
    }


def test_of_two_records_with_one_event_time_cassandra_has_the_later_as_a_whole(
    stores: local.Stack, opened: Opened, cql: Any, unique: str
) -> None:
    def records(offsets: range, at: datetime) -> list[Row]:
        # What is larger in one column is smaller in the other, and null now and then.
        def value(n: int) -> dict[str, Any]:
            return {"id": n % 3, "at": at, "up": n, "down": -n, "note": f"n{n}" if n % 2 else None}

        return [row(value(n), n) for n in offsets]

    def found() -> list[tuple[Any, ...]]:
        return sorted(tuple(one) for one in cql(f"SELECT id, up, down, note FROM {unique}.ties"))

    def expected(last: range) -> list[tuple[Any, ...]]:
        return sorted((n % 3, n, -n, f"n{n}" if n % 2 else None) for n in last)

    points = stores.address("cassandra")
    table = opened(Cassandra(table=f"{unique}.ties", key="id", event_time="at", contact_points=points))
    for at in (NOON, NOON + timedelta(microseconds=7)):
        written = records(range(100, 2600), at)
        for place in range(0, len(written), 500):
            table.write(written[place : place + 500])
        assert found() == expected(range(2597, 2600))
        table.write(written[-600:-3])  # they come again
        assert found() == expected(range(2597, 2600))


@pytest.mark.parametrize("key", ["id", ("id", "at")])
def test_of_two_records_with_one_event_time_cassandra_has_the_later_as_a_whole_after_restarts(
    stores: local.Stack, opened: Opened, cql: Any, unique: str, key: Any
) -> None:
    def record(n: int, at: datetime = NOON) -> Row:
        return row({"id": n % 3, "at": at, "up": n, "down": -n, "note": f"n{n}" if n % 2 else None}, n)

    def restarted() -> Any:
        points = stores.address("cassandra")
        return opened(Cassandra(table=f"{unique}.ties", key=key, event_time="at", contact_points=points))

    def found(at: datetime = NOON) -> list[tuple[Any, ...]]:
        rows = cql(f"SELECT id, up, down, note, at FROM {unique}.ties")
        return sorted(tuple(one[:4]) for one in rows if one.at == at.replace(tzinfo=None))

    def expected(*last: int) -> list[tuple[Any, ...]]:
        return sorted((n % 3, n, -n, f"n{n}" if n % 2 else None) for n in last)

    # One record after the other, with a restart before each.
    for n in (9, 6, 12, 3, 15):
        restarted().write([record(n)])
        assert found() == expected(n)
    # A consumer dies before it commits, and the next one writes the same again and goes on.
    restarted().write([record(n) for n in range(20, 40)])
    restarted().write([record(n) for n in range(30, 45)])
    assert found() == expected(42, 43, 44)
    restarted().write([record(n) for n in range(36, 40)])
    restarted().write([record(n) for n in range(36, 45)])
    assert found() == expected(42, 43, 44)
    # Ties and restarts neither keep a later event out nor let an earlier one in.
    restarted().write(
        [record(45, NOON - timedelta(microseconds=1000)), record(46, NOON - timedelta(hours=1))]
    )
    assert found() == expected(42, 43, 44)
    later = NOON + timedelta(microseconds=1 if key == "id" else 1000)
    restarted().write([record(n, later) for n in (50, 49, 48)])
    shown = NOON if key == "id" else later
    assert found(shown) == expected(50, 49, 48)
    restarted().write([row(Delete(id=0, at=later), 51)])
    assert found(shown) == expected(50, 49)


def test_names_are_quoted_and_values_bound(
    stores: local.Stack, dsn: str, opened: Opened, sql: Any, cql: Any, unique: str
) -> None:
    odd = f'{unique} "; DROP TABLE x; --'
    value = {'a"b': "x'; DROP TABLE y; --", "When %s": NOON, "select": 1}
    opened(Postgres(table=odd, key='a"b', dsn=dsn)).write([row(value, 0)])
    (found,) = sql(psycopg.sql.SQL("SELECT * FROM {}").format(psycopg.sql.Identifier(odd)))
    assert found == value
    name = f"{unique}.Meters"
    address = stores.address("cassandra")
    table = Cassandra(table=name, key=('a"b', "When %s"), event_time="When %s", contact_points=address)
    opened(table).write([row(value, 0)])
    (same,) = cql(f'SELECT "a""b" AS word, "select" AS one FROM {unique}."Meters"')
    assert (same.word, same.one) == ("x'; DROP TABLE y; --", 1)


def test_a_redelivered_record_changes_nothing_in_postgres(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    rows = [row(reading("m1", n, n), n) for n in range(10)]
    table = opened(Postgres(table=unique, dsn=dsn), unique)  # no key: every insertion shows
    table.write(rows[:6])
    table.write(rows[:6])
    opened(Postgres(table=unique, dsn=dsn), unique).write(rows)
    assert [one["load_kw"] for one in sql(f"SELECT load_kw FROM {unique} ORDER BY load_kw")] == [*range(10)]
    table.write([row(reading("m1", 0, 100), 0, partition=1), row(reading("m1", 0, 101), 0, topic="other")])
    known = sql(
        "SELECT * FROM gearshift_offsets WHERE group_id = %s ORDER BY next_offset DESC, topic", unique
    )
    assert [(one["topic"], one["partition"], one["next_offset"]) for one in known] == [
        ("readings", 0, 10),
        ("other", 0, 1),
        ("readings", 1, 1),
    ]
    assert len(sql(f"SELECT load_kw FROM {unique}")) == 12


def test_the_rows_of_one_record_may_come_in_several_writes(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    table = opened(Postgres(table=unique, dsn=dsn), unique)
    three = [Row({"n": n}, row(None, 7).record, n) for n in range(3)]
    table.write(three[:1])
    table.write(three[1:])
    table.write(three)
    table.write([row({"n": 3}, 8)])
    assert [one["n"] for one in sql(f"SELECT n FROM {unique} ORDER BY n")] == [0, 1, 2, 3]


def test_a_consumer_that_was_frozen_cannot_write_stale_rows(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    frozen, successor = (
        opened(Postgres(table=unique, key="meter_id", dsn=dsn), unique),
        opened(Postgres(table=unique, key="meter_id", dsn=dsn), unique),
    )
    frozen.write([row(reading("m1", 0, 0), 0)])
    successor.write([row(reading("m1", n, n), n) for n in range(1, 5)])
    frozen.write([row(reading("m1", n, n), n) for n in range(1, 3)])
    successor.write([row(reading("m1", 5, 5), 5)])
    frozen.write([row(reading("m1", n, n), n) for n in range(3, 6)])
    assert [one["load_kw"] for one in sql(f"SELECT load_kw FROM {unique}")] == [5]


def test_a_consumer_frozen_in_mid_transaction_does_not_hold_its_partition_for_ever(
    dsn: str, opened: Opened, sql: Any, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"idle_in_transaction_session_timeout": "1s", "lock_timeout": "20s"}
    monkeypatch.setattr(statements, "_TIMEOUTS", limits)
    table = opened(Postgres(table=unique, dsn=dsn), unique)
    table.write([row({"n": 0}, 0)])
    offsets = psycopg.sql.Identifier(statements.OFFSETS)
    with psycopg.connect(dsn, cursor_factory=psycopg.RawCursor) as frozen:
        frozen.execute(statements.set_timeouts())
        frozen.execute(statements.lock(offsets), (unique, "readings", 0, ""))
        frozen.execute(f"INSERT INTO {unique} VALUES (-1)")
        table.write([row({"n": 1}, 1)])
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            frozen.execute("SELECT 1")
    assert [one["n"] for one in sql(f"SELECT n FROM {unique} ORDER BY n")] == [0, 1]


def test_postgres_knows_a_topic_that_was_created_again_and_a_log_that_was_truncated(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    def rows(offsets: range, topic_id: str, epoch: int, of: str) -> list[Row]:
        return [
            Row(
                {"n": n, "of": of},
                Record(n, None, "readings", 0, n, NOON, leader_epoch=epoch, topic_id=topic_id),
            )
            for n in offsets
        ]

    # As a version that knew no topic ids has left it, with five records written.
    sql(f"CREATE SCHEMA {unique}")
    sql(
        f"CREATE TABLE {unique}.gearshift_offsets (group_id text, topic text, partition integer, "
        "next_offset bigint NOT NULL, last_index integer NOT NULL, PRIMARY KEY (group_id, topic, partition))"
    )
    sql(f"INSERT INTO {unique}.gearshift_offsets VALUES ('group', 'readings', 0, 5, 0)")
    sql(f"CREATE ROLE {unique} LOGIN PASSWORD 'secret'")
    sql(f"GRANT USAGE ON SCHEMA {unique} TO {unique}")
    another = psycopg.conninfo.make_conninfo(dsn, user=unique, password="secret")
    with pytest.raises(DeliveryError, match="this user may not add them; run as its owner: ALTER TABLE"):
        opened(Postgres(table=f"{unique}.t", dsn=another))
    table, other = (opened(Postgres(table=f"{unique}.t", dsn=dsn)) for _ in range(2))
    table.write(rows(range(10), "first", 1, "first"))
    other.write(rows(range(8, 12), "first", 1, "first"))
    table.write(rows(range(3), "second", 0, "second"))
    table.write(rows(range(12), "first", 1, "late"))  # of a consumer that has not heard of the second yet
    table.write(rows(range(2, 5), "second", 0, "second"))
    table.write(rows(range(3, 6), "second", 4, "truncated at 3"))
    table.write(rows(range(4, 7), "second", 4, "truncated at 3"))
    written = [(one["n"], one["of"]) for one in sql(f"SELECT * FROM {unique}.t")]
    assert written == [
        *((n, "first") for n in range(5, 12)),
        *((n, "second") for n in range(5)),
        *((n, "truncated at 3") for n in range(3, 7)),
    ]
    sql(f"UPDATE {unique}.gearshift_offsets SET next_offset = 4 WHERE topic_id = 'second'")  # from a backup
    with pytest.raises(DeliveryError, match=r"went back from offset 7 to 4.*restarts at offset 4") as refused:
        table.write(rows(range(7, 9), "second", 4, "behind a gap"))
    assert stops(refused)
    assert len(sql(f"SELECT * FROM {unique}.t")) == len(written)


def test_many_consumers_may_make_the_tables_at_once(dsn: str, opened: Opened, sql: Any, unique: str) -> None:
    def deliver(partition: int) -> None:
        opened(Postgres(table=f"{unique}.readings", dsn=dsn), unique).write(
            [row({"n": n}, n, partition=partition) for n in range(20)]
        )

    with ThreadPoolExecutor(8) as consumers:
        list(consumers.map(deliver, range(8)))
    assert sql(f"SELECT count(*) FROM {unique}.readings") == [{"count": 160}]


def test_a_group_that_is_forgotten_writes_its_records_again(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    table = opened(Postgres(table=unique, dsn=dsn), unique)
    table.write([row({"n": 1}, 7)])
    assert table.forget(unique, "another topic") == 0
    assert table.forget(unique) == 1
    table.write([row({"n": 2}, 0)])
    assert sorted(one["n"] for one in sql(f"SELECT n FROM {unique}")) == [1, 2]


@pytest.mark.parametrize(
    ("poison", "column"),
    [
        (reading("m1", 0, "two"), "load_kw"),
        (reading("m1", 0, None) | {"read_at": None}, "read_at"),
        (reading("m1", 0, object()), "load_kw"),
        (reading(None, 0, 1.0), "meter_id"),
        (reading("m1", 0, 99.0), "too much"),
    ],
)
def test_a_poison_row_is_refused_by_its_column_and_the_others_go_through(
    dsn: str, opened: Opened, sql: Any, unique: str, poison: dict[str, Any], column: str
) -> None:
    sql(f"CREATE TABLE {unique} (meter_id text PRIMARY KEY, read_at timestamptz NOT NULL, load_kw float)")
    sql(
        f"CREATE FUNCTION {unique}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF new.load_kw > 90 THEN RAISE 'too much'; END IF; RETURN new; END $$"
    )
    sql(f"CREATE TRIGGER limits BEFORE INSERT ON {unique} FOR EACH ROW EXECUTE FUNCTION {unique}()")
    table = opened(Postgres(table=unique, key="meter_id", dsn=dsn), unique)
    rows = [row(reading(f"m{n}", n, n), n) for n in range(8)]
    rows[5] = row(poison, 5)
    with pytest.raises(PermanentError, match=column) as refused:
        table.write(rows)
    assert unique in str(refused.value)
    assert sql(f"SELECT * FROM {unique}") == []
    refusals = 0
    for some in (rows[:5], rows[5:6], rows[6:]):  # as a worker does that looks for the one
        try:
            table.write(some)
        except PermanentError:
            refusals += 1
    assert refusals == 1
    assert {one["meter_id"] for one in sql(f"SELECT meter_id FROM {unique}")} == {
        f"m{n}" for n in range(8) if n != 5
    }


def test_a_row_that_breaks_a_rule_of_the_database_is_refused_and_the_others_go_through(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    sql(f"CREATE TABLE {unique} (meter_id text PRIMARY KEY, load_kw float, report jsonb)")
    sql(
        f"CREATE FUNCTION {unique}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF new.load_kw > 90 THEN RAISE 'above the limit' USING ERRCODE = 'MTR01'; END IF; RETURN new; END $$"
    )
    sql(f"CREATE TRIGGER limits BEFORE INSERT ON {unique} FOR EACH ROW EXECUTE FUNCTION {unique}()")
    sql(f"ALTER TABLE {unique} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    sql(f"CREATE POLICY ours ON {unique} USING (true) WITH CHECK (left(meter_id, 1) = 'm')")
    table = opened(Postgres(table=unique, key="meter_id", dsn=dsn), unique)
    poison = [
        ({"meter_id": "m1", "load_kw": 99.0}, "above the limit"),
        ({"meter_id": "x1", "load_kw": 1.0}, "row-level security"),
        ({"meter_id": "m2", "load_kw": 1.0, "report": "[" * 100_000 + "]" * 100_000}, "stack depth"),
    ]
    for offset, (values, reason) in enumerate(poison):
        with pytest.raises(PermanentError, match=reason):
            table.write([row(values, offset)])
    table.write([row({"meter_id": "m9", "load_kw": 1.0}, len(poison))])
    assert [one["meter_id"] for one in sql(f"SELECT meter_id FROM {unique}")] == ["m9"]


def test_a_table_without_a_constraint_on_the_key_is_the_tables_fault_not_a_records(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    sql(f"CREATE TABLE {unique} (meter_id text)")
    table = opened(Postgres(table=unique, key="meter_id", dsn=dsn), unique)
    with pytest.raises(DeliveryError, match=r"no unique constraint on its key; add PRIMARY KEY") as refused:
        table.write([row({"meter_id": "m1"}, 0)])
    assert not isinstance(refused.value, PermanentError | RetriableError)


def keeps_meter(record: Record[Meter]) -> list[Meter] | None: ...


def keeps_anything(record: Record[Meter]) -> Any: ...


def stops(refused: Any) -> bool:
    """Whether it stops a delivery, instead of setting a record aside or trying again."""
    return not isinstance(refused.value, PermanentError | RetriableError)


def test_a_postgres_table_that_does_not_fit_stops_the_delivery_before_its_first_record(
    dsn: str, opened: Opened, sql: Any, unique: str
) -> None:
    def check(handler: Any, says: str, **options: Any) -> None:
        table = opened(Postgres(**({"table": unique, "dsn": dsn, "create": False} | options)), unique)
        with pytest.raises(DeliveryError, match=says) as refused:
            table.check(handler, captured=False)
        assert stops(refused)

    check(keeps_anything, f"{unique} does not exist; create the table")
    opened(Postgres(table=unique, dsn=dsn, key="meter_id")).check(keeps_meter, captured=False)
    sql(f"CREATE TABLE {unique} (meter_id text, read_at timestamptz NOT NULL, load_kw float)")
    check(keeps_meter, 'different columns: column "total" of relation')
    check(keeps_anything, 'column "id" of relation', key="id")
    check(keeps_meter, "have no key column id", key="id")
    check(keeps_anything, "no unique constraint on its key", key="meter_id")
    sql(f"ALTER TABLE {unique} ADD PRIMARY KEY (meter_id)")
    sql(f"CREATE ROLE {unique} LOGIN PASSWORD 'secret'")
    sql(f"GRANT ALL ON gearshift_offsets TO {unique}")
    check(
        keeps_anything,
        "permission denied",
        key="meter_id",
        dsn=psycopg.conninfo.make_conninfo(dsn, user=unique, password="secret"),
    )
    table = opened(Postgres(table=unique, key="meter_id", dsn=dsn), unique)
    table.check(keeps_anything, captured=False)
    # What only the rows can tell stops it as well, and sets none of them aside.
    for value in (reading("m1", 0, 1.0) | {"colour": "red"}, {"meter_id": "m1"}, {"read_at": NOON}):
        with pytest.raises(DeliveryError, match=r"different columns|no key column") as refused:
            table.write([row(value, 0)])
        assert stops(refused)
    assert sql(f"SELECT * FROM {unique}") == []


def test_postgres_killed_and_started_again_loses_and_doubles_nothing(
    stores: local.Stack, opened: Opened, sql: Any, unique: str
) -> None:
    table = opened(Postgres(table=unique, dsn=stores.address("postgres")), unique)
    rows = [row({"n": n}, n) for n in range(20)]
    table.write(rows[:10])
    kill(stores, "postgres")
    for _ in range(2):  # the connection that broke, and the one that cannot be made
        with pytest.raises(RetriableError):
            table.write(rows[5:])
    stores.start_service("postgres")
    table.write(rows[5:])
    assert [one["n"] for one in sql(f"SELECT n FROM {unique} ORDER BY n")] == [*range(20)]


@pytest.mark.parametrize(
    "form", ["postgresql://gearshift:{}@{}/gearshift", "postgres//gearshift:{}@{}/x y=z"]
)
def test_a_wrong_password_is_said_without_showing_it(stores: local.Stack, form: str) -> None:
    port = next(service.port for service in stores.services if service.name == "postgres")
    table = Postgres(table="meters", dsn=form.format("hunter2", f"127.0.0.1:{port}"))
    with pytest.raises(DeliveryError) as refused:
        table.open("group")
    assert not isinstance(refused.value, RetriableError)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value)) + repr(table)
    assert "PostgreSQL" in str(refused.value)


def test_a_server_that_is_not_there_may_come_later() -> None:
    port = closed_port()
    with pytest.raises(RetriableError, match=f"cannot connect to PostgreSQL at 127.0.0.1:{port}"):
        Postgres(table="t", dsn=f"postgresql://ann@127.0.0.1:{port}/x").open("group")
    with pytest.raises(RetriableError, match=f"cannot connect to Cassandra at 127.0.0.1:{port}"):
        Cassandra(table="k.t", key="a", event_time="b", contact_points=f"127.0.0.1:{port}").open("group")


@pytest.fixture
def meters(stores: local.Stack, unique: str) -> Callable[..., Cassandra]:
    return lambda **options: Cassandra(
        table=f"{unique}.meters",
        key="meter_id",
        event_time="read_at",
        contact_points=stores.address("cassandra"),
        **options,
    )


def test_cassandra_makes_a_table_of_the_dataclass_and_upserts_by_key(
    meters: Any, opened: Opened, cql: Any, unique: str
) -> None:
    table = opened(meters())
    table.write([row(METER, 0), row(reading("m2", 1, 2.0), 1), row(None, 2)])
    found = {one.meter_id: one._asdict() for one in cql(f"SELECT * FROM {unique}.meters")}
    assert found["m1"] == {
        "meter_id": "m1",
        "read_at": NOON.replace(tzinfo=None),
        "load_kw": 2.5,
        "total": 1 << 40,
        "price": Decimal("12.34"),
        "installed": found["m1"]["installed"],
        "phase": "three",
        "open": True,
        "seal": b"\0\1",
        "peaks": [1.5, 2.5],
        "spot": '{"floor": 3, "room": "B"}',
        "note": None,
    }
    assert found["m1"]["installed"].date() == date(2020, 2, 29)
    assert (found["m2"]["load_kw"], found["m2"]["total"]) == (2.0, None)


def test_the_last_event_wins_in_cassandra_whatever_the_order(
    meters: Any, opened: Opened, cql: Any, unique: str
) -> None:
    first, second = opened(meters()), opened(meters())

    def load_of(meter: str) -> Any:
        return next(
            (one.load_kw for one in cql(f"SELECT * FROM {unique}.meters") if one.meter_id == meter), None
        )

    first.write([row(reading("m1", 9, 9.0), 9), row(reading("m1", 3, 3.0), 3)])
    second.write([row(reading("m1", 5, 5.0), 5)])  # late, or from a consumer that was frozen
    assert load_of("m1") == 9.0
    first.write([row(reading("m1", 9, 9.0), 9)])
    second.write([row(Delete(meter_id="m1", read_at=NOON + timedelta(seconds=8)), 8)])
    assert load_of("m1") == 9.0
    second.write([row(Delete(meter_id="m1", read_at=NOON + timedelta(seconds=10)), 10)])
    first.write([row(reading("m1", 9, 9.0), 9)])
    assert load_of("m1") is None
    first.write([row(reading("m1", 10.000001, 10.5), 11)])
    assert load_of("m1") == 10.5
    many = [row(reading("m2", n, float(n)), n) for n in range(500)]
    first.write(many[::-1])
    assert load_of("m2") == 499.0


@pytest.mark.parametrize(
    ("poison", "column"),
    [
        (reading("m1", 0, "two"), "load_kw"),
        (reading("m1", 0, 1.0) | {"total": 1 << 70}, "total"),
        (reading("m1", 0, 1.0) | {"read_at": datetime(2026, 1, 1)}, "read_at"),  # noqa: DTZ001
        (reading(None, 0, 1.0), "meter_id"),
    ],
)
def test_a_poison_row_is_refused_by_cassandra_with_its_column(
    meters: Any, opened: Opened, cql: Any, unique: str, poison: dict[str, Any], column: str
) -> None:
    table = opened(meters())
    table.write([row(METER, 0)])
    with pytest.raises(PermanentError, match=column) as refused:
        table.write([row(reading("m2", 0, 1.0), 1), row(poison, 2)])
    assert f"{unique}.meters" in str(refused.value)
    table.write([row(reading("m2", 0, 1.0), 1)])
    assert len(cql(f"SELECT * FROM {unique}.meters")) == 2


def test_a_cassandra_table_that_does_not_fit_stops_the_delivery_before_its_first_record(
    stores: local.Stack, meters: Any, opened: Opened, cql: Any, unique: str
) -> None:
    def check(handler: Any, says: str, **options: Any) -> None:
        wanted = {"key": "meter_id", "event_time": "read_at", "create": False} | options
        table = Cassandra(table=f"{unique}.meters", contact_points=stores.address("cassandra"), **wanted)
        with pytest.raises(DeliveryError, match=says) as refused:
            opened(table).check(handler, captured=False)
        assert stops(refused)

    check(keeps_anything, "has no event_time, .*; name the column", event_time=None)
    check(keeps_meter, "no event_time column at", event_time="at")
    check(keeps_meter, "no key column id", key="id")
    check(keeps_anything, "does not exist; create the table")
    table = opened(meters())
    table.check(keeps_meter, captured=False)
    table.write([row(reading("m1", 0, 1.0), 0)])
    check(keeps_meter, "meters has no column total")
    check(keeps_anything, "meters has no column at", event_time="at")
    for value in (reading("m1", 0, 1.0) | {"colour": "red"}, {"meter_id": "m1"}, {"read_at": NOON}):
        with pytest.raises(DeliveryError, match=r"colour|no event_time column|no key column") as refused:
            table.write([row(value, 0)])
        assert stops(refused)
    copy = Cassandra(table=f"{unique}.copy", key="id", contact_points=stores.address("cassandra"))
    opened(copy).check(keeps_anything, captured=True)


def test_a_cassandra_that_answers_late_is_waited_for(
    stores: local.Stack, meters: Any, opened: Opened, unique: str
) -> None:
    pid = next(service.pid for service in stores.services if service.name == "cassandra")
    pid.send(signal.SIGSTOP)
    wakes = Timer(4, pid.send, [signal.SIGCONT])  # the driver's usual patience is 2 s
    wakes.start()
    try:
        opened(meters()).write([row(reading("m1", 0, 1.0), 0)])
    finally:
        wakes.join()


def test_cassandra_killed_and_started_again_keeps_what_it_acknowledged(
    stores: local.Stack, meters: Any, opened: Opened, unique: str
) -> None:
    table = opened(meters())
    table.write([row(reading(f"m{n}", n, float(n)), n) for n in range(100)])
    kill(stores, "cassandra")
    with pytest.raises(RetriableError, match=r"Cassandra at 127\.0\.0\.1"):
        table.write([row(reading("m0", 200, 1.0), 200)])
    stores.start_service("cassandra")

    def again() -> bool:
        try:
            table.write([row(reading("m100", 100, 100.0), 100)])
        except RetriableError:
            return False
        return True

    eventually(again)
    cluster, session = connect(ContactPoints.read(stores.address("cassandra")), name="test")
    found = {one.meter_id for one in session.execute(f"SELECT meter_id FROM {unique}.meters")}
    cluster.shutdown()
    assert found == {f"m{n}" for n in range(101)}


def test_destinations_without_an_address_find_the_settings_and_the_local_stack(
    stores: local.Stack, tmp_path: Any
) -> None:
    from gearshift.errors import StackError
    from gearshift.settings import load

    own = load({"home": tmp_path, "postgres": stores.address("postgres")}, environ={})
    table = Postgres(table="meters", key="meter_id")
    assert table.needs == "postgres"
    table.locate(own)
    table.open("group")
    table.close()
    with pytest.raises(StackError, match=r"no cassandra is running in (?s:.*)gearshift up --with cassandra"):
        other = Cassandra(table="k.t", key="a", event_time="b")
        other.locate(own)
        other.open("group")


def test_cassandra_over_tls_with_a_certificate_of_our_own(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = certificate(tmp_path)
    keys, trusted = java_stores(pem, "changeit")
    configuration = node.Cassandra._configuration  # pyright: ignore[reportPrivateUsage]
    encrypted = {
        "enabled": True,
        "optional": True,  # the stack itself looks in the clear whether it is up
        "keystore": str(keys),
        "keystore_password": "changeit",
        "truststore": str(trusted),
        "truststore_password": "changeit",
        "store_type": "PKCS12",
        "require_client_auth": True,
    }
    monkeypatch.setattr(
        node.Cassandra,
        "_configuration",
        lambda *args: {**configuration(*args), "client_encryption_options": encrypted},
    )
    settings = load(
        {
            "home": tmp_path / "home",
            "bootstrap_servers": "127.0.0.1:1",
            "registry_url": "http://127.0.0.1:1",
            "services": "cassandra",
        },
        environ={},
    )
    with local.up(settings) as running:
        address = running.address("cassandra")

        def meters(tls: str) -> Cassandra:
            return Cassandra(
                table=f"{unique}.meters",
                key="meter_id",
                event_time="read_at",
                contact_points=f"{address}?{tls}",
            )

        with pytest.raises(RetriableError, match="is not trusted for this address"):
            meters("tls=true").open("g")
        with pytest.raises(RetriableError, match="cannot connect to Cassandra"):
            meters(f"ca={pem}").open("g")  # the node asks for our certificate
        table = meters(f"ca={pem}&cert={pem}")
        table.open("tls-group")
        table.write([row(METER, 0)])
        cluster, session = connect(ContactPoints.read(address), name="plain")
        [found] = session.execute(f"SELECT load_kw FROM {unique}.meters")
        cluster.shutdown()
        table.close()
    assert found.load_kw == METER.load_kw
