"""Decodes the values in Debezium's rows: logical types, and their plain JSON forms without a schema."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Literal, cast

from gearshift.schemas.encoding import EPOCH, Convert, Misfit, is_a
from gearshift.schemas.json.decoding import Decoding, integer, text
from gearshift.schemas.shapes import DecimalOf, Scalar

Unit = Literal["ms", "us", "ns"]
_WIDE = Context(prec=80)


_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?", re.ASCII)
_SCALE = re.compile(r"[0-9]{1,2}", re.ASCII)
_UNSIGNED = re.compile(r"[A-Za-f][A-Za-z0-9+/]*={0,2}", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)
_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})Z?", re.ASCII)
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
    r"(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])?",
    re.ASCII,
)
LARGEST_SCALE, MOST_BYTES, MOST_DIGITS = 38, 16, 38


class Number(Decimal):
    """A JSON number with a point or an exponent, with all its digits and its text."""

    text: str

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made


class Real(Number):
    """A number that is a float or a double in Connect's schema, and so is not read as text."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A JSON number whose exponent is too large."""

    text: str


def apply(schema: Any, datum: Any) -> Any:
    """Apply the logical types of a Connect schema; values without one stay as in JSON."""
    if datum is None or not isinstance(schema, dict):
        return datum
    described = cast("dict[str, Any]", schema)
    name, parameters = described.get("name"), described.get("parameters")
    logical = _LOGICAL.get(name) if isinstance(name, str) else None
    if logical is not None:
        return logical(datum, cast("dict[str, Any]", parameters) if isinstance(parameters, dict) else {})
    kind = described.get("type")
    if kind == "struct" and isinstance(datum, dict):
        fields = _fields(described.get("fields"))
        return {name: _inside(name, fields.get(name), item) for name, item in _entries(datum)}
    if kind == "array" and isinstance(datum, list):
        items = cast("list[Any]", datum)
        return [_inside(f"[{index}]", described.get("items"), item) for index, item in enumerate(items)]
    if kind == "map" and isinstance(datum, dict):
        return {name: _inside(name, described.get("values"), item) for name, item in _entries(datum)}
    if kind == "bytes":
        return _octets(datum)
    return Real(datum.text) if kind in ("float", "double") and isinstance(datum, Number) else datum


def require_rows(schema: Any) -> None:
    """Misfit for a Connect schema that does not describe an envelope, or names a column of a row twice or not at all.

    A column would be read without its type, or by that of another.
    """
    if not isinstance(schema, dict):
        return
    for name, part in _struct(cast("dict[str, Any]", schema)).items():
        if name in ("before", "after"):
            _struct(part)


def _struct(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    fields: Any = schema.get("fields")
    names = [
        cast("dict[str, Any]", field).get("field") if isinstance(field, dict) else None
        for field in (cast("list[Any]", fields) if isinstance(fields, list) else [None])
    ]
    if schema.get("type") != "struct" or None in names or len(set(map(str, names))) < len(names):
        raise Misfit("has an invalid Connect schema")
    return _fields(fields)


def number(text: str) -> Number | Unreadable:
    """Parse a JSON number with a point or an exponent; one that is out of range is a misfit only if it is used."""
    return Number(text) if _NUMBER.fullmatch(text) else Unreadable(text)


def refuse_constant(text: str) -> Any:
    """Refuse NaN and Infinity, which Python accepts as JSON; Debezium sends them as text."""
    raise ValueError(f"{text} is not JSON")


def decoding(timestamps: Unit | None, *, unsigned: bool = False) -> Decoding:
    """How values of rows are decoded; `timestamps` is the unit of plain numbers for times.

    With `unsigned`, base64 in place of a number is MySQL's bigint unsigned. That holds for our connectors only; from
    others it may be a decimal of any scale.

    Pipelines decode by the same rules in SQL (`pipelines.records.debezium_values`), where a value is text by the time its
    type is known: so a number may come as text here, and a text column takes anything else as its JSON.
    """

    def to_instant(datum: Any) -> datetime:
        if isinstance(datum, datetime):
            return datum
        if type(datum) is int:
            if timestamps is None:
                raise Misfit(
                    "is a number, which may be milli- or microseconds: use time.precision.mode=isostring or "
                    "Connect's schemas, or set the unit with timestamps="
                )
            return _instant(datum, timestamps)
        return _iso_instant(datum)

    return Decoding(
        {
            Scalar.STRING: _text,
            Scalar.LONG: lambda datum: _integer(_unsigned(datum) if unsigned else datum),
            Scalar.DOUBLE: _double,
            Scalar.BOOLEAN: _truth,
            Scalar.BYTES: _octets,
            Scalar.TIMESTAMP: to_instant,
            Scalar.DATE: _day,
        },
        lambda shape: _decimal(shape, unsigned=unsigned),
    )


def _fields(described: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(described, list):
        raise Misfit("has an invalid Connect schema")
    fields = [cast("dict[str, Any]", one) for one in cast("list[Any]", described) if isinstance(one, dict)]
    return {str(field.get("field")): field for field in fields}


def _entries(datum: Any) -> list[tuple[str, Any]]:
    return list(cast("dict[str, Any]", datum).items())


def _inside(step: str, schema: Any, datum: Any) -> Any:
    try:
        return apply(schema, datum)
    except Misfit as misfit:
        raise misfit.inside(step) from None


def _unscaled(datum: Any, scale: Any) -> Decimal:
    octets = _octets(datum)
    if isinstance(scale, bool) or not _SCALE.fullmatch(str(scale)) or int(scale) > LARGEST_SCALE:
        raise Misfit(f"is not a decimal with a scale of 0 to {LARGEST_SCALE}")
    number = int.from_bytes(octets[: MOST_BYTES + 1], "big", signed=True)
    if not 0 < len(octets) <= MOST_BYTES or abs(number) >= 10**MOST_DIGITS:
        raise Misfit(f"has more than {MOST_DIGITS} digits, or none")
    return Decimal(number).scaleb(-int(scale), _WIDE)


def _precise(datum: Any, parameters: Mapping[str, Any]) -> Decimal:
    return _unscaled(datum, parameters.get("scale", "0"))


def _variable_scale(datum: Any, _: Mapping[str, Any]) -> Decimal:
    if not isinstance(datum, dict):
        raise is_a(datum, "a scale and a value")
    found = cast("dict[str, Any]", datum)
    return _unscaled(found.get("value"), found.get("scale"))


def _logical_instant(unit: Unit) -> Callable[[Any, Mapping[str, Any]], datetime]:
    return lambda datum, _: _instant(_integer(datum), unit)


_LOGICAL: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "org.apache.kafka.connect.data.Decimal": _precise,
    "io.debezium.data.VariableScaleDecimal": _variable_scale,
    "org.apache.kafka.connect.data.Timestamp": _logical_instant("ms"),
    "io.debezium.time.Timestamp": _logical_instant("ms"),
    "io.debezium.time.MicroTimestamp": _logical_instant("us"),
    "io.debezium.time.NanoTimestamp": _logical_instant("ns"),
    "io.debezium.time.ZonedTimestamp": lambda datum, _: _iso_instant(datum),
    "io.debezium.time.IsoTimestamp": lambda datum, _: _iso_instant(datum),
    "org.apache.kafka.connect.data.Date": lambda datum, _: _day(datum),
    "io.debezium.time.Date": lambda datum, _: _day(datum),
    "io.debezium.time.IsoDate": lambda datum, _: _day(datum),
}


def _instant(number: int, unit: Unit) -> datetime:
    try:
        micros = {"ms": number * 1000, "us": number, "ns": number // 1000}[unit]
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise Misfit("is not between the years 1 and 9999") from None


def _iso_instant(datum: Any) -> datetime:
    written = text(datum)
    try:
        if _INSTANT.fullmatch(written) is None:
            raise ValueError(written)
        instant = datetime.fromisoformat(written)
        # PostgreSQL's timestamp and MySQL's datetime have no zone; Debezium writes them in UTC.
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Misfit("is not a time such as 2026-01-31T12:00:00Z") from None


def _day(datum: Any) -> date:
    if isinstance(datum, date) and not isinstance(datum, datetime):
        return datum
    try:
        if type(datum) is int or (isinstance(datum, str) and _INTEGER.fullmatch(datum)):
            return EPOCH.date() + timedelta(days=int(datum))
        written = _DAY.fullmatch(text(datum))
        if written is None:
            raise ValueError(datum)
        return date.fromisoformat(written[1])
    except (ValueError, OverflowError):
        raise Misfit("is neither a date such as 2026-01-31 nor a number of days") from None


def _text(datum: Any) -> str:
    if datum is None or isinstance(datum, Real):
        raise is_a(datum, "a string")
    written = datum if isinstance(datum, str) else _as_json(datum)
    try:
        written.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which an escape can say
        raise Misfit("is not valid Unicode text") from None
    return written


def _as_json(datum: Any) -> str:
    """Write parsed JSON again as Connect writes it."""
    if isinstance(datum, Number | Unreadable):
        return datum.text
    if isinstance(datum, bool) or datum is None or type(datum) is int:
        return json.dumps(datum)
    if isinstance(datum, str):
        return json.dumps(datum, ensure_ascii=False)
    if isinstance(datum, list):
        return f"[{','.join(map(_as_json, cast('list[Any]', datum)))}]"
    if isinstance(datum, dict):
        return "{" + ",".join(f"{_as_json(name)}:{_as_json(one)}" for name, one in _entries(datum)) + "}"
    raise is_a(datum, "a string")


def _integer(datum: Any) -> int:
    if isinstance(datum, str) and _INTEGER.fullmatch(datum):
        datum = int(datum)
    if type(datum) is Decimal and datum == datum.to_integral_value(context=_WIDE):
        datum = int(datum)
    return integer(datum)


def _unsigned(datum: Any) -> Any:
    """MySQL's bigint unsigned without Connect's schema, if it is one.

    Its sign bit is never set, so its base64 begins with a letter before g, as no number does.
    """
    if not isinstance(datum, str) or not _UNSIGNED.fullmatch(datum) or len(datum) > 12:
        return datum
    return int(_unscaled(datum, 0))


def _double(datum: Any) -> float:
    # JSON does not support these, so they are sent as text.
    if datum in ("NaN", "Infinity", "-Infinity"):
        return float(datum)
    if isinstance(datum, str) and not _NUMBER.fullmatch(datum):
        raise is_a(datum, "a number")
    if isinstance(datum, bool) or not isinstance(datum, int | float | Decimal | str):
        raise is_a(datum, "a number")
    try:
        read = float(datum)
    except OverflowError:
        read = math.inf
    if math.isinf(read) and not isinstance(datum, float):
        raise Misfit("is too large for a float")
    return read


def _truth(datum: Any) -> bool:
    # MySQL's boolean is tinyint(1).
    found = {"true": True, "false": False, "1": True, "0": False}.get(_as_json(datum).strip('"'))
    if found is None or isinstance(datum, Decimal):
        raise is_a(datum, "a boolean")
    return found


def _octets(datum: Any) -> bytes:
    if isinstance(datum, bytes):
        return datum
    written = _text(datum)
    try:
        if _BASE64.fullmatch(written) is None:
            raise ValueError(written)
        return base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("is not base64") from None


def _decimal(shape: DecimalOf, *, unsigned: bool) -> Convert:
    def to_decimal(datum: Any) -> Decimal:
        datum = _unsigned(datum) if unsigned else datum
        if isinstance(datum, bool) or not isinstance(datum, str | int | float | Decimal):
            raise is_a(datum, "a decimal number")
        if isinstance(datum, float):
            datum = repr(datum)
        if isinstance(datum, str) and not _NUMBER.fullmatch(datum):
            raise Misfit("is not a decimal number: use decimal.handling.mode=string or Connect's schemas")
        number = Decimal(datum)
        # Text such as 1e9999 is short, but its digits are not: reject it before they are computed.
        if number and not -MOST_DIGITS <= number.adjusted() < shape.precision - shape.scale:
            raise Misfit(f"has too many digits for decimal({shape.precision}, {shape.scale})")
        if number and _places(number) > shape.scale:
            raise Misfit(f"has more than {shape.scale} digits after the point")
        return number

    return to_decimal


def _places(number: Decimal) -> int:
    """The number of digits after the point that a number needs.

    >>> _places(Decimal("1.50")), _places(Decimal("1E+3"))
    (1, -3)
    """
    _, digits, exponent = number.as_tuple()
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return -cast("int", exponent) - zeros
