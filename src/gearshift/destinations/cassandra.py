"""Cassandra: rows upserted by key, where the last write by event time wins in whatever order they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from threading import Lock
from typing import Any

from pydantic import SecretStr

from gearshift.destinations import cassandra_failures as failures
from gearshift.destinations import cassandra_statements as statements
from gearshift.destinations.cassandra_driver import ContactPoints, connect
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
    refused,
    split,
)
from gearshift.errors import DefinitionError, StackError
from gearshift.record import Row
from gearshift.redaction import hide_in_url
from gearshift.rules.declared import located
from gearshift.settings import Settings
from gearshift.stack import find_service

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IN_KEY = ("partition_key", "clustering")
_TEXT = ("varchar", "text", "ascii")
_PARTITIONS = 100  # that one statement deletes
_NO_EVENT_TIME = "{} has no event_time, and its rows are not changes of a captured table"
_NAME_EVENT_TIME = "name the column that says when its rows happened: event_time='…'"
_NAME = re.compile(r"\w{1,48}", re.ASCII)  # Cassandra's own rule


class Cassandra:
    """A table that rows are upserted into by their key, each with its event time as the time of the write.

    The first column of the key is the partition key, the others order the rows within it. A row that comes again,
    late or from a consumer that has lost its partition, changes nothing that a later event has written. A
    `gs.Change` of a captured table needs no event time: its place in the database's log says what is later.
    """

    batch: int = 500

    @located
    def __init__(
        self,
        *,
        table: str,
        key: str | Sequence[str],
        event_time: str | None = None,
        contact_points: str | None = None,
        create: bool = True,
        replication: int | Mapping[str, int] = 1,
    ) -> None:
        self.table = table
        self.key = key_columns(key)
        self.event_time = event_time
        self.create = create
        self.replication = replication
        if not self.key:
            raise DefinitionError(f"{table} has no key", hint="name the columns that tell its rows apart")
        self._keyspace, self._name = split(table, parts=(2,))
        if not all(_NAME.fullmatch(name) for name in (self._keyspace, self._name)):
            raise DefinitionError(
                f"{table!r} is no table's name in Cassandra", hint="use up to 48 of A-Z, a-z, 0-9 and _"
            )
        hide_in_url(contact_points)
        if contact_points is not None:
            ContactPoints.read(contact_points)
        self._contact_points = None if contact_points is None else SecretStr(contact_points)
        self._settings: Settings | None = None
        self._place = ""
        self._cluster: Any = None
        self._session: Any = None
        self._prepared: dict[str, Any] = {}
        self._exists = not create
        self._creating = Lock()

    def __repr__(self) -> str:
        return f"Cassandra(table={self.table!r}, key={self.key!r}, event_time={self.event_time!r})"

    @property
    def needs(self) -> str | None:
        """The service of the stack that it writes to, unless it was told where its cluster is."""
        return "cassandra" if self._contact_points is None else None

    def locate(self, settings: Settings) -> None:
        """Say which settings tell where the cluster is; without, those of the working directory do."""
        self._settings = settings

    def open(self, group_id: str) -> None:
        """Connect."""
        found = self._contact_points or find_service("cassandra", self._settings)
        points = ContactPoints.read(found.get_secret_value())
        self._place = points.place
        try:
            self._cluster, self._session = connect(points, name=f"gearshift {group_id}")
        except failures.DRIVER_ERRORS as error:
            raise failures.at_the_door(error, points.place) from None

    def check(self, handler: Callable[..., Any], *, captured: bool) -> None:
        """Compare the table with the rows that will come, so that a wrong setup costs no record."""
        returns = returns_of(handler, captured=captured)
        if self.event_time is None and not returns.changes:
            raise misconfigured(_NO_EVENT_TIME.format(self.table), _NAME_EVENT_TIME)
        needed = self.key if self.event_time is None else (*self.key, self.event_time)
        columns = needed if returns.columns is None else returns.columns
        if lacking := [name for name in needed if name not in columns]:
            what = "key" if lacking[0] in self.key else "event_time"
            raise misconfigured(
                f"the rows for {self.table} have no {what} column {lacking[0]}",
                f"return it with every row, or declare another {what}=",
            )
        try:
            found = {
                row.column_name: row.kind
                for row in self._session.execute(statements.FIND_COLUMNS, (self._keyspace, self._name))
            }
        except failures.DRIVER_ERRORS as error:
            raise failures.of_a_statement(error, self.table, self._place) from error
        if not found:
            if self.create:
                return
            raise misconfigured(f"{self.table} does not exist", "create it, or leave create=True")
        if lacking := [name for name in columns if name not in found]:
            raise misconfigured(
                f"{self.table} has no column {lacking[0]}",
                "add it to the table, or leave it out of the rows",
            )
        if returns.columns is not None and (
            lacking := [
                name for name, kind in found.items() if kind in _IN_KEY and name not in returns.columns
            ]
        ):
            raise misconfigured(
                f"the rows for {self.table} have no column {lacking[0]}, which is part of its primary key",
                "return it with every row",
            )

    def write(self, rows: Sequence[Row]) -> None:
        """Write the rows side by side; returns when all of them are safe."""
        written = entries(rows, self.key, self.table)
        if not written:
            return
        if self._session is None:
            raise StackError(f"{self!r} is not open")
        try:
            if not self._create(written):
                return
        except failures.DRIVER_ERRORS as error:
            raise failures.of_a_statement(error, self.table, self._place) from error
        for empties, some in groupby(written, key=lambda entry: entry.empties):
            for group in [[entry] for entry in some] if empties else [list(some)]:
                self._send(group)

    def _send(self, written: Sequence[Entry]) -> None:
        """Write entries side by side, and wait for all of them; one that empties the table comes alone."""
        empties, together = written[0].empties, self.batch
        try:
            bound = self._emptying(written[0]) if empties else [self._bind(entry) for entry in written]
        except failures.DRIVER_ERRORS as error:
            raise failures.of_a_statement(error, self.table, self._place) from error
        if empties:  # a table of any size, at the pace of other writes
            together = max(1, together // _PARTITIONS)
        for place in range(0, len(bound), together):
            self._send_together(bound[place : place + together])

    def _send_together(self, bound: Sequence[Any]) -> None:
        sent: list[Any] = []
        errors: list[Exception] = []
        try:
            for statement in bound:
                sent.append(self._session.execute_async(statement))
        except failures.DRIVER_ERRORS as error:
            errors.append(error)
        for future in sent:
            try:
                future.result()
            except failures.DRIVER_ERRORS as error:
                errors.append(error)
        if errors:
            # What may pass comes first: a row that will never fit shows again when the others are through.
            explained = [failures.of_a_statement(error, self.table, self._place) for error in errors]
            raise next((one for one in explained if one.retriable), explained[0]) from errors[0]

    def flush(self) -> None:
        """Nothing is left to do: `write` waits for the answers."""

    def close(self) -> None:
        """Disconnect."""
        if self._cluster is not None:
            self._cluster.shutdown()
        self._cluster = self._session = None
        self._prepared = {}

    def _create(self, written: Sequence[Entry]) -> bool:
        """Make the table if it is missing; False if it is and there is only something to delete from it."""
        if self._exists:
            return True
        rows = [entry for entry in written if not entry.deletes]
        with self._creating:
            # Looked for first: who may only write rows need not be allowed to create.
            if not self._session.execute(statements.FIND_TABLE, (self._keyspace, self._name)).one():
                if not rows:
                    return False
                if not self._session.execute(statements.FIND_KEYSPACE, (self._keyspace,)).one():
                    self._session.execute(statements.create_keyspace(self._keyspace, self.replication))
                columns = kinds(rows, self.table)
                self._session.execute(statements.create_table(self._keyspace, self._name, columns, self.key))
            self._exists = True
        return True

    def _bind(self, entry: Entry) -> Any:
        columns = self.key if entry.deletes else tuple(entry.columns)
        make = statements.delete if entry.deletes else statements.upsert
        prepared = self._prepare(make(self._keyspace, self._name, columns))
        written_at = self._written_at(entry)
        # USING TIMESTAMP stands before the key in a deletion and after the values in an insertion.
        specs: list[Any] = prepared.column_metadata[1:] if entry.deletes else prepared.column_metadata[:-1]
        values = [_taken(entry.columns[column], spec) for column, spec in zip(columns, specs, strict=True)]
        try:
            return prepared.bind([written_at, *values] if entry.deletes else [*values, written_at])
        except Exception as error:
            # The driver raises whatever its packing does: each of these is a value that does not fit.
            column = failures.misfit(columns, specs, values, prepared.protocol_version)
            raise refused(
                f"{f'column {column}' if column else 'a column'} of {self.table} does not take a value: {error}",
                "fix the value in the handler, or the table",
                entry.record,
            ) from error

    def _emptying(self, entry: Entry) -> list[Any]:
        """Deletions of all that was there before the source was truncated; TRUNCATE itself would know no before."""
        key = self.key[0]
        found = [
            row[0] for row in self._session.execute(statements.partitions(self._keyspace, self._name, key))
        ]
        prepared = self._prepare(statements.delete_partitions(self._keyspace, self._name, key))
        written_at = self._written_at(entry)
        return [
            prepared.bind([written_at, found[place : place + _PARTITIONS]])
            for place in range(0, len(found), _PARTITIONS)
        ]

    def _prepare(self, statement: str) -> Any:
        prepared = self._prepared.get(statement)
        if prepared is None:
            try:
                prepared = self._session.prepare(statement)
            except failures.DRIVER_ERRORS as error:
                raise failures.of_a_preparation(error, self.table, self._place) from error
            prepared.is_idempotent = True
            self._prepared[statement] = prepared
        return prepared

    def _written_at(self, entry: Entry) -> int:
        """The event time in microseconds, Cassandra's measure of what was written last."""
        if entry.change is not None and entry.change.position is not None:
            # Changes of one transaction have one time, and a clock may be set back; the log's order is the rows' own.
            return entry.change.position
        when = entry.columns.get(self.event_time) if self.event_time is not None else None
        if entry.change is not None and self.event_time is None:
            when = entry.change.source_time
        elif self.event_time is None:
            raise misconfigured(_NO_EVENT_TIME.format(self.table), _NAME_EVENT_TIME, entry.record)
        elif self.event_time not in entry.columns:
            raise misconfigured(
                f"a row for {self.table} has no event_time column {self.event_time}",
                "return it with every row, and with every Delete",
                entry.record,
            )
        if not isinstance(when, datetime) or when.tzinfo is None:
            raise refused(
                f"the event time{f' {self.event_time}' if self.event_time else ''} of a row for {self.table} is {when!r}",
                "give it a datetime with a time zone",
                entry.record,
            )
        return (when - _EPOCH) // timedelta(microseconds=1)


def _taken(value: Any, spec: Any) -> Any:
    value = plain(value)
    if spec.type.typename in _TEXT and (is_nested(value) or isinstance(value, list)):
        return as_json(value)
    return value
