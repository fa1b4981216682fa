"""What handlers return, as columns of a table: shared by the stores."""

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
    """Returned by a handler for a row to be deleted: `Delete(meter_id="m1")`.

    >>> Delete(meter_id="m1").columns
    {'meter_id': 'm1'}
    """

    def __init__(self, **columns: Any) -> None:
        self.columns: Mapping[str, Any] = columns

    def __repr__(self) -> str:
        return f"Delete({', '.join(f'{name}={value!r}' for name, value in self.columns.items())})"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row to write or to delete: its columns, and the record it came from."""

    columns: Mapping[str, Any]
    deletes: bool
    record: Record[Any]
    index: int = 0
    type: type[Any] | None = None
    """The dataclass that says what its columns are, where it is one."""
    change: Change[Any] | None = None
    """The change of a captured table that it is."""

    @property
    def empties(self) -> bool:
        """Whether it stands for all rows of the table: the source's was truncated."""
        return self.change is not None and self.change.op is Op.TRUNCATE


def split(table: str, *, parts: tuple[int, ...]) -> tuple[str, ...]:
    """The names in a table's name.

    >>> split("power.readings", parts=(2,))
    ('power', 'readings')
    """
    names = tuple(table.split("."))
    if len(names) not in parts or not all(names):
        hint = "write keyspace.table" if parts == (2,) else "write table or schema.table"
        raise DefinitionError(f"{table!r} is no table's name", hint=hint)
    return names


def key_columns(key: str | Sequence[str]) -> tuple[str, ...]:
    """A key as declared, as columns."""
    columns = (key,) if isinstance(key, str) else tuple(key)
    if len(set(columns)) != len(columns) or not all(columns):
        raise DefinitionError(f"key={key!r} is no list of columns", hint="name each column once")
    return columns


def entries(rows: Iterable[Row], key: tuple[str, ...], table: str) -> list[Entry]:
    """The rows with their columns, in their order; a value of None is nothing to write."""
    found: list[Entry] = []
    for row in rows:
        value: Any = row.value
        if isinstance(value, Change):
            found += _entries_of(cast("Change[Any]", value), row, key, table)
        elif value is not None:
            found.append(_entry(value, row, key, table))
    return found


def _entries_of(change: Change[Any], row: Row, key: tuple[str, ...], table: str) -> list[Entry]:
    """What a change of a captured table does to a copy of it."""
    if change.op is Op.MESSAGE:
        return []  # it is of no table
    if change.op is Op.TRUNCATE:
        return [Entry({}, True, row.record, row.index, change=change)]
    before = _columns(change.before) or {}
    old = Delete(**{**before, **(change.key or {})})
    if change.after is None:
        return [_entry(old, row, key, table, change)]
    new = _entry(change.after, row, key, table, change)
    if before and any(name in before and before[name] != new.columns[name] for name in key):
        return [
            _entry(Delete(**before), row, key, table, change),
            new,
        ]  # it has another place in the copy now
    return [new]


def _entry(
    value: Any, row: Row, key: tuple[str, ...], table: str, change: Change[Any] | None = None
) -> Entry:
    columns = _columns(value)
    if columns is None:
        raise refused(
            f"{type(value).__name__} is no row for {table}",
            "return a dataclass, a mapping of columns, a Change or a Delete",
            row.record,
        )
    deletes = isinstance(value, Delete)
    if deletes and not key:
        raise refused(f"{value!r} cannot be deleted from {table}", "declare the table's key=(…)", row.record)
    for name in key:
        if name not in columns:
            raise misconfigured(
                f"a row for {table} has no key column {name}",
                "return it with every row, or declare another key=",
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
    """The error for a row that no retry will bring into a table."""
    if record is None:
        return PermanentError(what, hint=hint)
    return PermanentError(
        what, hint=hint, topic=record.topic, partition=record.partition, offset=record.offset
    )


def misconfigured(what: str, hint: str, record: Record[Any] | None = None) -> DeliveryError:
    """The error for a table and rows that do not fit by their names: no record is at fault, so the delivery stops."""
    if record is None:
        return DeliveryError(what, hint=hint)
    return DeliveryError(
        what, hint=hint, topic=record.topic, partition=record.partition, offset=record.offset
    )


@dataclass(frozen=True, slots=True)
class Json:
    """The kind of a column whose values are nested."""


@dataclass(frozen=True, slots=True)
class Many:
    """The kind of a column of lists."""

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
    """What the columns are, by the dataclass of the rows or by the values of the mappings."""
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
        return {}  # no value type of ours: its values tell


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
    """A value as a driver takes it: the word for an Enum's member, and lists for tuples.

    >>> plain((1, 2))
    [1, 2]
    """
    if isinstance(value, Enum):
        words = shapes.EnumOf(type(value)).members
        return next(word for word, member in words.items() if member is value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return value


def is_nested(value: Any) -> bool:
    """Whether a value goes into a table as JSON.

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
    raise TypeError(f"{type(value).__name__} has no JSON")
