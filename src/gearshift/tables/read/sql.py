"""Queries the committed rows of a warehouse's tables in SQL with DuckDB, without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from threading import Timer
from typing import Any, cast

import duckdb
from deltalake.exceptions import DeltaError

from gearshift.errors import TableError, TableMissingError
from gearshift.storage.failures import reported
from gearshift.storage.location import StorageOptions, as_uri, local_path, name_of, nearest, table_uri
from gearshift.storage.object_store import Store
from gearshift.tables.read.snapshot import exists, open_table, snapshot_of

_UNREADABLE = ("Invalid unicode", "Invalid UTF", "out of range", "utf-8")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query: column names, DuckDB's types and rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False
    """Whether there are more rows than the limit."""

    def dicts(self) -> list[dict[str, Any]]:
        """The rows by column name.

        >>> Answer(("n",), ("INTEGER",), ((1,), (2,))).dicts()
        [{'n': 1}, {'n': 2}]
        """
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a query may use in a process that does other work."""

    rows: int
    time: timedelta = timedelta(seconds=30)
    memory: str = "256MB"
    threads: int = 2

    @property
    def config(self) -> dict[str, str | int]:
        """DuckDB's configuration; what does not fit in memory is not written to disk."""
        return {"memory_limit": self.memory, "threads": self.threads, "temp_directory": ""}

    def exceeded_by(self, error: Exception) -> TableError | None:
        """The limit that a failed query exceeded, if it was one."""
        hint = "select fewer rows, or use gearshift table sql, which has no limits"
        if isinstance(error, duckdb.InterruptException):
            return TableError(f"the query did not end within {self.time.total_seconds():g} s", hint=hint)
        if isinstance(error, duckdb.OutOfMemoryException):
            return TableError(f"the query needs more than {self.memory} of memory", hint=hint)
        return None


def names(warehouse_uri: str, *, storage_options: StorageOptions = None) -> tuple[str, ...]:
    """The tables of a warehouse, by name."""
    _require_readable(warehouse_uri)
    try:
        with reported(warehouse_uri):
            folders = Store(warehouse_uri, storage_options).folders()
    except (OSError, DeltaError):  # the warehouse does not exist yet
        return ()
    return tuple(
        folder
        for folder in folders
        if exists(table_uri(warehouse_uri, folder), storage_options=storage_options)
    )


def find(warehouse_uri: str, name: str, *, storage_options: StorageOptions = None) -> str:
    """The URI of an existing table, by name."""
    known = names(warehouse_uri, storage_options=storage_options)
    if name not in known:
        close = get_close_matches(name, known, 1)
        raise TableMissingError(
            f"table {name} does not exist in {as_uri(warehouse_uri)}",
            hint=f"did you mean {close[0]}?"
            if close
            else f"use one of {', '.join(known)}"
            if known
            else "the warehouse has no tables yet",
        )
    return table_uri(warehouse_uri, name)


def sql(
    warehouse_uri: str,
    query: str,
    *,
    as_of: datetime | None = None,
    limits: Limits | None = None,
    storage_options: StorageOptions = None,
) -> Answer:
    """Run a query over the tables of a warehouse; it can read nothing else.

    `orders@v3` in the query is the table orders at version 3; `as_of` reads all tables as of a point in time.
    """
    known = names(warehouse_uri, storage_options=storage_options)
    query, versions = travels(query, known)
    # Tables that the query does not name are not opened: that takes time, and they may be damaged.
    named = [name for name in known if name.lower() in query.lower()] or known
    with fresh_connection(limits.config if limits is not None else {}) as connection:
        for name in named:
            show_table(connection, name, table_uri(warehouse_uri, name), storage_options, as_of)
        for name, version in versions:
            uri = table_uri(warehouse_uri, name)
            show_table(connection, f"{name}@v{version}", uri, storage_options, version)
        connection.execute("SET lock_configuration = true")
        try:
            with _interrupted(connection, limits.time if limits is not None else None):
                return _answer(connection, query, limits.rows if limits is not None else None)
        except (duckdb.Error, OSError, ValueError, OverflowError) as error:
            if limits is not None and (exceeded := limits.exceeded_by(error)) is not None:
                raise exceeded from error
            for name in named:
                _raise_if_unreadable(name, table_uri(warehouse_uri, name), storage_options, error)
            if "No such file" in str(error) or "not found: " in str(error):
                raise TableError(
                    f"files of a table no longer exist: {str(error).splitlines()[0]}",
                    hint="run the query again, or on a newer version: the table was dropped, or that version was vacuumed",
                ) from error
            raise TableError(
                f"the query failed: {error}",
                hint=f"the tables in {as_uri(warehouse_uri)} are {', '.join(known)}"
                if known
                else f"{as_uri(warehouse_uri)} has no tables",
            ) from error


@contextmanager
def _interrupted(connection: duckdb.DuckDBPyConnection, after: timedelta | None) -> Generator[None]:
    """Interrupt what the connection runs in this block after a time; never without one."""
    if after is None:
        yield
        return
    timer = Timer(after.total_seconds(), connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def rows(
    uri: str, *, limit: int | None = None, storage_options: StorageOptions = None
) -> list[dict[str, Any]]:
    """The committed rows of one table, in any order."""
    with fresh_connection() as connection:
        show_table(connection, "rows", uri, storage_options)
        bounded = "" if limit is None else f" LIMIT {int(limit)}"
        try:
            return _answer(connection, f"SELECT * FROM rows{bounded}").dicts()
        except (duckdb.Error, ValueError) as error:
            _raise_if_unreadable(name_of(uri), uri, storage_options, error)
            raise


def fresh_connection(config: Mapping[str, str | int] | None = None) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection without tables and without access to files."""
    # Queries come from users: they may read the tables, but not other files of the machine.
    confined = {"enable_external_access": "false", "python_enable_replacements": "false"}
    connection = duckdb.connect(config={**confined, **(config or {})})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _require_readable(warehouse_uri: str) -> None:
    folder = local_path(warehouse_uri)
    if folder is None:
        return
    found = nearest(folder)
    if not os.access(found, os.R_OK | os.X_OK if found == folder else os.X_OK):
        raise TableError(
            f"cannot read the warehouse {folder}: no permission in {found}",
            hint="grant this user access, or choose another folder with the warehouse setting",
        )


def travels(query: str, known: Sequence[str], *, quote: str = '"') -> tuple[str, list[tuple[str, int]]]:
    r"""The query with `table@v3` as quoted names, and the tables and versions in it.

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

    return re.sub(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\b(\w+)@v(\d{1,18})\b""", quoted, query), list(
        found
    )


def show_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    uri: str,
    storage_options: StorageOptions,
    at: int | datetime | None = None,
) -> None:
    """Register a table with a connection, at its newest or an older version."""
    table = open_table(uri, storage_options, at=at)
    files = [(file.path, file.values) for file in snapshot_of(table, uri).files]
    connection.register(name, Store(uri, storage_options).dataset(table.schema(), files))


def _raise_if_unreadable(name: str, uri: str, storage_options: StorageOptions, error: Exception) -> None:
    """Raise TableError with the file and value if a query failed because of an invalid value."""
    if not any(pattern in str(error) for pattern in _UNREADABLE):
        return
    table = open_table(uri, storage_options)
    store = Store(uri, storage_options)
    for file in snapshot_of(table, uri).files:
        found = store.find_unreadable(file.path)
        if found is not None:
            raise TableError(
                f"table {name}: {found} (file {file.path})",
                hint="remove the column from the query, or filter out the row; another version or tool wrote it",
            ) from error


def _answer(connection: duckdb.DuckDBPyConnection, query: str, most: int | None = None) -> Answer:
    """The result, with `most` rows at most: DuckDB computes no more than are fetched."""
    result = connection.execute(query)
    if cast("Any", result) is None:  # only blanks and comments; the types are wrong here
        raise TableError("the query is empty", hint='write one, such as "SELECT * FROM orders LIMIT 5"')
    described = result.description or []
    found = result.fetchall() if most is None else result.fetchmany(most + 1)
    return Answer(
        columns=tuple(column[0] for column in described),
        types=tuple(str(column[1]) for column in described),
        rows=tuple(found if most is None else found[:most]),
        truncated=most is not None and len(found) > most,
    )
