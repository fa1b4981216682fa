"""Translate Cassandra errors: retriable, permanent for one row, or stopping the delivery."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gearshift.destinations.cassandra.driver import load
from gearshift.errors import DeliveryError, PermanentError, RetriableError

_driver: Any = load("cassandra")
_cluster: Any = load("cassandra.cluster")
_connection: Any = load("cassandra.connection")
_protocol: Any = load("cassandra.protocol")

DRIVER_ERRORS: tuple[type[Exception], ...] = (
    _driver.DriverException,
    _cluster.NoHostAvailable,
    _connection.ConnectionException,
    _connection.ConnectionBusy,
    _protocol.ErrorMessage,
)
_NO_TABLE = re.compile(r"does not exist|unconfigured table|[Uu]nknown keyspace")


def of_a_connection(error: Exception, place: str) -> DeliveryError:
    """Translate a failed connection; `place` is the address without the password."""
    if isinstance(error, _driver.AuthenticationFailed) or any(
        isinstance(one, _driver.AuthenticationFailed) for one in _by_host(error)
    ):
        return DeliveryError(
            f"authentication to Cassandra at {place} failed",
            hint="check user:password@ in the contact points",
        )
    if "CERTIFICATE_VERIFY_FAILED" in _words(error):
        return RetriableError(
            f"the certificate of Cassandra at {place} is not trusted for this address: {_words(error)}",
            hint="append the file of your certificate authority to the contact points: ?ca=FILE",
        )
    return RetriableError(
        f"cannot connect to Cassandra at {place}: {_words(error)}",
        hint='start it, e.g. with "gearshift up --with cassandra"',
    )


def of_a_statement(error: Exception, table: str, place: str) -> DeliveryError:
    """Translate a failed statement; some rows may have been written."""
    if isinstance(error, _driver.Unauthorized | _protocol.UnauthorizedErrorMessage):
        return DeliveryError(
            f"no permission to write to {table}: {_words(error)}",
            hint="grant MODIFY and SELECT on it, and for a copy of a captured table CREATE on its keyspace",
        )
    words = _words(error)
    requests = (_driver.InvalidRequest, _protocol.InvalidRequestException)
    if isinstance(error, requests) and not _NO_TABLE.search(words):
        return PermanentError(
            f"{table} rejected a row: {words}", hint="fix the value in the handler, or the table"
        )
    if isinstance(error, (_driver.RequestValidationException, _protocol.RequestValidationException)):
        return DeliveryError(
            f"cannot write to {table}: {words}", hint="create the table first, or set create=True"
        )
    return RetriableError(
        f"Cassandra at {place} could not write to {table}: {words}",
        hint="check that its nodes are healthy",
    )


def of_a_preparation(error: Exception, table: str, place: str) -> DeliveryError:
    """Translate a failed PREPARE: it contains only names, so it concerns every row."""
    explained = of_a_statement(error, table, place)
    if not isinstance(explained, PermanentError):
        return explained
    return DeliveryError(
        f"{table} and its rows have different columns: {_words(error)}",
        hint="change the table, or the handler's return value",
    )


def misfit(columns: Sequence[str], specs: Sequence[Any], values: Sequence[Any], protocol: int) -> str | None:
    """The first column whose type does not match its value, with the type."""
    for column, spec, value in zip(columns, specs, values, strict=True):
        try:
            if value is not None:
                spec.type.serialize(value, protocol)
        except Exception:
            return f"{column} ({spec.type.cql_parameterized_type()})"
    return None


def _by_host(error: Exception) -> list[Any]:
    found: Any = getattr(error, "errors", None)
    return list(found.values()) if isinstance(found, dict) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]


def _words(error: Exception) -> str:
    inner = _by_host(error)
    if isinstance(error, _cluster.NoHostAvailable) and not inner:
        return "no node answers"
    first = inner[0] if inner else error
    return str(getattr(first, "message", first)).strip()
