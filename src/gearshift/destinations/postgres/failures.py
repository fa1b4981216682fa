"""Translate PostgreSQL errors: retriable, permanent for one row, or stopping the delivery."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.adapt import PyFormat, Transformer

from gearshift.errors import DeliveryError, PermanentError, RetriableError

# Prefixes of SQLSTATE. Temporary: connections, lock conflicts, resources, operator intervention, system errors.
_TEMPORARY = ("08", "25P03", "40", "53", "55", "57", "58")
# Errors of one row: invalid data, a constraint, a type mismatch, a value too large for an index, or a rejection by a
# trigger or a view's check option. Missing columns are not among them: they concern every row.
_OF_A_ROW = (
    *("09", "22", "23", "27", "2F", "38", "39", "44", "P0"),
    *("42804", "42846", "42883", "54000", "54001"),
)
# The classes of SQLSTATE that PostgreSQL uses; a trigger that rejects a row may raise one of its own.
_CLASSES = re.compile("0[0-3089ABFLPZ]|10|2[0-8BDF]|3[48]|39|3[BDF]|4[024]|5[34578]|72|F0|HV|P0|XX")
# The function of the server that checks new rows against views and row-level security: its messages are translated.
_CHECKS_ROWS = "ExecWithCheckOptions"
_NOT_NULL = "23502"
_NO_COLUMN = "42703"
_NO_UNIQUE_KEY = "42P10"
# Connection errors have no SQLSTATE, only a message.
_LOGIN_FAILED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|(role|database) \"[^\"]*\" does not exist"
)


def of_a_connection(error: psycopg.Error, address: str) -> DeliveryError:
    """Translate a failed connection; `address` has no password."""
    message = _message(error)
    if _LOGIN_FAILED.search(message):
        reason = message.rpartition("FATAL:")[2].strip()
        return DeliveryError(
            f"cannot log in to PostgreSQL at {address}: {reason}",
            hint="check the user, password and database in the DSN",
        )
    return RetriableError(
        f"cannot connect to PostgreSQL at {address}: {message}",
        hint='start it, e.g. with "gearshift up --with postgres"',
    )


def of_a_statement(
    error: psycopg.Error, table: str, columns: Sequence[str] = (), values: Sequence[Sequence[Any]] = ()
) -> DeliveryError:
    """Translate a failed statement; its transaction was rolled back."""
    state = error.sqlstate or ""
    message = _message(error)
    if state.startswith(_TEMPORARY) or (
        not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    ):
        return RetriableError(
            f"PostgreSQL could not write to {table}: {message}", hint="check that the server is healthy"
        )
    if not state:  # psycopg could not convert a value
        column = _not_adapted(columns, values)
        return PermanentError(
            f"a value{f' for column {column}' if column else ''} of {table} has no SQL type: {message}",
            hint="return str, int, float, bool, bytes, Decimal, datetime, date, or lists or mappings of those",
        )
    if state == _NO_COLUMN or (state == _NOT_NULL and columns and error.diag.column_name not in columns):
        return DeliveryError(
            f"{table} and its rows have different columns: {message}",
            hint="change the table, or the handler's return value",
        )
    if _is_of_a_row(state, error.diag.source_function):
        column = _column(error, columns)
        where = f"column {column} of {table}" if column else table
        named = error.diag.constraint_name
        return PermanentError(
            f"{where} rejected a row: {message}" + (f" (constraint {named})" if named else ""),
            hint="fix the value in the handler, or the table",
        )
    if state == _NO_UNIQUE_KEY:
        return DeliveryError(
            f"{table} has no unique constraint on its key",
            hint="add PRIMARY KEY or UNIQUE on exactly those columns",
        )
    return DeliveryError(
        f"cannot write to {table}: {message}", hint="create the table first, or grant the missing privilege"
    )


def _is_of_a_row(state: str, source: str | None) -> bool:
    return state.startswith(_OF_A_ROW) or not _CLASSES.match(state) or source == _CHECKS_ROWS


def _message(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).strip()


def _column(error: psycopg.Error, columns: Sequence[str]) -> str | None:
    if error.diag.column_name:
        return error.diag.column_name
    # "unnamed portal parameter $2 = '…'" in the context of an invalid value
    bound = re.search(r"parameter \$(\d+)", error.diag.context or "")
    if bound and 0 < int(bound[1]) <= len(columns):
        return columns[int(bound[1]) - 1]
    named = re.search(r'column "([^"]+)"', _message(error))
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
