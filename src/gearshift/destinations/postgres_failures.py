"""What PostgreSQL says went wrong, as an error that says whether to try again and which column is meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.adapt import PyFormat, Transformer

from gearshift.errors import DeliveryError, PermanentError, RetriableError

# By the beginnings of SQLSTATE. The server's own trouble passes: connections, rivals, resources, operators, the system.
_PASSING = ("08", "25P03", "40", "53", "55", "57", "58")
# What is wrong with a row: its data, a constraint, a value of a type that does not fit, a size that an index does not
# take, or what a trigger or the check option of a view does not let through. Names are not: a column that is
# missing is missing for every row.
_OF_A_ROW = (
    *("09", "22", "23", "27", "2F", "38", "39", "44", "P0"),
    *("42804", "42846", "42883", "54000"),
)
_NOT_NULL = "23502"
_LACKS_COLUMN = "42703"
_LACKS_KEY = "42P10"
# At the door there is no SQLSTATE, only words.
_TURNED_AWAY = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|(role|database) \"[^\"]*\" does not exist"
)


def at_the_door(error: psycopg.Error, place: str) -> DeliveryError:
    """The error for a connection that was not made; `place` holds no password."""
    words = _words(error)
    if _TURNED_AWAY.search(words):
        reason = words.rpartition("FATAL:")[2].strip()
        return DeliveryError(
            f"cannot log in to PostgreSQL at {place}: {reason}",
            hint="check the user, password and database in the DSN",
        )
    return RetriableError(
        f"no PostgreSQL answers at {place}: {words}",
        hint='start it, e.g. with "gearshift up --with postgres"',
    )


def of_a_statement(
    error: psycopg.Error, table: str, columns: Sequence[str] = (), values: Sequence[Sequence[Any]] = ()
) -> DeliveryError:
    """The error for rows that were not written; everything was rolled back."""
    state = error.sqlstate or ""
    words = _words(error)
    if state.startswith(_PASSING) or (
        not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    ):
        return RetriableError(
            f"PostgreSQL did not take rows for {table}: {words}", hint="see whether the server is well"
        )
    if not state:  # psycopg itself could not make sense of a value
        column = _not_adapted(columns, values)
        return PermanentError(
            f"a value{f' for column {column}' if column else ''} of {table} has no SQL type: {words}",
            hint="return str, int, float, bool, bytes, Decimal, datetime, date, lists or mappings of those",
        )
    if state == _LACKS_COLUMN or (state == _NOT_NULL and columns and error.diag.column_name not in columns):
        return DeliveryError(
            f"{table} and the rows for it have different columns: {words}",
            hint="change the table, or what the handler returns",
        )
    if state.startswith(_OF_A_ROW):
        column = _column(error, columns)
        where = f"column {column} of {table}" if column else table
        named = error.diag.constraint_name
        return PermanentError(
            f"{where} does not take a row: {words}" + (f" (constraint {named})" if named else ""),
            hint="fix the value in the handler, or the table",
        )
    if state == _LACKS_KEY:
        return DeliveryError(
            f"{table} has no unique constraint on its key",
            hint="add PRIMARY KEY or UNIQUE on just those columns",
        )
    return DeliveryError(
        f"{table} cannot be written: {words}", hint="create the table or grant what is missing"
    )


def _words(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).strip()


def _column(error: psycopg.Error, columns: Sequence[str]) -> str | None:
    if error.diag.column_name:
        return error.diag.column_name
    # "unnamed portal parameter $2 = '…'" in the context of a value that could not be read
    bound = re.search(r"parameter \$(\d+)", error.diag.context or "")
    if bound and 0 < int(bound[1]) <= len(columns):
        return columns[int(bound[1]) - 1]
    named = re.search(r'column "([^"]+)"', _words(error))
    return named[1] if named else None


def _not_adapted(columns: Sequence[str], values: Sequence[Sequence[Any]]) -> str | None:
    transformer = Transformer()
    for row in values:
        for name, value in zip(columns, row, strict=True):
            try:
                if value is not None:
                    transformer.get_dumper(value, PyFormat.AUTO).dump(value)
            except (psycopg.Error, ValueError, TypeError, OverflowError):
                return name
    return None
