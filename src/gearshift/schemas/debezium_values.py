"""The values in Debezium's rows: Connect's and Debezium's logical types, and what JSON leaves of them without a schema."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, cast

from gearshift.schemas.decoding import Decoding, integer, text
from gearshift.schemas.encoding import EPOCH, Convert, Misfit, is_a
from gearshift.schemas.shapes import DecimalOf, Scalar

Unit = Literal["ms", "us", "ns"]


class Number(Decimal):
    """A JSON number with a point or an exponent, with all its digits."""


def apply(schema: Any, datum: Any) -> Any:
    """The datum with the logical types of its Connect schema applied; what has none stays as JSON has it."""
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
        return [_inside(f"[{place}]", described.get("items"), item) for place, item in enumerate(items)]
    if kind == "map" and isinstance(datum, dict):
        return {name: _inside(name, described.get("values"), item) for name, item in _entries(datum)}
    return _octets(datum) if kind == "bytes" else datum


def decoding(timestamps: Unit | None) -> Decoding:
    """How values of rows are read; `timestamps` is the unit of bare numbers for instants."""

    def to_instant(datum: Any) -> datetime:
        if isinstance(datum, datetime):
            return datum
        if type(datum) is int:
            if timestamps is None:
                raise Misfit(
                    "is a number, which may be milli- or microseconds: use time.precision.mode=isostring or "
                    "Connect's schemas, or say the unit with timestamps="
                )
            return _instant(datum, timestamps)
        return _iso_instant(datum)

    return Decoding(
        {
            Scalar.STRING: text,
            Scalar.LONG: integer,
            Scalar.DOUBLE: _double,
            Scalar.BOOLEAN: _truth,
            Scalar.BYTES: _octets,
            Scalar.TIMESTAMP: to_instant,
            Scalar.DATE: _day,
        },
        _decimal,
    )


def _fields(described: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(described, list):
        raise Misfit("comes with a schema that is none of Connect's")
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
    try:
        number = int.from_bytes(_octets(datum), "big", signed=True)
        digits = tuple(int(digit) for digit in str(abs(number)))
        return Decimal((int(number < 0), digits, -int(scale)))
    except (TypeError, ValueError):
        raise Misfit("is no decimal with a scale") from None


def _precise(datum: Any, parameters: Mapping[str, Any]) -> Decimal:
    return _unscaled(datum, parameters.get("scale", "0"))


def _variable_scale(datum: Any, _: Mapping[str, Any]) -> Decimal:
    if not isinstance(datum, dict):
        raise is_a(datum, "a scale and a value")
    found = cast("dict[str, Any]", datum)
    return _unscaled(found.get("value"), found.get("scale"))


def _logical_instant(unit: Unit) -> Callable[[Any, Mapping[str, Any]], datetime]:
    return lambda datum, _: _instant(integer(datum), unit)


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
        raise Misfit("is an instant beyond the years 1 to 9999") from None


def _iso_instant(datum: Any) -> datetime:
    try:
        instant = datetime.fromisoformat(text(datum))
        # PostgreSQL's timestamp and MySQL's datetime have no zone; Debezium means UTC.
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Misfit("is not an instant such as 2026-01-31T12:00:00Z") from None


def _day(datum: Any) -> date:
    if isinstance(datum, date):
        return datum
    try:
        if type(datum) is int:
            return EPOCH.date() + timedelta(days=datum)
        return date.fromisoformat(text(datum).removesuffix("Z"))
    except (ValueError, OverflowError):
        raise Misfit("is not a date such as 2026-01-31, nor a number of days") from None


def _double(datum: Any) -> float:
    # JSON has no word for these, so they come as text.
    if datum in ("NaN", "Infinity", "-Infinity"):
        return float(datum)
    if isinstance(datum, bool) or not isinstance(datum, int | float | Decimal):
        raise is_a(datum, "a number")
    try:
        return float(datum)
    except OverflowError:
        raise Misfit("is too large for a float") from None


def _truth(datum: Any) -> bool:
    if isinstance(datum, bool):
        return datum
    if type(datum) is int and datum in (0, 1):
        return bool(datum)  # MySQL's boolean is tinyint(1)
    raise is_a(datum, "a boolean")


def _octets(datum: Any) -> bytes:
    if isinstance(datum, bytes):
        return datum
    try:
        return base64.b64decode(text(datum), validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("is not base64") from None


def _decimal(shape: DecimalOf) -> Convert:
    def to_decimal(datum: Any) -> Decimal:
        if isinstance(datum, bool) or not isinstance(datum, str | int | Decimal):
            raise is_a(datum, "a decimal number")
        try:
            number = Decimal(datum)
        except InvalidOperation:
            raise Misfit(
                "is not a decimal number: use decimal.handling.mode=string or Connect's schemas"
            ) from None
        if not number.is_finite():
            raise Misfit("is not a finite number")
        # Text such as 1e999999999 is short and the number it spells is not: refuse before anyone writes it out.
        if number and number.adjusted() >= shape.precision - shape.scale:
            raise Misfit(f"has too many digits for decimal({shape.precision}, {shape.scale})")
        return number

    return to_decimal
