"""Decodes Debezium's change events to typed changes, with or without Connect's schema."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar, cast

from gearshift.errors import DecodeError
from gearshift.record import Change, Op
from gearshift.schemas.debezium import values
from gearshift.schemas.encoding import EPOCH, Misfit
from gearshift.schemas.json.decoding import Decoding, decoder
from gearshift.schemas.payloads import require_shallow
from gearshift.schemas.shapes import OptionalOf, RecordOf, describe

__all__ = ["Change", "ChangeDecoder", "Op"]

T = TypeVar("T")

EPOCH_FIELD = "gearshift_epoch"
"""Field that the connectors of app.cdc add to every envelope: the start of their snapshot in microseconds."""
LARGEST = 16 << 20  # bytes of a record; Kafka's default limit is a tenth of it
_JSON = json.JSONDecoder(parse_float=values.number, parse_constant=values.refuse_constant)
_UNCHANGED = "__debezium_unavailable_value"
UNCHANGED_FORMS: tuple[Any, ...] = (
    _UNCHANGED,
    base64.b64encode(_UNCHANGED.encode()).decode(),
    [_UNCHANGED],
    [*_UNCHANGED.encode()],
    {_UNCHANGED: _UNCHANGED},
    _UNCHANGED.encode(),
)
"""Debezium's placeholders for a large value that PostgreSQL did not send: in texts, bytes, arrays and maps."""


class ChangeDecoder(Generic[T]):
    """Reads the records of one table's topic as changes of rows of a dataclass.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Order:
    ...     id: int
    >>> change = ChangeDecoder(Order).decode(b'{"id":1}', b'{"op":"c","before":null,"after":{"id":1}}')
    >>> change.op.name, change.after
    ('CREATE', Order(id=1))
    """

    def __init__(
        self,
        row: type[T],
        *,
        replica_identity_full: bool = False,
        ordered: bool = True,
        timestamps: values.Unit | None = None,
        read: Callable[[bytes], Any] | None = None,
    ) -> None:
        """Set `replica_identity_full` if the table has it in PostgreSQL; otherwise `before` is not decoded.

        `ordered` means that the topic has one partition, so that offsets give the order of all changes.
        `timestamps` is the unit of numbers that are times, if Connect's schema does not define it. `read` parses
        a key or an envelope and applies its logical types, or raises Misfit; the default reads JSON.
        """
        shape = describe(row)
        self._row = row
        self._full = replica_identity_full
        self._ordered = ordered
        self._read_key = read or _unwrapped
        self._read_envelope = read or _envelope
        self._readers = {
            ours: _Reader(shape, values.decoding(timestamps, unsigned=ours)) for ours in (True, False)
        }

    def decode(self, key: bytes | None, value: bytes | None, offset: int | None = None) -> Change[T] | None:
        """Decode a change; None for a tombstone, which follows a delete; raises DecodeError."""
        if value is None:
            return None
        try:
            found = _datum(key, self._read_key, "key") if key else None
            return self._change(found, _datum(value, self._read_envelope), offset)
        except Misfit as misfit:
            raise DecodeError(
                f"cannot be decoded as a change of {self._row.__name__}: {misfit}", hint=_hint(misfit)
            ) from None

    def _change(self, key: Any, envelope: Any, offset: int | None) -> Change[T]:
        if not isinstance(envelope, dict) or "op" not in envelope:
            raise Misfit("is not a Debezium envelope: it has no op", ("op",))
        found = cast("dict[str, Any]", envelope)
        try:
            op = Op(found["op"])
        except ValueError:
            raise Misfit("is not a Debezium operation", ("op",)) from None
        before, after = found.get("before"), found.get("after")
        reader = self._readers[EPOCH_FIELD in found]
        if op in (Op.CREATE, Op.UPDATE, Op.READ) and after is None:
            raise Misfit("is missing", ("after",))
        if op is Op.DELETE and before is None:
            raise Misfit("does not say which row was deleted: before is null")
        return Change(
            op=op,
            before=reader.row(before, "before") if before is not None and self._is_known(found) else None,
            after=None if after is None else reader.row(after, "after"),
            key=reader.key(cast("dict[str, Any]", key)) if isinstance(key, dict) else None,
            source_time=_source_time(found),
            position=_position(found, offset, ordered=self._ordered),
            epoch=(epoch := _epoch(found) if self._ordered else None),
            restarts=epoch is not None and bool(offset) and op is Op.READ and _is_first(found),
        )

    def _is_known(self, envelope: Mapping[str, Any]) -> bool:
        # By default PostgreSQL sends only the key, and Debezium then fills columns that are not nullable: a deleted row
        # has '', 0.00 and 1970 as if they were its values, and nothing in the record shows it.
        return self._full or _source(envelope).get("connector") != "postgresql"


class _Reader:
    """Reads rows and keys of one table."""

    def __init__(self, shape: RecordOf, decoding: Decoding) -> None:
        self._to_row = decoder(shape, decoding)
        self._fields = {field.name: decoder(field.shape, decoding) for field in shape.fields}
        self._read = {name for field in shape.fields for name in (field.name, *field.aliases)}
        self._optional = [
            (field.name, field.aliases)
            for field in shape.fields
            if isinstance(field.shape, OptionalOf) and not field.has_default
        ]

    def key(self, key: Mapping[str, Any]) -> dict[str, Any]:
        """The primary key, with the row's types."""
        try:
            return {
                name: self._fields[name](datum) if name in self._fields else datum
                for name, datum in key.items()
            }
        except Misfit as misfit:
            raise misfit.inside("key") from None

    def row(self, row: Any, part: str) -> Any:
        try:
            if isinstance(row, dict):
                row = self._completed(cast("dict[str, Any]", row))
            return self._to_row(row)
        except Misfit as misfit:
            raise misfit.inside(part) from None

    def _completed(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with null for each optional column that the source table no longer has."""
        for name, datum in row.items():
            if datum in UNCHANGED_FORMS and name in self._read:
                raise Misfit("was not sent, because it is large and did not change", (name,))
        absent = (name for name, aliases in self._optional if row.keys().isdisjoint((name, *aliases)))
        return row | dict.fromkeys(absent)


def _datum(data: bytes, read: Callable[[bytes], Any], *inside: str) -> Any:
    try:
        if len(data) > LARGEST:
            raise Misfit(f"has {len(data)} bytes, more than the limit of {LARGEST}")
        return read(data)
    except Misfit as misfit:
        raise misfit.inside(inside[0]) if inside else misfit from None


def _envelope(data: bytes) -> Any:
    """The same as `_unwrapped`, for an envelope: a column that its schema does not describe rightly is a misfit."""
    return _unwrapped(data, values.require_rows)


def _unwrapped(data: bytes, check: Callable[[Any], None] | None = None) -> Any:
    """Parse JSON, unwrap Connect's `{"schema": …, "payload": …}` and apply its logical types."""
    try:
        # Numbers keep every digit until the field's type is known.
        written = data.decode("utf-8")
        require_shallow(written)
        found: Any = _JSON.decode(written)
        wrapped = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if wrapped.keys() == {"schema", "payload"}:
            if check is not None:
                check(wrapped["schema"])
            return values.apply(wrapped["schema"], wrapped["payload"])
        return cast("Any", found)
    except ValueError as error:
        raise Misfit(f"not readable as JSON: {error}") from None


def _source(envelope: Mapping[str, Any]) -> dict[str, Any]:
    source = envelope.get("source")
    return cast("dict[str, Any]", source) if isinstance(source, dict) else {}


def _source_time(envelope: Mapping[str, Any]) -> datetime | None:
    source = _source(envelope)
    for path, found, unit in (
        (("source", "ts_us"), source.get("ts_us"), timedelta(microseconds=1)),
        (("source", "ts_ms"), source.get("ts_ms"), timedelta(milliseconds=1)),
        (("ts_ms",), envelope.get("ts_ms"), timedelta(milliseconds=1)),
    ):
        if found is None:
            continue
        if type(found) is not int:
            raise Misfit(f"is not a number of {'micro' if path[-1] == 'ts_us' else 'milli'}seconds", path)
        try:
            return (EPOCH + found * unit).astimezone(UTC)
        except OverflowError:
            raise Misfit("is after the year 9999", path) from None
    return None


def _position(envelope: Mapping[str, Any], offset: int | None, *, ordered: bool) -> int | None:
    """The epoch plus the topic's offset; without an epoch, PostgreSQL's LSN, or the offset alone.

    MySQL and MariaDB give all changes of a transaction the same log position, so only offsets give their order.
    """
    epoch = _epoch(envelope)
    if epoch is not None and ordered and offset is not None:
        return epoch + offset
    found = _source(envelope).get("lsn", offset)
    if found is not None and (type(found) is not int or not 0 <= found < 1 << 63):
        raise Misfit("is not a valid log position", ("source", "lsn"))
    return found


def _epoch(envelope: Mapping[str, Any]) -> int | None:
    epoch = envelope.get(EPOCH_FIELD)
    if epoch is not None and (not isinstance(epoch, str) or not re.fullmatch(r"[0-9]{1,18}", epoch)):
        raise Misfit("is not a valid epoch", (EPOCH_FIELD,))
    return None if epoch is None else int(epoch)


def _is_first(envelope: Mapping[str, Any]) -> bool:
    """Whether a row is the first of its table in a snapshot: `first` or `first_in_data_collection`."""
    return str(_source(envelope).get("snapshot")).startswith("first")


def _hint(misfit: Misfit) -> str | None:
    if misfit.path == ("op",):
        return (
            "remove the transform ExtractNewRecordState from the connector, or read the topic as plain rows"
        )
    if "was not sent" in misfit.reason:
        return "run ALTER TABLE … REPLICA IDENTITY FULL, so that PostgreSQL sends it"
    return None
