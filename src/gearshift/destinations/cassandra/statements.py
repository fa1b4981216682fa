"""The CQL statements of the Cassandra destination, with quoted identifiers and bound values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gearshift.destinations.rows import Json, Kind, Many
from gearshift.schemas.shapes import DecimalOf, Scalar

FIND_KEYSPACE = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s"
FIND_TABLE = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s"
FIND_COLUMNS = (
    "SELECT column_name, kind, type FROM system_schema.columns WHERE keyspace_name = %s AND table_name = %s"
)
BEGINNINGS = "gearshift_beginnings"
"""Since which position the changes of a topic are valid in a copy; earlier ones are void."""
_TYPES = {
    Scalar.STRING: "text",
    Scalar.LONG: "bigint",
    Scalar.DOUBLE: "double",
    Scalar.BOOLEAN: "boolean",
    Scalar.BYTES: "blob",
    Scalar.TIMESTAMP: "timestamp",
    Scalar.DATE: "date",
}


def quoted(name: str) -> str:
    """Quote an identifier.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def cql_type(kind: Kind) -> str:
    """The CQL type of a column.

    >>> cql_type(Many(Scalar.LONG)), cql_type(DecimalOf()), cql_type(Json())
    ('frozen<list<bigint>>', 'decimal', 'text')
    """
    if isinstance(kind, Json):
        return "text"
    if isinstance(kind, Many):
        # A non-frozen list that is written twice with the same timestamp has each item twice.
        return f"frozen<list<{cql_type(kind.of)}>>"
    return "decimal" if isinstance(kind, DecimalOf) else _TYPES[kind]


def create_keyspace(keyspace: str, replication: int | Mapping[str, int]) -> str:
    """Create a keyspace with a replication factor, or one for each datacenter.

    >>> create_keyspace("power", {"dc1": 3})
    'CREATE KEYSPACE IF NOT EXISTS "power" WITH replication = {\\'class\\': \\'NetworkTopologyStrategy\\', \\'dc1\\': 3}'
    """
    if isinstance(replication, int):
        options = f"'class': 'SimpleStrategy', 'replication_factor': {replication:d}"
    else:
        copies = ", ".join(
            f"'{name.replace(chr(39), chr(39) * 2)}': {count:d}" for name, count in replication.items()
        )
        options = f"'class': 'NetworkTopologyStrategy', {copies}"
    return f"CREATE KEYSPACE IF NOT EXISTS {quoted(keyspace)} WITH replication = {{{options}}}"


def create_table(keyspace: str, table: str, columns: Mapping[str, Kind], key: Sequence[str]) -> str:
    """Create a table, partitioned by the first column of its key and clustered by the others."""
    typed = ", ".join(f"{quoted(name)} {cql_type(kind)}" for name, kind in columns.items())
    return f"CREATE TABLE IF NOT EXISTS {quoted(keyspace)}.{quoted(table)} ({typed}, PRIMARY KEY ({_listed(key)}))"


def create_beginnings(keyspace: str) -> str:
    """Make the table that says since when the rows of copies are valid."""
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(keyspace)}.{BEGINNINGS} "
        "(copy text, topic text, since bigint, PRIMARY KEY (copy, topic))"
    )


def find_beginning(keyspace: str) -> str:
    """The position since which a topic's changes are valid in a copy."""
    return f"SELECT since FROM {quoted(keyspace)}.{BEGINNINGS} WHERE copy = ? AND topic = ?"


def set_beginning(keyspace: str) -> str:
    """Set that position; of two the higher stays."""
    return (
        f"INSERT INTO {quoted(keyspace)}.{BEGINNINGS} (copy, topic, since) VALUES (?, ?, ?) USING TIMESTAMP ?"
    )


def upsert(keyspace: str, table: str, columns: Sequence[str]) -> str:
    """Insert a row with a write timestamp.

    >>> upsert("power", "meters", ("id", "kw"))
    'INSERT INTO "power"."meters" ("id", "kw") VALUES (?, ?) USING TIMESTAMP ?'
    """
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {quoted(keyspace)}.{quoted(table)} ({_listed(columns)}) VALUES ({marks}) USING TIMESTAMP ?"


def write_times(keyspace: str, table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    """When columns of a row were written.

    >>> write_times("power", "meters", ("at", "kw"), ("id",))
    'SELECT WRITETIME("at"), WRITETIME("kw") FROM "power"."meters" WHERE "id" = ?'
    """
    times = ", ".join(f"WRITETIME({quoted(name)})" for name in columns)
    equal = " AND ".join(f"{quoted(name)} = ?" for name in key)
    return f"SELECT {times} FROM {quoted(keyspace)}.{quoted(table)} WHERE {equal}"


def delete(keyspace: str, table: str, key: Sequence[str]) -> str:
    """Delete a row with a write timestamp.

    >>> delete("power", "meters", ("id",))
    'DELETE FROM "power"."meters" USING TIMESTAMP ? WHERE "id" = ?'
    """
    equal = " AND ".join(f"{quoted(name)} = ?" for name in key)
    return f"DELETE FROM {quoted(keyspace)}.{quoted(table)} USING TIMESTAMP ? WHERE {equal}"


def delete_partitions(keyspace: str, table: str, key: str) -> str:
    """Delete the rows of a list of partitions with a write timestamp.

    >>> delete_partitions("power", "meters", "id")
    'DELETE FROM "power"."meters" USING TIMESTAMP ? WHERE "id" IN ?'
    """
    return f"DELETE FROM {quoted(keyspace)}.{quoted(table)} USING TIMESTAMP ? WHERE {quoted(key)} IN ?"


def partitions(keyspace: str, table: str, key: str) -> str:
    """Select the partitions of a table.

    >>> partitions("power", "meters", "id")
    'SELECT DISTINCT "id" FROM "power"."meters"'
    """
    return f"SELECT DISTINCT {quoted(key)} FROM {quoted(keyspace)}.{quoted(table)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in names)
