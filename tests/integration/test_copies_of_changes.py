"""Copies of a captured table, whatever order its topic has them in: records written onto the topic directly."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
import pytest

import gearshift as gs
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.schemas.debezium.events import EPOCH_FIELD
from gearshift.topics import Admin, Producer
from tests.integration.test_deliveries_to_stores import running
from tests.support import eventually

OLD, NEW = 1_772_000_000_000_000, 1_772_000_600_000_000
"""Epochs: microseconds in which snapshots began."""
Store = Literal["cassandra", "postgres"]
STORES: tuple[Store, ...] = ("cassandra", "postgres")


@dataclass(frozen=True)
class Item:
    id: int
    name: str | None


class Copy:
    """A topic of changes, and a delivery that keeps a copy of its table."""

    def __init__(self, store: Store, name: str, connection: Connection, stores: local.Stack) -> None:
        self._app, self._connection, self._name = gs.App(name), connection, name
        self._topic = self._app.topic(f"{name}.public.items", value=Item, envelope="debezium", format="json")
        with Admin(connection) as admin:
            admin.ensure([self._topic])
        address = stores.address(store)
        target: Any = (
            gs.destinations.Cassandra(table=f"{name}.items", key="id", contact_points=address)
            if store == "cassandra"
            else gs.destinations.Postgres(table=f"{name}.items", key="id", dsn=address)
        )

        @self._app.delivery(self._topic, to=target)
        def copy(record: gs.Record[gs.Change[Item]]) -> gs.Change[Item]:
            return record.value

        self._store, self._address, self._sent = store, address, 0

    def send(self, *envelopes: dict[str, Any]) -> None:
        with Producer(self._connection) as producer:
            for envelope in envelopes:
                row = envelope.get("after") or envelope.get("before")
                key = None if row is None else json.dumps({"id": row["id"]}).encode()
                producer.send_bytes(self._topic.name, json.dumps(envelope).encode(), key=key)
                self._sent += 1

    def deliver(self) -> None:
        """Run a consumer of its own until it has committed all that was sent."""
        group = f"{self._name}.copy"
        with Admin(self._connection) as admin, running(self._app, self._connection, "copy"):
            eventually(lambda: sum(admin.group_offsets(group, [self._topic.name]).values()) == self._sent)

    def read_again_from(self, offset: int) -> None:
        with Admin(self._connection) as admin:
            admin.commit_group(f"{self._name}.copy", {(self._topic.name, 0): offset})

    def rows(self) -> dict[int, str | None]:
        if self._store == "postgres":
            with psycopg.connect(self._address) as database:
                return dict(database.execute(f"SELECT id, name FROM {self._name}.items".encode()))
        return dict(self.cql(f'SELECT id, name FROM "{self._name}".items'))

    def cql(self, statement: str) -> list[Any]:
        cluster, session = connect(ContactPoints.read(self._address), name="test")
        try:
            return list(session.execute(statement))
        finally:
            cluster.shutdown()


def change(op: str, id_: int, name: str | None, epoch: int, snapshot: str = "false") -> dict[str, Any]:
    row = {"id": id_, "name": name}
    return {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "op": op,
        "source": {"connector": "mariadb", "snapshot": snapshot},
        EPOCH_FIELD: str(epoch),
    }


def truncate(epoch: int) -> dict[str, Any]:
    return {"op": "t", "source": {}, EPOCH_FIELD: str(epoch)}


@pytest.fixture(params=STORES)
def copy(request: pytest.FixtureRequest, connection: Connection, stores: local.Stack, unique: str) -> Copy:
    return Copy(request.param, unique, connection, stores)


@pytest.fixture
def in_cassandra(connection: Connection, stores: local.Stack, unique: str) -> Copy:
    return Copy("cassandra", unique, connection, stores)


Between = Callable[[Copy], None]


def _nothing(copy: Copy) -> None:
    pass


def _a_restart(copy: Copy) -> None:
    copy.deliver()


@pytest.mark.parametrize("between", [_nothing, _a_restart])
def test_what_an_old_connector_sends_behind_the_truncate_of_a_new_snapshot_is_void(
    copy: Copy, between: Between
) -> None:
    copy.send(change("c", 1, "old", OLD), change("c", 2, "old", OLD))
    between(copy)
    copy.send(truncate(NEW))
    between(copy)
    # A connector that had not stopped yet: its rows went before the snapshot, which does not have them.
    copy.send(change("c", 8, "late", OLD), change("u", 1, "late", OLD))
    between(copy)
    copy.send(change("r", 2, "new", NEW, "first"), change("r", 3, "new", NEW, "last"))
    copy.deliver()
    assert copy.rows() == {2: "new", 3: "new"}


def test_an_old_connector_takes_back_nothing_of_a_new_snapshot(copy: Copy) -> None:
    copy.send(change("c", 1, "old", OLD), truncate(NEW))
    copy.send(change("r", 1, "new", NEW, "first"), change("r", 2, "new", NEW, "last"))
    copy.send(change("d", 1, "old", OLD), change("u", 2, "old", OLD), truncate(OLD))
    copy.deliver()
    assert copy.rows() == {1: "new", 2: "new"}


def test_a_snapshot_that_the_connector_takes_again_by_itself_is_all_there_is(copy: Copy) -> None:
    rows = [change("r", id_, "first try", OLD, "true") for id_ in range(2, 700)]
    copy.send(change("r", 1, "first try", OLD, "first"), *rows)
    copy.deliver()
    # Killed before it had kept how far it was: rows 2 to 699 were deleted in the meantime.
    copy.send(change("r", 1, "again", OLD, "first"), change("r", 700, "again", OLD, "last"))
    copy.deliver()
    assert copy.rows() == {1: "again", 700: "again"}


def test_a_truncate_that_comes_again_takes_nothing_that_came_after_it(copy: Copy) -> None:
    copy.send(change("c", 1, "old", OLD), truncate(OLD), change("c", 2, "kept", OLD), truncate(NEW))
    copy.send(change("r", 3, "new", NEW, "first"), change("c", 4, "new", NEW))
    copy.deliver()
    for offset in (0, 1, 3, 4):
        copy.read_again_from(offset)
        copy.deliver()
        assert copy.rows() == {3: "new", 4: "new"}


def test_a_truncate_is_finished_by_the_next_consumer_where_the_last_one_died_in_the_middle(
    in_cassandra: Copy, unique: str
) -> None:
    copy = in_cassandra
    copy.send(*(change("c", id_, "old", OLD) for id_ in range(700)))
    copy.deliver()
    copy.cql(f'DELETE FROM "{unique}".items USING TIMESTAMP {NEW + 700} WHERE id IN (0, 1, 2)')
    copy.send(truncate(NEW), change("r", 1, "new", NEW, "first"))
    copy.deliver()
    assert copy.rows() == {1: "new"}
