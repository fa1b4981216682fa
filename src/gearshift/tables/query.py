"""Asking a warehouse in SQL with DuckDB: every table by its name, committed rows only, no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
from deltalake.exceptions import DeltaError

from gearshift.errors import TableError
from gearshift.tables.location import StorageOptions, as_uri, table_uri
from gearshift.tables.snapshot import exists, open_table, snapshot_of
from gearshift.tables.store import Store


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
    try:
        folders = Store(warehouse_uri, storage_options).folders()
    except (OSError, DeltaError):  # a folder that is not there yet holds no tables
        return ()
    return tuple(
        folder
        for folder in folders
        if exists(table_uri(warehouse_uri, folder), storage_options=storage_options)
    )


def sql(warehouse_uri: str, query: str, *, storage_options: StorageOptions = None) -> Answer:
    """Run one query over the tables of a warehouse; it can read them and nothing else."""
    known = names(warehouse_uri, storage_options=storage_options)
    with _connection() as connection:
        for name in known:
            _show(connection, name, table_uri(warehouse_uri, name), storage_options)
        connection.execute("SET lock_configuration = true")
        try:
            return _answer(connection, query)
        except duckdb.Error as error:
            raise TableError(
                f"the query failed: {error}",
                hint=f"the tables at {as_uri(warehouse_uri)} are {', '.join(known) or 'none'}",
            ) from error


def rows(
    uri: str, *, limit: int | None = None, storage_options: StorageOptions = None
) -> list[dict[str, Any]]:
    """The committed rows of one table, in no order."""
    with _connection() as connection:
        _show(connection, "rows", uri, storage_options)
        bounded = "" if limit is None else f" LIMIT {int(limit)}"
        return _answer(connection, f"SELECT * FROM rows{bounded}").dicts()


def _connection() -> duckdb.DuckDBPyConnection:
    # A query comes from a person or the console: it gets the tables, not the machine's files.
    connection = duckdb.connect(
        config={"enable_external_access": "false", "python_enable_replacements": "false"}
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _show(
    connection: duckdb.DuckDBPyConnection, name: str, uri: str, storage_options: StorageOptions
) -> None:
    table = open_table(uri, storage_options)
    files = [(file.path, file.values) for file in snapshot_of(table, uri).files]
    connection.register(name, Store(uri, storage_options).dataset(table.schema(), files))


def _answer(connection: duckdb.DuckDBPyConnection, query: str) -> Answer:
    result = connection.execute(query)
    described = result.description or []
    return Answer(
        columns=tuple(column[0] for column in described),
        types=tuple(str(column[1]) for column in described),
        rows=tuple(result.fetchall()),
    )
