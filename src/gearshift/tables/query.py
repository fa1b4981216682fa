"""Asking a warehouse in SQL with DuckDB: every table by its name, committed rows only, no Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, cast

import duckdb
from deltalake.exceptions import DeltaError

from gearshift.errors import TableError
from gearshift.location import StorageOptions, as_uri, local_path, name_of, nearest, table_uri
from gearshift.tables.snapshot import exists, open_table, snapshot_of
from gearshift.tables.store import Store

_UNREADABLE = ("Invalid unicode", "Invalid UTF", "out of range", "utf-8")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query answers: names, DuckDB's types and rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def dicts(self) -> list[dict[str, Any]]:
        """The rows by column name.

        >>> Answer(("n",), ("INTEGER",), ((1,), (2,))).dicts()
        [{'n': 1}, {'n': 2}]
        """
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def names(warehouse_uri: str, *, storage_options: StorageOptions = None) -> tuple[str, ...]:
    """The tables of a warehouse, by name."""
    _require_readable(warehouse_uri)
    try:
        folders = Store(warehouse_uri, storage_options).folders()
    except (OSError, DeltaError):  # a folder that is not there yet holds no tables
        return ()
    return tuple(
        folder
        for folder in folders
        if exists(table_uri(warehouse_uri, folder), storage_options=storage_options)
    )


def find(warehouse_uri: str, name: str, *, storage_options: StorageOptions = None) -> str:
    """The URI of a table that is there, by its name."""
    known = names(warehouse_uri, storage_options=storage_options)
    if name not in known:
        close = get_close_matches(name, known, 1)
        raise TableError(
            f"no table {name} in {as_uri(warehouse_uri)}",
            hint=f"did you mean {close[0]}?" if close else f"the tables are {', '.join(known) or 'none yet'}",
        )
    return table_uri(warehouse_uri, name)


def sql(
    warehouse_uri: str,
    query: str,
    *,
    as_of: datetime | None = None,
    storage_options: StorageOptions = None,
) -> Answer:
    """Run one query over the tables of a warehouse; it can read them and nothing else.

    `orders@v3` in the query is the table orders at version 3; `as_of` takes all tables back to an instant.
    """
    known = names(warehouse_uri, storage_options=storage_options)
    query, versions = travels(query, known)
    # A table that the query does not name is not opened: it costs time, and may be broken.
    named = [name for name in known if name.lower() in query.lower()] or known
    with fresh_connection() as connection:
        for name in named:
            show_table(connection, name, table_uri(warehouse_uri, name), storage_options, as_of)
        for name, version in versions:
            place = table_uri(warehouse_uri, name)
            show_table(connection, f"{name}@v{version}", place, storage_options, version)
        connection.execute("SET lock_configuration = true")
        try:
            return _answer(connection, query)
        except (duckdb.Error, OSError, ValueError) as error:
            for name in named:
                _refuse_unreadable(name, table_uri(warehouse_uri, name), storage_options, error)
            if "No such file" in str(error) or "not found: " in str(error):
                raise TableError(
                    f"files of a table are gone: {str(error).splitlines()[0]}",
                    hint="it was dropped, or that version was vacuumed, while the query ran: ask again, or ask a newer version",
                ) from error
            raise TableError(
                f"the query failed: {error}",
                hint=f"the tables at {as_uri(warehouse_uri)} are {', '.join(known) or 'none'}",
            ) from error


def rows(
    uri: str, *, limit: int | None = None, storage_options: StorageOptions = None
) -> list[dict[str, Any]]:
    """The committed rows of one table, in no order."""
    with fresh_connection() as connection:
        show_table(connection, "rows", uri, storage_options)
        bounded = "" if limit is None else f" LIMIT {int(limit)}"
        try:
            return _answer(connection, f"SELECT * FROM rows{bounded}").dicts()
        except (duckdb.Error, ValueError) as error:
            _refuse_unreadable(name_of(uri), uri, storage_options, error)
            raise


def fresh_connection() -> duckdb.DuckDBPyConnection:
    """A DuckDB that knows no table yet and reaches no file by itself."""
    # A query comes from a person or the console: it gets the tables, not the machine's files.
    connection = duckdb.connect(
        config={"enable_external_access": "false", "python_enable_replacements": "false"}
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _require_readable(warehouse_uri: str) -> None:
    place = local_path(warehouse_uri)
    if place is None:
        return
    found = nearest(place)
    if not os.access(found, os.R_OK | os.X_OK if found == place else os.X_OK):
        raise TableError(
            f"the warehouse {place} cannot be read: no permission in {found}",
            hint="give this user the folder, or choose another with the warehouse setting",
        )


def travels(query: str, known: Sequence[str], *, quote: str = '"') -> tuple[str, list[tuple[str, int]]]:
    r"""The query with `table@v3` as a quoted name, and the tables and versions that it names so.

    >>> travels("SELECT * FROM orders@v3 WHERE mail = 'orders@v1'", ["orders"])
    ('SELECT * FROM "orders@v3" WHERE mail = \'orders@v1\'', [('orders', 3)])
    """
    found: dict[tuple[str, int], None] = {}

    def quoted(match: re.Match[str]) -> str:
        name, version = match[1], match[2]
        if name is None or name not in known:
            return match[0]
        found[(name, int(version))] = None
        return f"{quote}{name}@v{int(version)}{quote}"

    return re.sub(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\b(\w+)@v(\d+)\b""", quoted, query), list(found)


def show_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    uri: str,
    storage_options: StorageOptions,
    at: int | datetime | None = None,
) -> None:
    """Let a connection read a table under a name, as it is or as it was."""
    table = open_table(uri, storage_options, at=at)
    files = [(file.path, file.values) for file in snapshot_of(table, uri).files]
    connection.register(name, Store(uri, storage_options).dataset(table.schema(), files))


def _refuse_unreadable(name: str, uri: str, storage_options: StorageOptions, error: Exception) -> None:
    """Say which file of a table holds a value that nobody can read, if that is why a query failed."""
    if not any(words in str(error) for words in _UNREADABLE):
        return
    table = open_table(uri, storage_options)
    store = Store(uri, storage_options)
    for file in snapshot_of(table, uri).files:
        found = store.find_unreadable(file.path)
        if found is not None:
            raise TableError(
                f"table {name}: {found} (file {file.path})",
                hint="leave the column out of the query, or filter the row out; it was written by another version or tool",
            ) from error


def _answer(connection: duckdb.DuckDBPyConnection, query: str) -> Answer:
    result = connection.execute(query)
    if cast("Any", result) is None:  # nothing but blanks and comments, though the types do not say so
        raise TableError("there is no query", hint='write one, such as "SELECT * FROM orders LIMIT 5"')
    described = result.description or []
    return Answer(
        columns=tuple(column[0] for column in described),
        types=tuple(str(column[1]) for column in described),
        rows=tuple(result.fetchall()),
    )
