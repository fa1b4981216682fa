"""Decodes parsed JSON to values of a declared type.

Only what the topic's JSON Schema allows is read; nothing is guessed or rounded. Pipelines decode by the same rules
inside Spark (`spark/jvm/Json.java`); `tests/records/test_one_meaning.py` checks that both agree.
"""

from __future__ import annotations

import base64
import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from gearshift.schemas.encoding import Convert, Misfit, fixed, is_a
from gearshift.schemas.shapes import DecimalOf, EnumOf, ListOf, MapOf, OptionalOf, RecordOf, Scalar, Shape


@dataclass(frozen=True, slots=True)
class Decoding:
    """How one format reads the shapes in which formats differ."""

    scalars: Mapping[Scalar, Convert]
    decimal: Callable[[DecimalOf], Convert]
    closed: bool = False
    """Whether an unknown field is a misfit; otherwise it is ignored, as a field of a newer version."""


def decoder(shape: Shape, decoding: Decoding) -> Convert:
    """A function that converts parsed data to values of this shape; it raises Misfit."""
    if isinstance(shape, Scalar):
        return decoding.scalars[shape]
    if isinstance(shape, DecimalOf):
        return decoding.decimal(shape)
    if isinstance(shape, EnumOf):
        return _member(shape)
    if isinstance(shape, ListOf):
        return _items(decoder(shape.item, decoding))
    if isinstance(shape, MapOf):
        return _entries(decoder(shape.value, decoding))
    if isinstance(shape, OptionalOf):
        convert = decoder(shape.item, decoding)
        return lambda datum: None if datum is None else convert(datum)
    return _record(shape, decoding)


def _record(shape: RecordOf, decoding: Decoding) -> Convert:
    fields = [
        (field.name, decoder(field.shape, decoding), field.has_default, field.aliases)
        for field in shape.fields
    ]
    value_type = shape.type
    closed = decoding.closed

    def to_value(datum: Any) -> Any:
        if not isinstance(datum, dict):
            raise is_a(datum, "an object")
        found: dict[str, Any] = {}
        for name, convert, has_default, aliases in fields:
            source = name
            if name not in datum:
                source = next((alias for alias in aliases if alias in datum), None)
                if source is None:
                    if not has_default:
                        raise Misfit("is missing", (name,))
                    continue
            try:
                found[name] = convert(datum[source])
            except Misfit as misfit:
                raise misfit.inside(name) from None
        if closed and len(found) < len(datum):  # pyright: ignore[reportUnknownArgumentType]
            raise _unknown(shape, datum)  # pyright: ignore[reportUnknownArgumentType]
        try:
            return value_type(**found)
        except Exception as error:
            raise refused(value_type, error) from error

    return to_value


def refused(value_type: type[Any], error: Exception) -> Misfit:
    """The misfit for values that the user's `__post_init__` rejects."""
    return Misfit(f"{value_type.__name__} rejected these values: {type(error).__name__}: {error}")


def _unknown(shape: RecordOf, datum: Mapping[str, Any]) -> Misfit:
    names = [field.name for field in shape.fields]
    return next(no_field(shape, name) for name in datum if name not in names)


def no_field(shape: RecordOf, name: str) -> Misfit:
    """The misfit for an unknown field, with a suggestion."""
    names = [field.name for field in shape.fields]
    near = difflib.get_close_matches(name, names, 1)
    meant = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
    return Misfit(f"{shape.name} has no such field; {meant}", (name[:100],))


def _items(convert: Convert) -> Convert:
    def to_list(datum: Any) -> list[Any]:
        if not isinstance(datum, list):
            raise is_a(datum, "a list")
        done: list[Any] = []
        for item in datum:  # pyright: ignore[reportUnknownVariableType]
            try:
                done.append(convert(item))
            except Misfit as misfit:
                raise misfit.inside(f"[{len(done)}]") from None
        return done

    return to_list


def _entries(convert: Convert) -> Convert:
    def to_dict(datum: Any) -> dict[str, Any]:
        if not isinstance(datum, dict):
            raise is_a(datum, "an object")
        done: dict[str, Any] = {}
        for key, item in datum.items():  # pyright: ignore[reportUnknownVariableType]
            try:
                done[key] = convert(item)
            except Misfit as misfit:
                raise misfit.inside(f"[{key!r}]") from None
        return done

    return to_dict


def _member(shape: EnumOf) -> Convert:
    members = shape.members

    def to_member(datum: Any) -> Any:
        if not isinstance(datum, str):
            raise is_a(datum, "a string")
        try:
            return members[datum]
        except KeyError:
            raise Misfit(f"{datum!r} is not a value of {shape.type.__name__}: {', '.join(members)}") from None

    return to_member


def text(datum: Any) -> str:
    """A text, or Misfit."""
    if isinstance(datum, str):
        return datum
    raise is_a(datum, "a string")


def integer(datum: Any) -> int:
    """A 64-bit integer, or Misfit; as in JSON Schema 5.0 is one too, within the exact range of a double."""
    if type(datum) is float and datum.is_integer() and abs(datum) < _LARGEST_EXACT:
        return int(datum)
    if type(datum) is not int:
        raise is_a(datum, "an integer")
    if not -(2**63) <= datum < 2**63:
        raise Misfit("does not fit in 64 bits")
    return datum


def _number(datum: Any) -> float:
    if type(datum) is float:
        return datum
    if type(datum) is not int:
        raise is_a(datum, "a number")
    try:
        return float(datum)
    except OverflowError:
        raise Misfit("is too large for a float") from None


def _finite(datum: Any) -> float:
    number = _number(datum)
    if not math.isfinite(number):
        raise Misfit("is not a finite number")
    return number


def _truth(datum: Any) -> bool:
    if type(datum) is bool:
        return datum
    raise is_a(datum, "a boolean")


def _octets(datum: Any) -> bytes:
    written = text(datum)
    if len(written) % 4 or not _BASE64.fullmatch(written):
        raise Misfit("is not base64")
    return base64.b64decode(written)


def _instant(datum: Any) -> datetime:
    found = _RFC_3339.fullmatch(text(datum))
    if found is None:
        raise Misfit("is not an RFC 3339 time with a zone, such as 2026-01-31T12:00:00Z")
    day, time, fraction, offset = found.groups()
    try:
        # Digits beyond microseconds are dropped.
        written = f"{day}T{time}{(fraction or '.')[:7].ljust(7, '0')}{'Z' if offset in 'zZ' else offset}"
        return datetime.fromisoformat(written).astimezone(UTC)
    except ValueError:
        raise Misfit("is not a time that exists") from None
    except OverflowError:
        raise Misfit("is not between the years 1 and 9999") from None


def _day(datum: Any) -> date:
    if not _DAY.fullmatch(text(datum)):
        raise Misfit("is not a date such as 2026-01-31")
    try:
        return date.fromisoformat(datum)
    except ValueError:
        raise Misfit("is not a date that exists") from None


def _decimal(shape: DecimalOf) -> Convert:
    exact = fixed(shape)

    def to_decimal(datum: Any) -> Decimal:
        written = text(datum)
        if len(written) > LONGEST_NUMBER or not _DECIMAL.fullmatch(written):
            raise Misfit("is not a decimal number")
        return exact(Decimal(written))

    return to_decimal


_LARGEST_EXACT = 2**53
LONGEST_NUMBER = 1000
"""Characters of a decimal number; a longer one would take minutes to compute."""
_BASE64 = re.compile("[A-Za-z0-9+/]*={0,2}")
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(\.[0-9]+)?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?")


JSON = Decoding(
    {
        Scalar.STRING: text,
        Scalar.LONG: integer,
        Scalar.DOUBLE: _finite,
        Scalar.BOOLEAN: _truth,
        Scalar.BYTES: _octets,
        Scalar.TIMESTAMP: _instant,
        Scalar.DATE: _day,
    },
    _decimal,
)
# For data from outside, where a misspelled field would be lost silently.
JSON_CLOSED = Decoding(JSON.scalars, _decimal, closed=True)
