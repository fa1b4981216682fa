"""Debezium's change events: from the bytes of a record to a typed change, with or without Connect's schema."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar, cast

from gearshift.errors import DecodeError
from gearshift.record import Change, Op
from gearshift.schemas import debezium_values as values
from gearshift.schemas.decoding import decoder
from gearshift.schemas.encoding import EPOCH, Misfit
from gearshift.schemas.shapes import describe

__all__ = ["Change", "ChangeDecoder", "Op"]

T = TypeVar("T")

LARGEST = 16 << 20  # bytes of a record that are parsed; Kafka's own limit is a tenth of it
_JSON = json.JSONDecoder(parse_float=values.Number)
_UNCHANGED = "__debezium_unavailable_value"
_UNCHANGED_FORMS = (_UNCHANGED, base64.b64encode(_UNCHANGED.encode()).decode())


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
        timestamps: values.Unit | None = None,
        read: Callable[[bytes], Any] | None = None,
    ) -> None:
        """Say `replica_identity_full` where the table is so in PostgreSQL, or there is no `before`.

        `timestamps` is the unit of numbers that stand for instants where Connect's schema does not tell. `read` makes
        bytes a key or an envelope with its logical types applied, or raises Misfit; without, they are JSON.
        """
        shape = describe(row)
        self._row = row
        self._full = replica_identity_full
        self._read_bytes = read or _unwrapped
        decoding = values.decoding(timestamps)
        self._to_row = decoder(shape, decoding)
        self._fields = {field.name: decoder(field.shape, decoding) for field in shape.fields}

    def decode(self, key: bytes | None, value: bytes | None) -> Change[T] | None:
        """The change, or None for a tombstone, the empty record that follows a delete; raises DecodeError."""
        if value is None:
            return None
        try:
            return self._change(self._datum(key, "key") if key else None, self._datum(value))
        except Misfit as misfit:
            raise DecodeError(f"no change of {self._row.__name__}: {misfit}", hint=_hint(misfit)) from None

    def _datum(self, data: bytes, *inside: str) -> Any:
        try:
            if len(data) > LARGEST:
                raise Misfit(f"is {len(data)} bytes long, and {LARGEST} are read at most")
            return self._read_bytes(data)
        except Misfit as misfit:
            raise misfit.inside(inside[0]) if inside else misfit from None

    def _change(self, key: Any, envelope: Any) -> Change[T]:
        if not isinstance(envelope, dict) or "op" not in envelope:
            raise Misfit("is not Debezium's envelope: there is no op", ("op",))
        found = cast("dict[str, Any]", envelope)
        try:
            op = Op(found["op"])
        except ValueError:
            raise Misfit("is no operation of Debezium's", ("op",)) from None
        before, after = found.get("before"), found.get("after")
        if op in (Op.CREATE, Op.UPDATE, Op.READ) and after is None:
            raise Misfit("is missing", ("after",))
        return Change(
            op=op,
            before=self._read(before, "before") if before is not None and self._is_known(found) else None,
            after=None if after is None else self._read(after, "after"),
            key=self._key(cast("dict[str, Any]", key)) if isinstance(key, dict) else None,
            source_time=_source_time(found),
            position=_position(found),
        )

    def _key(self, key: Mapping[str, Any]) -> dict[str, Any]:
        """The primary key, with the types that the row has for its columns."""
        try:
            return {
                name: self._fields[name](datum) if name in self._fields else datum
                for name, datum in key.items()
            }
        except Misfit as misfit:
            raise misfit.inside("key") from None

    def _is_known(self, envelope: Mapping[str, Any]) -> bool:
        # PostgreSQL sends the key alone unless told otherwise, and Debezium then makes up what may not be null: a
        # deleted row comes with '', 0.00 and 1970 as if it had held them. Nothing in the record tells.
        return self._full or _source(envelope).get("connector") != "postgresql"

    def _read(self, row: Any, part: str) -> T:
        try:
            if isinstance(row, dict):
                for name, datum in cast("dict[str, Any]", row).items():
                    if isinstance(datum, str) and datum in _UNCHANGED_FORMS:
                        raise Misfit("was not sent: it is large and did not change", (name,))
            return self._to_row(row)
        except Misfit as misfit:
            raise misfit.inside(part) from None


def _unwrapped(data: bytes) -> Any:
    """The JSON, out of Connect's `{"schema": …, "payload": …}` if it is in one, its logical types applied."""
    try:
        # Numbers keep every digit until the field's own type is known.
        found: Any = _JSON.decode(data.decode("utf-8"))
        wrapped = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if wrapped.keys() == {"schema", "payload"}:
            return values.apply(wrapped["schema"], wrapped["payload"])
        return cast("Any", found)
    except RecursionError:
        raise Misfit("the JSON is nested too deeply") from None
    except ValueError as error:
        raise Misfit(f"not readable as JSON: {error}") from None


def _source(envelope: Mapping[str, Any]) -> dict[str, Any]:
    source = envelope.get("source")
    return cast("dict[str, Any]", source) if isinstance(source, dict) else {}


def _source_time(envelope: Mapping[str, Any]) -> datetime | None:
    source = _source(envelope)
    for place, found, unit in (
        (("source", "ts_us"), source.get("ts_us"), timedelta(microseconds=1)),
        (("source", "ts_ms"), source.get("ts_ms"), timedelta(milliseconds=1)),
        (("ts_ms",), envelope.get("ts_ms"), timedelta(milliseconds=1)),
    ):
        if found is None:
            continue
        if type(found) is not int:
            raise Misfit(f"is no number of {'micro' if place[-1] == 'ts_us' else 'milli'}seconds", place)
        try:
            return (EPOCH + found * unit).astimezone(UTC)
        except OverflowError:
            raise Misfit("is beyond the year 9999", place) from None
    return None


def _position(envelope: Mapping[str, Any]) -> int | None:
    """PostgreSQL's is the number of its log's byte, MySQL's that of the file and of the byte in it."""
    source = _source(envelope)
    found = source.get("lsn")
    if found is None and isinstance(source.get("file"), str) and type(source.get("pos")) is int:
        digits = re.search(r"[0-9]{1,8}$", source["file"])
        found = (int(digits[0]) << 36) + source["pos"] if digits is not None else None
    if found is not None and (type(found) is not int or not 0 <= found < 1 << 63):
        raise Misfit("is no place in a log", ("source",))
    return found


def _hint(misfit: Misfit) -> str | None:
    if misfit.path == ("op",):
        return "take the transform ExtractNewRecordState off the connector, or read the topic as plain rows"
    if "was not sent" in misfit.reason:
        return "ALTER TABLE … REPLICA IDENTITY FULL makes PostgreSQL send it"
    return None
