"""The SQL statements of the PostgreSQL destination, with quoted identifiers and numbered placeholders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg.sql import SQL, Composed, Identifier, Literal

from gearshift.destinations.rows import Json, Kind, Many
from gearshift.schemas.shapes import DecimalOf, Scalar

OFFSETS = "gearshift_offsets"
# A consumer suspended in a transaction locks the row of its partition until the first of these timeouts.
_TIMEOUTS = {"idle_in_transaction_session_timeout": "15s", "lock_timeout": "20s", "statement_timeout": "60s"}
_TYPES = {
    Scalar.STRING: "text",
    Scalar.LONG: "bigint",
    Scalar.DOUBLE: "double precision",
    Scalar.BOOLEAN: "boolean",
    Scalar.BYTES: "bytea",
    Scalar.TIMESTAMP: "timestamptz",
    Scalar.DATE: "date",
}


def sql_type(kind: Kind) -> str:
    """The SQL type of a column.

    >>> sql_type(Many(Scalar.LONG)), sql_type(DecimalOf(12, 2)), sql_type(Json())
    ('bigint[]', 'numeric(12, 2)', 'jsonb')
    """
    if isinstance(kind, Json):
        return "jsonb"
    if isinstance(kind, Many):
        return f"{sql_type(kind.of)}[]"
    if isinstance(kind, DecimalOf):
        # Without a declared precision a column keeps every digit.
        return "numeric" if kind == DecimalOf() else f"numeric({kind.precision}, {kind.scale})"
    return _TYPES[kind]


def create_schema(name: str) -> Composed:
    """Create a schema if it is missing."""
    return SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(name))


def create_offsets(table: Identifier) -> Composed:
    """Create the offsets table."""
    return SQL(
        # last_index is that of the last row written: one record may have several rows.
        "CREATE TABLE IF NOT EXISTS {} (group_id text, topic text, partition integer, next_offset bigint NOT NULL, "
        "last_index integer NOT NULL, topic_id text NOT NULL DEFAULT '', leader_epoch integer NOT NULL DEFAULT -1, "
        # Changes of a captured table from before this position are void.
        "since bigint NOT NULL DEFAULT 0, "
        "PRIMARY KEY (group_id, topic, partition, topic_id))"
    ).format(table)


FIND_COLUMN = "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2"


def migrations(table: Identifier) -> dict[str, Composed]:
    """How to add the columns that older offsets tables lack, by the column to look for."""
    return {
        "topic_id": SQL(
            "ALTER TABLE {} ADD COLUMN topic_id text NOT NULL DEFAULT '', "
            "ADD COLUMN leader_epoch integer NOT NULL DEFAULT -1, DROP CONSTRAINT {}, "
            "ADD PRIMARY KEY (group_id, topic, partition, topic_id)"
        ).format(table, Identifier(f"{OFFSETS}_pkey")),
        "since": SQL("ALTER TABLE {} ADD COLUMN since bigint NOT NULL DEFAULT 0").format(table),
    }


def adopt(offsets: Identifier) -> Composed:
    """Set the current topic id on offsets that were stored without one."""
    return SQL(
        "UPDATE {0} SET topic_id = $4 WHERE group_id = $1 AND topic = $2 AND partition = $3 AND topic_id = '' "
        "AND NOT EXISTS (SELECT FROM {0} AS other WHERE other.group_id = $1 AND other.topic = $2 "
        "AND other.partition = $3 AND other.topic_id = $4)"
    ).format(offsets)


def create_table(table: Identifier, columns: Mapping[str, Kind], key: Sequence[str]) -> Composed:
    """Create a table with these columns."""
    parts = [SQL("{} {}").format(Identifier(name), SQL(sql_type(kind))) for name, kind in columns.items()]  # pyright: ignore[reportArgumentType]
    if key:
        parts.append(SQL("PRIMARY KEY ({})").format(_listed(key)))
    return SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table, SQL(", ").join(parts))


def set_timeouts() -> Composed:
    """Set the timeouts of this transaction."""
    limits = [
        SQL("set_config({}, {}, true)").format(Literal(name), Literal(value))
        for name, value in _TIMEOUTS.items()
    ]
    return SQL("SELECT {}").format(SQL(", ").join(limits))


def lock(offsets: Identifier) -> Composed:
    """Lock the row of a partition, new or known: its leader epoch, next offset, last index and since when changes are valid."""
    return SQL(
        "INSERT INTO {} AS known (group_id, topic, partition, topic_id, next_offset, last_index) "
        "VALUES ($1, $2, $3, $4, 0, 0) "
        "ON CONFLICT (group_id, topic, partition, topic_id) DO UPDATE SET next_offset = known.next_offset "
        "RETURNING leader_epoch, next_offset, last_index, since"
    ).format(offsets)


def find(offsets: Identifier) -> Composed:
    """Select the leader epoch, next offset and last index of a partition."""
    return SQL(
        "SELECT leader_epoch, next_offset, last_index FROM {} "
        "WHERE group_id = $1 AND topic = $2 AND partition = $3 AND topic_id = $4"
    ).format(offsets)


def advance(offsets: Identifier) -> Composed:
    """Set the leader epoch, next offset, last index and since when changes are valid."""
    return SQL(
        "UPDATE {} SET leader_epoch = $5, next_offset = $6, last_index = $7, since = $8 "
        "WHERE group_id = $1 AND topic = $2 AND partition = $3 AND topic_id = $4"
    ).format(offsets)


def forget(offsets: Identifier) -> Composed:
    """Delete the offsets of a group, or of one of its topics."""
    return SQL("DELETE FROM {} WHERE group_id = $1 AND ($2::text IS NULL OR topic = $2)").format(offsets)


def upsert(table: Identifier, columns: Sequence[str], key: Sequence[str]) -> Composed:
    """Insert a row, or update the row with the same key.

    >>> upsert(Identifier("meters"), ("id", "kw"), ("id",)).as_string()
    'INSERT INTO "meters" ("id", "kw") VALUES ($1, $2) ON CONFLICT ("id") DO UPDATE SET "kw" = EXCLUDED."kw"'
    """
    marks = SQL(", ").join(_mark(number) for number in range(1, len(columns) + 1))
    return _insert(table, columns, SQL("VALUES ({})").format(marks), key)


def _insert(table: Identifier, columns: Sequence[str], values: Composed, key: Sequence[str]) -> Composed:
    insert = SQL("INSERT INTO {} ({}) {}").format(table, _listed(columns), values)
    if not key:
        return insert
    others = [SQL("{0} = EXCLUDED.{0}").format(Identifier(name)) for name in columns if name not in key]
    what = SQL("UPDATE SET {}").format(SQL(", ").join(others)) if others else SQL("NOTHING")
    return SQL("{} ON CONFLICT ({}) DO {}").format(insert, _listed(key), what)


def nothing(table: Identifier, columns: Sequence[str], key: Sequence[str]) -> Composed:
    """Upsert no row: fails like `upsert` if the table, a column, a constraint or a privilege is missing.

    >>> nothing(Identifier("meters"), ("id", "kw"), ("id",)).as_string()
    'INSERT INTO "meters" ("id", "kw") SELECT NULL, NULL WHERE false ON CONFLICT ("id") DO UPDATE SET "kw" = EXCLUDED."kw"'
    """
    values = SQL("SELECT {} WHERE false").format(SQL(", ").join([SQL("NULL")] * len(columns)))
    return _insert(table, columns, values, key)


def delete(table: Identifier, key: Sequence[str]) -> Composed:
    """Delete the row with a key; without a key all rows.

    >>> delete(Identifier("meters"), ("id",)).as_string()
    'DELETE FROM "meters" WHERE "id" = $1'
    >>> delete(Identifier("meters"), ()).as_string()
    'DELETE FROM "meters"'
    """
    if not key:
        return SQL("DELETE FROM {}").format(table)
    equal = [SQL("{} = {}").format(Identifier(name), _mark(number)) for number, name in enumerate(key, 1)]
    return SQL("DELETE FROM {} WHERE {}").format(table, SQL(" AND ").join(equal))


def _mark(number: int) -> SQL:
    return SQL(f"${number}")  # pyright: ignore[reportArgumentType]


def _listed(names: Sequence[str]) -> Composed:
    return SQL(", ").join(Identifier(name) for name in names)
