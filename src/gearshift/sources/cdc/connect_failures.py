"""Explains errors and stack traces of Connect and Debezium in one sentence, with a hint."""

from __future__ import annotations

import re

from gearshift.errors import (
    ConnectError,
    DatabaseUnreachableError,
    SlotInUseError,
    SourceTableMissingError,
    WrongPasswordError,
)
from gearshift.redaction import redact

NO_ENTRY = "the check of the database's address, user and password failed"
"""The message where Connect does not pass on Debezium's reason."""
_SHOWN = 300  # characters of an unknown cause
_KNOWN: tuple[tuple[str, type[ConnectError], str, str], ...] = (
    (
        re.escape(NO_ENTRY),
        DatabaseUnreachableError,
        "cannot connect to the database: its address, user or password is wrong, or it is down",
        "correct the setting postgres or mariadb, or what the connector's password refers to",
    ),
    (
        r"password authentication failed|no password was provided|Access denied for user|[Ii]nvalid password",
        WrongPasswordError,
        "the database rejected the connector's user or password",
        "correct the setting postgres or mariadb, or what the connector's password refers to",
    ),
    (
        r"replication slot \"?(?P<name>\w+)\"? is active",
        SlotInUseError,
        "another connector reads the replication slot {name}",
        "stop the other connector, or give this change capture another name",
    ),
    (
        r"No table filters found for filtered publication|relation \"(?P<name>[^\"]+)\" does not exist",
        SourceTableMissingError,
        "a table that the connector captures does not exist in the database",
        "create the table, or correct the names in tables=",
    ),
    (
        r"wal_level|logical decoding requires",
        ConnectError,
        "the database does not write the log that change capture needs",
        "set wal_level=logical in PostgreSQL and restart it",
    ),
    (
        r"not configured to use a (?:ROW|row-level|FULL)",
        ConnectError,
        "the database does not write the log that change capture needs",
        "set log_bin, binlog_format=ROW and binlog_row_image=FULL in MariaDB and restart it",
    ),
    (
        r"Connection to \S+ refused|UnknownHost|The connection attempt failed|Connection refused",
        DatabaseUnreachableError,
        "the connector cannot reach the database",
        "start the database, or correct the setting postgres or mariadb",
    ),
    (
        r"Failed to find any class that implements Connector",
        ConnectError,
        "this Kafka Connect has no Debezium connector for the database",
        "add Debezium's plugin to its plugin.path",
    ),
)


def explain(connector: str, message: str) -> ConnectError:
    """The error for an error message or stack trace of Connect.

    >>> explain("food.orders", 'ERROR: replication slot "a" is active for PID 7').what
    'connector food.orders: another connector reads the replication slot a'
    """
    for pattern, kind, what, hint in _KNOWN:
        found = re.search(pattern, message)
        if found:
            named = {name: text or "" for name, text in found.groupdict().items()}
            return kind(f"connector {connector}: {what.format(**named)}", hint=hint)
    return ConnectError(f"connector {connector}: {_innermost(message)}", hint="see Connect's log")


def _innermost(message: str) -> str:
    causes = [line for line in message.splitlines() if line.startswith("Caused by:")]
    line = causes[-1].removeprefix("Caused by:") if causes else next(iter(message.splitlines()), "")
    line = redact(line)
    return (
        "".join(letter for letter in " ".join(line.split()) if letter.isprintable())[:_SHOWN]
        or "no reason given"
    )
