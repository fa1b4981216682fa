"""What Connect and Debezium say in pages, in one sentence with what to do next."""

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
"""What is left to say where Connect does not pass Debezium's reason on."""
_SHOWN = 300  # characters of a cause that we have no words of our own for
_KNOWN: tuple[tuple[str, type[ConnectError], str, str], ...] = (
    (
        re.escape(NO_ENTRY),
        DatabaseUnreachableError,
        "the database does not let the connector in: its address, user or password is wrong, or it is down",
        "mend the setting postgres, or what the connector's password refers to",
    ),
    (
        r"password authentication failed|no password was provided|Access denied for user|[Ii]nvalid password",
        WrongPasswordError,
        "the database does not take the connector's user and password",
        "mend the setting postgres, or what the connector's password refers to",
    ),
    (
        r"replication slot \"?(?P<name>\w+)\"? is active",
        SlotInUseError,
        "another connector reads the replication slot {name}",
        "stop the other one, or give this change capture another name",
    ),
    (
        r"No table filters found for filtered publication|relation \"(?P<name>[^\"]+)\" does not exist",
        SourceTableMissingError,
        "the database has no table that the connector is to capture",
        "create it, or mend the names in tables=",
    ),
    (
        r"wal_level|logical decoding requires",
        ConnectError,
        "the database does not write what change capture reads",
        "set wal_level=logical in PostgreSQL and restart it",
    ),
    (
        r"Connection to \S+ refused|UnknownHost|The connection attempt failed|Connection refused",
        DatabaseUnreachableError,
        "the connector does not reach the database",
        "start the database, or mend the setting postgres",
    ),
    (
        r"Failed to find any class that implements Connector",
        ConnectError,
        "this Kafka Connect has no Debezium connector for PostgreSQL",
        "put Debezium's plugin into its plugin.path",
    ),
)


def explain(connector: str, words: str) -> ConnectError:
    """The error that these words of Connect's, an answer or a stack trace, are about.

    >>> explain("food.orders", 'ERROR: replication slot "a" is active for PID 7').what
    'connector food.orders: another connector reads the replication slot a'
    """
    for pattern, kind, what, hint in _KNOWN:
        found = re.search(pattern, words)
        if found:
            named = {name: text or "" for name, text in found.groupdict().items()}
            return kind(f"connector {connector}: {what.format(**named)}", hint=hint)
    return ConnectError(f"connector {connector}: {_innermost(words)}", hint="see Connect's own log")


def _innermost(words: str) -> str:
    causes = [line for line in words.splitlines() if line.startswith("Caused by:")]
    line = causes[-1].removeprefix("Caused by:") if causes else next(iter(words.splitlines()), "")
    line = redact(line)
    return (
        "".join(letter for letter in " ".join(line.split()) if letter.isprintable())[:_SHOWN]
        or "it gives no reason"
    )
