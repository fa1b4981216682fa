"""What Cassandra and its driver say went wrong, as an error that says whether to try again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gearshift.destinations.cassandra_driver import load
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


def at_the_door(error: Exception, place: str) -> DeliveryError:
    """The error for a connection that was not made; `place` holds no password."""
    if isinstance(error, _driver.AuthenticationFailed) or any(
        isinstance(one, _driver.AuthenticationFailed) for one in _by_host(error)
    ):
        return DeliveryError(
            f"cannot log in to Cassandra at {place}",
            hint="check user:password@ in the contact points",
        )
    if "CERTIFICATE_VERIFY_FAILED" in _words(error):
        return RetriableError(
            f"Cassandra at {place} has no certificate that is trusted for this address: {_words(error)}",
            hint="name the file of your own authority behind the contact points: ?ca=FILE",
        )
    return RetriableError(
        f"no Cassandra answers at {place}: {_words(error)}",
        hint='start it, e.g. with "gearshift up --with cassandra"',
    )


def of_a_statement(error: Exception, table: str, place: str) -> DeliveryError:
    """The error for rows that were not all written."""
    if isinstance(error, _driver.Unauthorized | _protocol.UnauthorizedErrorMessage):
        return DeliveryError(f"{table} may not be written: {_words(error)}", hint="grant MODIFY on it")
    words = _words(error)
    requests = (_driver.InvalidRequest, _protocol.InvalidRequestException)
    if isinstance(error, requests) and not _NO_TABLE.search(words):
        return PermanentError(
            f"{table} does not take a row: {words}", hint="fix the value in the handler, or the table"
        )
    if isinstance(error, (_driver.RequestValidationException, _protocol.RequestValidationException)):
        return DeliveryError(f"{table} cannot be written: {words}", hint="create it, or leave create=True")
    return RetriableError(
        f"Cassandra at {place} did not take rows for {table}: {words}",
        hint="see whether its nodes are well",
    )


def of_a_preparation(error: Exception, table: str, place: str) -> DeliveryError:
    """The error for a statement that the table does not take, whatever the values: it holds names alone."""
    explained = of_a_statement(error, table, place)
    if not isinstance(explained, PermanentError):
        return explained
    return DeliveryError(
        f"{table} and the rows for it have different columns: {_words(error)}",
        hint="change the table, or what the handler returns",
    )


def misfit(columns: Sequence[str], specs: Sequence[Any], values: Sequence[Any], protocol: int) -> str | None:
    """The first column, with its type, that does not take its value."""
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
    said = inner[0] if inner else error
    return str(getattr(said, "message", said)).strip()
