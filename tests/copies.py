"""Tables in PostgreSQL and MariaDB, with three copies of each: in the warehouse, in Cassandra and in another PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import psycopg
import pymysql
from cassandra import InvalidRequest
from pyspark.sql import DataFrame

import gearshift as gs
from gearshift import stack as local
from gearshift import tables
from gearshift.definitions import DatabaseKind
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.settings import Settings
from gearshift.sources.cdc.databases import Database


@dataclass(frozen=True)
class Item:
    id: int
    name: str
    amount: Annotated[Decimal, gs.DecimalOf(12, 2)] | None
    seen: datetime | None
    body: str | None
    data: bytes | None


@dataclass(frozen=True)
class Tagged(Item):
    tags: list[str] | None


COLUMNS = {
    "postgres": "id bigint PRIMARY KEY, name text NOT NULL, amount numeric(12,2), seen timestamptz(3), body text, data bytea",
    "mariadb": "id bigint PRIMARY KEY, name text NOT NULL, amount decimal(12,2), seen timestamp(3) NULL, body longtext, data longblob",
}
SCHEMA = {"postgres": "public", "mariadb": "gearshift"}
ROWS: dict[DatabaseKind, type[Any]] = {"postgres": Tagged, "mariadb": Item}


class Source:
    """The table items of a database of the stack; every statement commits."""

    def __init__(self, kind: DatabaseKind, stack: local.Stack) -> None:
        self.kind: DatabaseKind = kind
        self.stack = stack
        self.names = ", ".join(field.name for field in fields(ROWS[kind]))

    def create(self) -> None:
        tags = ", tags text[]" if self.kind == "postgres" else ""
        self.run(f"CREATE TABLE items ({COLUMNS[self.kind]}{tags})")
        if self.kind == "postgres":  # so that what is a few kB long is a large value already
            for column in ("body", "data", "tags"):
                self.run(f"ALTER TABLE items ALTER {column} SET STORAGE EXTERNAL")

    def run(self, *statements: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run statements in one transaction; the rows of the last."""
        with self._connected() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, values or None)
            found = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return found

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.run(f"SELECT {self.names} FROM items ORDER BY id")
        return [_told(row) for row in found]

    def _connected(self) -> Any:
        if self.kind == "postgres":
            return psycopg.connect(self.stack.address("postgres"))
        at = Database.read(self.stack.address("mariadb"), "mariadb")
        return pymysql.connect(
            host=at.host, port=at.port, user=at.user, password=at.password or "", database=at.name
        )


class Copies:
    """What the copies of a source hold; None where one is not there yet."""

    def __init__(self, source: Source, settings: Settings, stores: local.Stack, session: Any) -> None:
        self.source, self._settings, self._stores, self._session = source, settings, stores, session

    def equal(self) -> bool:
        """Whether each has the very rows of the source, each once."""
        truth = self.source.rows()
        return all(copy == truth for copy in self.found().values())

    def found(self) -> dict[str, list[tuple[Any, ...]] | None]:
        return {"table": self._table(), "cassandra": self._cassandra(), "postgres": self._postgres()}

    def _table(self) -> list[tuple[Any, ...]] | None:
        name = f"items_{self.source.kind}"
        if not tables.exists(tables.table_uri(self._settings.warehouse_uri, name)):
            return None
        query = f"SELECT {self.source.names} FROM {name} ORDER BY id"
        return [_told(row) for row in tables.sql(self._settings.warehouse_uri, query).rows]

    def _cassandra(self) -> list[tuple[Any, ...]] | None:
        names = ", ".join(f'"{name}"' for name in self.source.names.split(", "))
        query = f"SELECT {names} FROM copies.items_{self.source.kind}"
        try:
            return sorted((_told(row) for row in self._session.execute(query)), key=lambda row: row[0])
        except InvalidRequest:  # it is made with the first row
            return None

    def _postgres(self) -> list[tuple[Any, ...]] | None:
        name = f"copies.items_{self.source.kind}"
        with psycopg.connect(self._stores.address("postgres")) as connection:
            if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
                return None
            query = f"SELECT {self.source.names} FROM {name} ORDER BY id"
            return [_told(row) for row in connection.execute(query.encode())]


def declared(kinds: Sequence[DatabaseKind], stores: local.Stack) -> gs.App:
    """An app that copies the table items of each database."""
    app = gs.App("copies")
    for kind in kinds:
        _declare(app, kind, stores)
    return app


def _declare(app: gs.App, kind: DatabaseKind, stores: local.Stack) -> None:
    row, table = ROWS[kind], f"{SCHEMA[kind]}.items"
    topic = app.cdc(f"{kind}-db", tables={table: row}, database=kind).topics[table]
    current = app.table(f"items_{kind}", key="id", sequence_by="_position", deleted="_deleted")
    cassandra = gs.destinations.Cassandra(
        table=f"copies.items_{kind}", key="id", contact_points=stores.address("cassandra")
    )
    postgres = gs.destinations.Postgres(
        table=f"copies.items_{kind}", key="id", dsn=stores.address("postgres")
    )

    def keep(items: DataFrame) -> DataFrame:
        return items

    def to_cassandra(record: gs.Record[gs.Change[Any]]) -> gs.Change[Any]:
        return record.value

    def to_postgres(record: gs.Record[gs.Change[Any]]) -> gs.Change[Any]:
        return record.value

    for function in (keep, to_cassandra, to_postgres):
        function.__name__ += f"_{kind}"
    app.pipeline(source=topic, to=current, as_of="latest", freshness="10 seconds")(keep)
    app.delivery(topic, to=cassandra)(to_cassandra)
    app.delivery(topic, to=postgres)(to_postgres)


def session_of(stores: local.Stack) -> tuple[Any, Any]:
    """A cluster of Cassandra's driver and its session."""
    return connect(ContactPoints.read(stores.address("cassandra")), name="test of copies")


def _told(row: Any) -> tuple[Any, ...]:
    return tuple(
        value.astimezone(UTC)
        if isinstance(value, datetime) and value.tzinfo
        else value.replace(tzinfo=UTC)
        if isinstance(value, datetime)
        else list(value)
        if isinstance(value, tuple)
        else value
        for value in row
    )


def big(letter: str) -> str:
    """A text that a database keeps outside of its row."""
    return letter * 20_000
