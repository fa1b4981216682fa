"""PostgreSQL: rows and their offsets in one transaction, so that each record is written exactly once."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from threading import RLock
from typing import Any, cast

from pydantic import SecretStr

from gearshift.destinations.returns import returns_of
from gearshift.destinations.rows import (
    Entry,
    as_json,
    entries,
    is_nested,
    key_columns,
    kinds,
    misconfigured,
    plain,
    split,
    still_valid,
)
from gearshift.errors import DefinitionError, DeliveryError, StackError
from gearshift.record import Row
from gearshift.redaction import hide, hide_in_url
from gearshift.rules.declared import located
from gearshift.settings import Settings
from gearshift.stack import find_service

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.sql import Identifier
    from psycopg.types.json import Jsonb
except ImportError:
    raise DefinitionError(
        "the PostgreSQL driver is not installed", hint="pip install 'gearshift[postgres]'"
    ) from None

from gearshift.destinations.postgres import failures, statements

log = logging.getLogger(__name__)

_Partition = tuple[str, str, int, str]
"""Group, topic, partition and topic id (empty if the brokers have none)."""
_Position = tuple[int, int, int]
"""Leader epoch, offset and index."""
_CONNECT_SECONDS = 10
_UNANSWERED_MS = 30_000


class Postgres:
    """Upserts rows into a table by key, or inserts them if it has no key.

    The offsets of the records are written to `gearshift_offsets` in the same schema and transaction: a record that is
    delivered again, or by a consumer that has lost its partition, changes nothing. Offsets are stored by topic id, so
    a topic that is deleted and created again starts at its first offset.
    """

    batch_size: int = 500

    @located
    def __init__(
        self, *, table: str, key: str | Sequence[str] = (), dsn: str | None = None, create: bool = True
    ) -> None:
        self.table = table
        self.key = key_columns(key)
        self.create = create
        *self._schema, self._name = split(table, parts=(1, 2))
        hide_in_url(dsn)
        hide(*re.findall(r"password\s*=\s*('(?:[^'\\]|\\.)*'|\S+)", dsn or ""))
        self._dsn = None if dsn is None else SecretStr(dsn)
        self._settings: Settings | None = None
        self._address: SecretStr | None = self._dsn
        self._group_id = ""
        self._connection: psycopg.Connection[Any] | None = None
        self._exists = not create
        self._left: dict[_Partition, _Position] = {}
        self._one_at_a_time = RLock()

    def __repr__(self) -> str:
        return f"Postgres(table={self.table!r}, key={self.key!r})"

    @property
    def needs(self) -> str | None:
        """The local service that it needs, if it was declared without a DSN."""
        return "postgres" if self._dsn is None else None

    def locate(self, settings: Settings) -> None:
        """Set the settings used to find the server; by default those of the working directory."""
        self._settings = settings

    def open(self, group_id: str) -> None:
        """Connect, and create the offsets table if it is missing."""
        self._group_id = group_id
        with self._one_at_a_time:
            self._connected()

    def check(self, handler: Callable[..., Any], *, captured: bool) -> None:
        """Compare the table with the handler's return type, before the first record."""
        returns = returns_of(handler, captured=captured)
        columns = self.key if returns.columns is None else returns.columns
        if lacking := [name for name in self.key if name not in columns]:
            raise misconfigured(
                f"the rows for {self.table} have no key column {lacking[0]}",
                "return it with every row, or change key=",
            )
        with self._one_at_a_time:
            connection = self._connected()
            try:
                with connection.transaction(force_rollback=True):
                    if not self._found(connection, self._target):
                        if self.create:
                            return
                        raise misconfigured(
                            f"{self.table} does not exist", "create the table first, or set create=True"
                        )
                    if columns:
                        connection.execute(statements.nothing(self._target, columns, self.key))
            except psycopg.Error as error:
                raise failures.of_a_statement(error, self.table, columns) from error

    def write(self, rows: Sequence[Row]) -> None:
        """Write the rows that were not written yet, in one transaction per partition."""
        ordered = sorted(rows, key=lambda row: (row.record.topic, row.record.partition, *_position(row)))
        with self._one_at_a_time:
            for of, some in groupby(ordered, key=self._partition):
                self._write(of, list(some))

    def flush(self) -> None:
        """Do nothing: `write` commits."""

    def stored(self, topic: str, partition: int, topic_id: str | None) -> int | None:
        """The offset after the last record of a partition that was written, from memory."""
        left = self._left.get((self._group_id, topic, partition, topic_id or ""))
        return None if left is None else left[1] + 1

    def look_up(self, topic: str, partition: int, topic_id: str | None, noted: int) -> int:
        """The same, read from the database: lower than `noted` after a restore from a backup."""
        of = (self._group_id, topic, partition, topic_id or "")
        with self._one_at_a_time:
            connection = self._connected()
            try:
                found = connection.execute(statements.find(self._offsets), of).fetchone()
            except psycopg.Error as error:
                raise failures.of_a_statement(error, statements.OFFSETS) from error
            if found is None:
                # After a restore of an old backup, a change of schema or `forget`.
                log.warning(
                    "%s has no offset of group %s for %s/%d, which has written up to offset %d; if rows are missing, "
                    "run gearshift group reset to write them again",
                    statements.OFFSETS,
                    self._group_id,
                    topic,
                    partition,
                    noted,
                )
                return noted
            epoch, next_offset, index = cast("_Position", found)
            self._left[of] = (epoch, next_offset - 1, index)
            return next_offset

    def close(self) -> None:
        """Disconnect."""
        with self._one_at_a_time:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def forget(self, group_id: str, topic: str | None = None) -> int:
        """Delete the offsets of a group, so that its rows are written again; return the number of partitions.

        Needed after a group is reset: otherwise the records it reads again count as written.
        """
        with self._one_at_a_time:
            connection = self._connected()
            self._left = {}
            try:
                with connection.transaction():
                    return connection.execute(statements.forget(self._offsets), (group_id, topic)).rowcount
            except psycopg.Error as error:
                raise failures.of_a_statement(error, statements.OFFSETS) from error

    @property
    def _target(self) -> Identifier:
        return Identifier(*self._schema, self._name)

    @property
    def _offsets(self) -> Identifier:
        return Identifier(*self._schema, statements.OFFSETS)

    def _write(self, of: _Partition, rows: list[Row]) -> None:
        """Write rows of one partition; invalid rows are rejected before anything is sent."""
        written = entries(rows, self.key, self.table)
        _, topic, partition, topic_id = of
        connection = self._connected()
        there = self._create(connection, written)
        columns: tuple[str, ...] = ()
        values: list[list[Any]] = []
        try:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute(statements.set_timeouts())
                if of not in self._left and topic_id:
                    cursor.execute(statements.adopt(self._offsets), of)
                cursor.execute(statements.lock(self._offsets), of)
                epoch, next_offset, index, since = cast("tuple[int, int, int, int]", cursor.fetchone())
                last = (epoch, next_offset - 1, index)
                self._require_no_gap(of, last)
                fresh = [entry for entry in written if _is_later(_position(entry), last)]
                if len(fresh) < len(written):
                    known = len(written) - len(fresh)
                    log.info("%s already has %d rows of %s/%d", self.table, known, topic, partition)
                fresh, since = still_valid(fresh, since)
                # Consecutive rows may have different columns; the order is kept.
                for (deletes, columns), some in groupby(fresh if there else (), key=self._form):
                    values = [[_bound(entry.columns[name]) for name in columns] for entry in some]
                    statement = (
                        statements.delete(self._target, columns)
                        if deletes
                        else statements.upsert(self._target, columns, self.key)
                    )
                    cursor.executemany(statement, values)
                if _is_later(_position(rows[-1]), last):
                    last = _position(rows[-1])
                epoch, offset, index = last
                cursor.execute(statements.advance(self._offsets), (*of, epoch, offset + 1, index, since))
        except psycopg.Error as error:
            raise failures.of_a_statement(error, self.table, columns, values) from error
        self._left[of] = last

    def _partition(self, row: Row) -> _Partition:
        return self._group_id, row.record.topic, row.record.partition, row.record.topic_id or ""

    def _require_no_gap(self, of: _Partition, last: _Position) -> None:
        """Refuse to write after rows that were lost: their offsets would count as written."""
        left = self._left.get(of)
        if left is not None and _is_later(left, last):
            group, topic, partition, _ = of
            raise DeliveryError(
                f"{statements.OFFSETS} of group {group} went back from offset {left[1] + 1} to {last[1] + 1}: "
                f"the rows of {self.table} between them are lost, as after a failover or a restore from a backup",
                hint=f"the consumer restarts at offset {last[1] + 1} and writes them again",
                topic=topic,
                partition=partition,
                offset=last[1] + 1,
            )

    def _form(self, entry: Entry) -> tuple[bool, tuple[str, ...]]:
        if entry.empties:
            return True, ()
        return entry.deletes, self.key if entry.deletes else tuple(entry.columns)

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        dsn, address = self._find_server()
        try:
            connection = psycopg.connect(
                dsn,
                # Server-side placeholders, so that a % in a name has no meaning.
                cursor_factory=psycopg.RawCursor,
                autocommit=True,  # transactions are opened explicitly
                connect_timeout=_CONNECT_SECONDS,
                tcp_user_timeout=_UNANSWERED_MS,
                application_name=f"gearshift {self._group_id}"[:63],
            )
        except psycopg.Error as error:
            raise failures.of_a_connection(error, address) from None
        try:
            self._create_offsets(connection)
        except psycopg.Error as error:
            connection.close()
            raise failures.of_a_statement(error, statements.OFFSETS) from error
        except DeliveryError:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _find_server(self) -> tuple[str, str]:
        """The DSN, and the address without the password."""
        if self._dsn is None:
            try:
                self._address = find_service("postgres", self._settings)
            except StackError:
                if self._address is None:
                    raise  # a server that was found before may restart at the same address
        dsn = cast("SecretStr", self._address).get_secret_value()
        try:
            parts = conninfo_to_dict(dsn)
        except psycopg.Error:  # its message contains the DSN with the password
            raise DeliveryError(
                "invalid PostgreSQL DSN",
                hint="write postgresql://user:password@host:port/database",
            ) from None
        host, port = parts.get("host", "localhost"), parts.get("port", 5432)
        return dsn, f"{host}:{port}"

    def _create_offsets(self, connection: psycopg.Connection[Any]) -> None:
        with connection.transaction():
            if self._found(connection, self._offsets):
                self._migrate(connection)
                return  # so that the user needs no privilege to create tables
            self._alone(connection)
            if self._schema and self.create:
                connection.execute(statements.create_schema(self._schema[0]))
            connection.execute(statements.create_offsets(self._offsets))

    def _migrate(self, connection: psycopg.Connection[Any]) -> None:
        name = self._offsets.as_string(connection)
        for column, statement in statements.migrations(self._offsets).items():
            if connection.execute(statements.FIND_COLUMN, (name, column)).fetchone() is not None:
                continue
            self._alone(connection)
            if connection.execute(statements.FIND_COLUMN, (name, column)).fetchone() is None:
                try:
                    connection.execute(statement)
                except psycopg.errors.InsufficientPrivilege:
                    raise DeliveryError(
                        f"{statements.OFFSETS} has missing columns, and this user may not add them",
                        hint=f"run as its owner: {statement.as_string(connection)}",
                    ) from None

    def _create(self, connection: psycopg.Connection[Any], written: Sequence[Entry]) -> bool:
        """Create the table if it is missing; False if it is missing and there are only rows to delete."""
        if self._exists:
            return True
        rows = [entry for entry in written if not entry.deletes]
        try:
            with connection.transaction():
                if not self._found(connection, self._target):
                    if not rows:
                        return False
                    self._alone(connection)
                    connection.execute(
                        statements.create_table(self._target, kinds(rows, self.table), self.key)
                    )
        except psycopg.Error as error:
            raise failures.of_a_statement(error, self.table) from error
        self._exists = True
        return True

    def _found(self, connection: psycopg.Connection[Any], table: Identifier) -> bool:
        found = connection.execute("SELECT to_regclass($1)", (table.as_string(connection),)).fetchone()
        return found is not None and found[0] is not None

    def _alone(self, connection: psycopg.Connection[Any]) -> None:
        # Even with IF NOT EXISTS, of two concurrent CREATE TABLE one fails.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('gearshift'))")


def _position(row: Row | Entry) -> _Position:
    """A row's position in its partition: leader epoch and offset of its record, and its index among the record's rows.

    Epoch and offset grow along a log; after a truncation offsets are reused under a later leader.
    """
    epoch = row.record.leader_epoch
    return -1 if epoch is None else epoch, row.record.offset, row.index


def _is_later(position: _Position, last: _Position) -> bool:
    """Whether a row is later than another.

    >>> _is_later((2, 7, 0), (1, 9, 0)), _is_later((1, 7, 0), (1, 9, 0)), _is_later((2, 7, 0), (-1, 9, 0))
    (True, False, False)
    """
    # Without an epoch, as in offsets stored by old versions, only the offsets are compared.
    return position[1:] > last[1:] if -1 in (position[0], last[0]) else position > last


def _bound(value: Any) -> Any:
    value = plain(value)
    return Jsonb(value, dumps=as_json) if is_nested(value) else value
