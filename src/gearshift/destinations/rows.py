"""Convert the return values of handlers to table rows, for all databases."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final, cast

from gearshift.errors import DefinitionError, DeliveryError, PermanentError, SchemaError
from gearshift.record import Change, Op, Record, Row
from gearshift.schemas import shapes


class Delete:
    """Returned by a handler to delete a row: `Delete(meter_id="m1")`.

    >>> Delete(meter_id="m1").columns
    {'meter_id': 'm1'}
    """

    def __init__(self, **columns: Any) -> None:
        self.columns: Mapping[str, Any] = columns

    def __repr__(self) -> str:
        return f"Delete({', '.join(f'{name}={value!r}' for name, value in self.columns.items())})"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row to write or delete, with the record it was made from."""

    columns: Mapping[str, Any]
    deletes: bool
    record: Record[Any]
    index: int = 0
    type: type[Any] | None = None
    """The dataclass that declares its columns, if there is one."""
    change: Change[Any] | None = None
    """The change, if it comes from a captured table."""

    @property
    def empties(self) -> bool:
        """Whether it deletes all rows, because the source table was truncated."""
        return self.change is not None and self.change.op is Op.TRUNCATE

    @property
    def position(self) -> int | None:
        """Its place among all changes of a table that `app.cdc` captures, through every new snapshot."""
        return None if self.change is None or self.change.epoch is None else self.change.position


def split(table: str, *, parts: tuple[int, ...]) -> tuple[str, ...]:
    """Split a qualified table name.

    >>> split("power.readings", parts=(2,))
    ('power', 'readings')
    """
    names = tuple(table.split("."))
    if len(names) not in parts or not all(names):
        hint = "write keyspace.table" if parts == (2,) else "write table or schema.table"
        raise DefinitionError(f"invalid table name {table!r}", hint=hint)
    return names


def key_columns(key: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of a declared key."""
    columns = (key,) if isinstance(key, str) else tuple(key)
    if len(set(columns)) != len(columns) or not all(columns):
        raise DefinitionError(f"key={key!r} is not a list of distinct columns", hint="name each column once")
    return columns


def entries(rows: Iterable[Row], key: tuple[str, ...], table: str) -> list[Entry]:
    """The rows as entries, in order; None is skipped."""
    found: list[Entry] = []
    for row in rows:
        value: Any = row.value
        if isinstance(value, Change):
            found += _entries_of(cast("Change[Any]", value), row, key, table)
        elif value is not None:
            found.append(_entry(value, row, key, table))
    return found


def still_valid(written: Iterable[Entry], since: int) -> tuple[list[Entry], int]:
    """Leave out changes from before the table last began again, and say since when the rest is valid.

    A table begins again at a truncate and at a new snapshot. What the connector of an earlier snapshot sends
    behind it is void, and so is a dead letter from before it.
    """
    found: list[Entry] = []
    for entry in written:
        if entry.position is not None and entry.position < since:
            continue
        if entry.position is not None and entry.empties:
            since = entry.position + 1
        found.append(entry)
    return found, since


def _entries_of(change: Change[Any], row: Row, key: tuple[str, ...], table: str) -> list[Entry]:
    """The writes and deletes that apply a change to a copy of the table."""
    if change.op is Op.MESSAGE:
        return []  # belongs to no table
    if change.op is Op.TRUNCATE:
        return [Entry({}, True, row.record, row.index, change=change)]
    replayed = row.record.origin[0] != row.record.topic
    if change.restarts and change.position is not None and not replayed:
        # A connector that was killed takes its snapshot again, without the rows that went in the meantime. A dead letter
        # that is replayed comes too late for that: the other rows of its snapshot are there.
        emptied = dataclasses.replace(
            change, op=Op.TRUNCATE, before=None, after=None, position=change.position - 1, restarts=False
        )
        again = dataclasses.replace(change, restarts=False)
        return [
            Entry({}, True, row.record, row.index, change=emptied),
            *_entries_of(again, row, key, table),
        ]
    before = _columns(change.before) or {}
    old = Delete(**{**before, **(change.key or {})})
    if change.after is None:
        return [_entry(old, row, key, table, change)]
    new = _entry(change.after, row, key, table, change)
    if before and any(name in before and before[name] != new.columns[name] for name in key):
        return [
            _entry(Delete(**before), row, key, table, change),
            new,
        ]  # its key has changed
    return [new]


def _entry(
    value: Any, row: Row, key: tuple[str, ...], table: str, change: Change[Any] | None = None
) -> Entry:
    columns = _columns(value)
    if columns is None:
        raise refused(
            f"{type(value).__name__} cannot be written to {table}",
            "return a dataclass, a mapping of columns, a Change or a Delete",
            row.record,
        )
    deletes = isinstance(value, Delete)
    if deletes and not key:
        raise refused(
            f"{value!r} cannot be deleted from {table}: it has no key", "declare the key: key=(…)", row.record
        )
    for name in key:
        if name not in columns:
            raise misconfigured(
                f"a row for {table} has no key column {name}",
                "return it with every row, or change key=",
                row.record,
            )
        if columns[name] is None:
            raise refused(f"the key column {name} of {table} is None", "return a value for it", row.record)
    kind = type(value) if dataclasses.is_dataclass(value) else None
    return Entry(columns, deletes, row.record, row.index, kind, change)


def _columns(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Delete):
        return value.columns
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def refused(what: str, hint: str, record: Record[Any] | None = None) -> PermanentError:
    """A permanent error for a row that cannot be written."""
    if record is None:
        return PermanentError(what, hint=hint)
    return PermanentError(
        what, hint=hint, topic=record.topic, partition=record.partition, offset=record.offset
    )


def misconfigured(what: str, hint: str, record: Record[Any] | None = None) -> DeliveryError:
    """An error for a table that does not match the rows: no single record is the cause, so the delivery stops."""
    if record is None:
        return DeliveryError(what, hint=hint)
    return DeliveryError(
        what, hint=hint, topic=record.topic, partition=record.partition, offset=record.offset
    )


@dataclass(frozen=True, slots=True)
class Json:
    """A column with nested values."""


@dataclass(frozen=True, slots=True)
class Many:
    """A column with lists."""

    of: shapes.Scalar | shapes.DecimalOf


Kind = shapes.Scalar | shapes.DecimalOf | Many | Json

_KINDS: Final[Mapping[type[Any], shapes.Scalar | shapes.DecimalOf]] = {
    bool: shapes.Scalar.BOOLEAN,
    int: shapes.Scalar.LONG,
    float: shapes.Scalar.DOUBLE,
    str: shapes.Scalar.STRING,
    bytes: shapes.Scalar.BYTES,
    datetime: shapes.Scalar.TIMESTAMP,
    date: shapes.Scalar.DATE,
    Decimal: shapes.DecimalOf(),
}


def kinds(written: Iterable[Entry], table: str) -> dict[str, Kind]:
    """The kinds of the columns, from the dataclass of the rows or from the values of mappings."""
    found: dict[str, Kind] = {}
    unknown: dict[str, Record[Any]] = {}
    for entry in written:
        declared = _declared(entry.type) if entry.type is not None else {}
        for name, value in entry.columns.items():
            if name in found:
                continue
            kind = declared.get(name) or _seen(value)
            if kind is None:
                unknown[name] = entry.record
            else:
                found[name] = kind
    for name, record in unknown.items():
        if name not in found:
            raise misconfigured(
                f"{table} cannot be created: the first values of column {name} are None, so its type is unknown",
                "create the table yourself, or return a dataclass",
                record,
            )
    return found


@cache
def _declared(kind: type[Any]) -> dict[str, Kind]:
    try:
        return {field.name: _of_shape(field.shape) for field in shapes.describe(kind).fields}
    except SchemaError:
        return {}  # not a supported value type: inferred from its values


def _of_shape(shape: shapes.Shape) -> Kind:
    if isinstance(shape, shapes.OptionalOf):
        return _of_shape(shape.item)
    if isinstance(shape, shapes.EnumOf):
        return shapes.Scalar.STRING
    if isinstance(shape, shapes.ListOf):
        item = _of_shape(shape.item)
        return Json() if isinstance(item, Many | Json) else Many(item)
    return Json() if isinstance(shape, shapes.MapOf | shapes.RecordOf) else shape


def _seen(value: Any) -> Kind | None:
    if value is None:
        return None
    if isinstance(value, Enum):
        return shapes.Scalar.STRING
    for kind in type(value).__mro__:
        if kind in _KINDS:
            return _KINDS[kind]
    if isinstance(value, list | tuple):
        items = [_seen(item) for item in cast("Sequence[Any]", value)]
        first = next(iter(items), None)
        return (
            Many(first)
            if isinstance(first, shapes.Scalar | shapes.DecimalOf) and len({*items}) == 1
            else Json()
        )
    return Json()


def plain(value: Any) -> Any:
    """Convert a value for a driver: an Enum member to its text, a tuple to a list.

    >>> plain((1, 2))
    [1, 2]
    """
    if isinstance(value, Enum):
        members = shapes.EnumOf(type(value)).members
        return next(text for text, member in members.items() if member is value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return value


def is_nested(value: Any) -> bool:
    """Whether a value is stored as JSON.

    >>> is_nested({"kw": 2.5}), is_nested([1, 2]), is_nested([[1], [2]])
    (True, False, True)
    """
    return isinstance(_seen(value), Json) and (
        isinstance(value, Mapping | list | tuple) or dataclasses.is_dataclass(value)
    )


def as_json(value: Any) -> str:
    """A nested value as JSON."""
    return json.dumps(value, default=_jsonable, ensure_ascii=False)


def _jsonable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON serializable")
