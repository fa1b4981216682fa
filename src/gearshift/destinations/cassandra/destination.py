"""Cassandra: rows upserted by key; the write with the latest event time wins, in any order of arrival."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from threading import Lock
from typing import Any

from pydantic import SecretStr

from gearshift.destinations.cassandra import failures, statements
from gearshift.destinations.cassandra.driver import ContactPoints, connect, together
from gearshift.destinations.cassandra.write_times import WriteTimes
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
    still_valid,
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
_EMPTIED = 500  # partitions at once, at the pace of other writes
_NO_EVENT_TIME = "{} has no event_time, and its rows are not changes of a captured table"
_NAME_EVENT_TIME = "name the column with the time of the event: event_time='…'"
_ONE_CELL = re.compile(
    "frozen<.*>|vector<.*>|ascii|bigint|blob|boolean|date|decimal|double|duration|float|inet|int|smallint|text|time"
    "|timestamp|timeuuid|tinyint|uuid|varchar|varint"
)
"""Types whose values have a write timestamp."""
_NAME = re.compile(r"\w{1,48}", re.ASCII)  # the rule of Cassandra


class Cassandra:
    """Upserts rows into a table by key, with the event time as the write timestamp.

    The first column of the key is the partition key, the others are clustering columns. A row that is delivered again,
    late or by a consumer that has lost its partition, does not overwrite a later event. Of two rows with the same event
    time that of the later record wins as a whole (except that a row deleted at that time, before a restart, stays
    deleted). A `gs.Change` of a captured table needs no event time: it is ordered by its log position.
    """

    batch_size: int = 500

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
            raise DefinitionError(f"{table} has no key", hint="name the columns that identify a row")
        self._keyspace, self._name = split(table, parts=(2,))
        if not all(_NAME.fullmatch(name) for name in (self._keyspace, self._name)):
            raise DefinitionError(
                f"invalid Cassandra table name {table!r}",
                hint="use up to 48 of the characters A-Z, a-z, 0-9 and _",
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
        self._has_beginnings = False
        self._creating = Lock()
        self._times = WriteTimes()
        self._timed: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"Cassandra(table={self.table!r}, key={self.key!r}, event_time={self.event_time!r})"

    @property
    def needs(self) -> str | None:
        """The local service that it needs, if it was declared without contact points."""
        return "cassandra" if self._contact_points is None else None

    def locate(self, settings: Settings) -> None:
        """Set the settings used to find the cluster; by default those of the working directory."""
        self._settings = settings

    def open(self, group_id: str) -> None:
        """Connect."""
        found = self._contact_points or find_service("cassandra", self._settings)
        points = ContactPoints.read(found.get_secret_value())
        self._place = points.place
        try:
            self._cluster, self._session = connect(points, name=f"gearshift {group_id}")
        except failures.DRIVER_ERRORS as error:
            raise failures.of_a_connection(error, points.place) from None

    def check(self, handler: Callable[..., Any], *, captured: bool) -> None:
        """Compare the table with the handler's return type, before the first record."""
        returns = returns_of(handler, captured=captured)
        if self.event_time is None and not returns.changes:
            raise misconfigured(_NO_EVENT_TIME.format(self.table), _NAME_EVENT_TIME)
        needed = self.key if self.event_time is None else (*self.key, self.event_time)
        columns = needed if returns.columns is None else returns.columns
        if lacking := [name for name in needed if name not in columns]:
            what = "key" if lacking[0] in self.key else "event_time"
            raise misconfigured(
                f"the rows for {self.table} have no {what} column {lacking[0]}",
                f"return it with every row, or change {what}=",
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
            raise misconfigured(f"{self.table} does not exist", "create the table first, or set create=True")
        if lacking := [name for name in columns if name not in found]:
            raise misconfigured(
                f"{self.table} has no column {lacking[0]}",
                "add it to the table, or remove it from the rows",
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
        """Write the rows concurrently; returns when all of them are durable."""
        written = entries(rows, self.key, self.table)
        if not written:
            return
        if self._session is None:
            raise StackError(f"{self!r} is not open")
        try:
            if not self._create(written):
                return
            valid, _ = still_valid(written, self._since(written))
            for empties, some in groupby(valid, key=lambda entry: entry.empties):
                if empties:
                    for entry in some:
                        self._empty(entry)
                else:
                    group = list(some)
                    self._learn(group)
                    self._send([self._bind(entry) for entry in group])
        except failures.DRIVER_ERRORS as error:
            raise failures.of_a_statement(error, self.table, self._place) from error

    def _send(self, bound: Sequence[Any]) -> None:
        """Send statements side by side, and wait for all of them."""
        for place in range(0, len(bound), self.batch_size):
            self._send_together(bound[place : place + self.batch_size])

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
            # Retriable errors first: a permanent one is raised again when the other rows are written.
            explained = [failures.of_a_statement(error, self.table, self._place) for error in errors]
            raise next((one for one in explained if one.retriable), explained[0]) from errors[0]

    def flush(self) -> None:
        """Do nothing: `write` waits for the answers."""

    def close(self) -> None:
        """Disconnect."""
        if self._cluster is not None:
            self._cluster.shutdown()
        self._cluster = self._session = None
        self._prepared = {}

    def _create(self, written: Sequence[Entry]) -> bool:
        """Create the table if it is missing; False if it is missing and there are only rows to delete."""
        if self._exists:
            return True
        rows = [entry for entry in written if not entry.deletes]
        with self._creating:
            # Check first, so that the user needs no permission to create tables.
            if not self._session.execute(statements.FIND_TABLE, (self._keyspace, self._name)).one():
                if not rows:
                    return False
                if not self._session.execute(statements.FIND_KEYSPACE, (self._keyspace,)).one():
                    self._session.execute(statements.create_keyspace(self._keyspace, self.replication))
                columns = kinds(rows, self.table)
                self._session.execute(statements.create_table(self._keyspace, self._name, columns, self.key))
            self._exists = True
        return True

    def _learn(self, written: Sequence[Entry]) -> None:
        """Read the write timestamps of unknown keys, so that ties are resolved the same after a restart."""
        if self.event_time is None:
            return
        unknown = {
            key: entry
            for entry in written
            if (entry.change is None or entry.change.position is None)
            and (key := self._key_of(entry)) not in self._times
        }
        columns = self._timed_columns() if unknown else ()
        if not columns:
            return
        prepared = self._prepare(statements.write_times(self._keyspace, self._name, columns, self.key))
        asked: list[tuple[Any, Entry, Any]] = []
        for key, entry in unknown.items():
            specs = prepared.column_metadata
            values = [_taken(entry.columns[name], spec) for name, spec in zip(self.key, specs, strict=True)]
            try:
                bound = prepared.bind(values)
            except Exception:  # the row itself is refused, with the reason
                continue
            asked.append((key, entry, self._session.execute_async(bound)))
        for key, entry, future in asked:
            row: Sequence[int | None] | None = future.result().one()
            times = [time for time in row or () if time is not None]
            if not times:
                continue
            in_key = self.event_time in self.key  # then rows of one key have one event time
            event_time = self._event_micros(entry) if in_key else (row or times)[0]
            if event_time is not None:
                self._times.learn(key, event_time, max(times))

    def _timed_columns(self) -> tuple[str, ...]:
        """The columns that have a write timestamp, the event time first."""
        if self._timed is None:
            found = self._session.execute(statements.FIND_COLUMNS, (self._keyspace, self._name))
            regular = [
                row.column_name for row in found if row.kind == "regular" and _ONE_CELL.fullmatch(row.type)
            ]
            self._timed = tuple(sorted(regular, key=lambda name: name != self.event_time))
        return self._timed

    def _key_of(self, entry: Entry) -> tuple[str, ...]:
        return tuple(str(entry.columns[name]) for name in self.key)

    def _bind(self, entry: Entry) -> Any:
        """The statement that writes an entry."""
        if entry.change is not None and entry.change.position is not None:
            # Changes of one transaction share a time, and clocks can go back; the log position is the real order.
            return self._bind_at(entry, entry.change.position, entry.columns)
        event_time = self._event_micros(entry)
        place = (entry.record.origin[2], entry.index)
        written_at = self._times.of(self._key_of(entry), event_time, place)
        if (
            written_at <= event_time
            or entry.deletes
            or self.event_time is None
            or self.event_time in self.key
        ):
            return self._bind_at(entry, written_at, entry.columns)
        others = [name for name in entry.columns if name != self.event_time]
        return together(
            self._bind_at(entry, event_time, [*self.key, self.event_time]),
            self._bind_at(entry, written_at, others),
        )

    def _bind_at(self, entry: Entry, written_at: int, wanted: Iterable[str]) -> Any:
        columns = self.key if entry.deletes else tuple(wanted)
        make = statements.delete if entry.deletes else statements.upsert
        prepared = self._prepare(make(self._keyspace, self._name, columns))
        # USING TIMESTAMP precedes the key in a DELETE and follows the values in an INSERT.
        specs: list[Any] = prepared.column_metadata[1:] if entry.deletes else prepared.column_metadata[:-1]
        values = [_taken(entry.columns[column], spec) for column, spec in zip(columns, specs, strict=True)]
        try:
            return prepared.bind([written_at, *values] if entry.deletes else [*values, written_at])
        except Exception as error:
            # The driver raises any exception of its serialization: each means an invalid value.
            column = failures.misfit(columns, specs, values, prepared.protocol_version)
            raise refused(
                f"{f'column {column}' if column else 'a column'} of {self.table} rejected a value: {error}",
                "fix the value in the handler, or the table",
                entry.record,
            ) from error

    def _empty(self, entry: Entry) -> None:
        """Delete all that was there before the source was truncated; TRUNCATE itself would know no before."""
        key = self.key[0]
        prepared = self._prepare(statements.delete_partitions(self._keyspace, self._name, key))
        position = None if entry.change is None else entry.change.position
        written_at = self._event_micros(entry) if position is None else position
        found = (
            row[0] for row in self._session.execute(statements.partitions(self._keyspace, self._name, key))
        )
        while some := list(islice(found, _EMPTIED)):
            self._send_together(
                [
                    prepared.bind([written_at, some[place : place + _PARTITIONS]])
                    for place in range(0, len(some), _PARTITIONS)
                ]
            )
        if entry.position is not None:
            # Only partitions that have rows can be deleted: what comes late for others is known by its position.
            since, topic = entry.position + 1, entry.record.origin[0]
            prepared = self._prepare(statements.set_beginning(self._keyspace))
            self._send_together([prepared.bind([self._name, topic, since, since])])

    def _since(self, written: Sequence[Entry]) -> int:
        """The position since which changes of the topic are valid; asked each time, as another consumer may set it."""
        if all(entry.position is None for entry in written):
            return 0
        if not self._has_beginnings:
            with self._creating:
                found = self._session.execute(
                    statements.FIND_TABLE, (self._keyspace, statements.BEGINNINGS)
                ).one()
                if not found:
                    self._session.execute(statements.create_beginnings(self._keyspace))
                self._has_beginnings = True
        prepared = self._prepare(statements.find_beginning(self._keyspace))
        found = self._session.execute(prepared.bind([self._name, written[0].record.origin[0]])).one()
        return 0 if found is None else found.since

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

    def _event_micros(self, entry: Entry) -> int:
        """The event time in microseconds, the unit of Cassandra's write timestamps."""
        when = entry.columns.get(self.event_time) if self.event_time is not None else None
        if entry.change is not None and self.event_time is None:
            when = entry.change.source_time
        elif self.event_time is None:
            raise misconfigured(_NO_EVENT_TIME.format(self.table), _NAME_EVENT_TIME, entry.record)
        elif self.event_time not in entry.columns:
            raise misconfigured(
                f"a row for {self.table} has no event_time column {self.event_time}",
                "return it with every row and every Delete",
                entry.record,
            )
        if not isinstance(when, datetime) or when.tzinfo is None:
            raise refused(
                f"the event time{f' {self.event_time}' if self.event_time else ''} of a row for {self.table} is {when!r}",
                "return a datetime with a time zone",
                entry.record,
            )
        return (when - _EPOCH) // timedelta(microseconds=1)


def _taken(value: Any, spec: Any) -> Any:
    value = plain(value)
    if spec.type.typename in _TEXT and (is_nested(value) or isinstance(value, list)):
        return as_json(value)
    return value
