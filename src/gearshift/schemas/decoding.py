"""From the plain dicts, lists and numbers that Avro and JSON read back to a value."""

from __future__ import annotations

import base64
import binascii
import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from gearshift.schemas.encoding import EPOCH, Convert, Misfit, is_a
from gearshift.schemas.shapes import DecimalOf, EnumOf, ListOf, MapOf, OptionalOf, RecordOf, Scalar, Shape


@dataclass(frozen=True, slots=True)
class Decoding:
    """How one format reads the shapes that formats differ in."""

    scalars: Mapping[Scalar, Convert]
    decimal: Callable[[DecimalOf], Convert]
    closed: bool = False
    """Whether a field that the type does not have is a misfit; otherwise it is passed over, as a newer version's."""


def decoder(shape: Shape, decoding: Decoding) -> Convert:
    """A function from what the format reads to values of this shape; it raises Misfit."""
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
    fields = [(field.name, decoder(field.shape, decoding), field.has_default) for field in shape.fields]
    value_type = shape.type
    closed = decoding.closed

    def to_value(datum: Any) -> Any:
        if not isinstance(datum, dict):
            raise is_a(datum, "an object")
        found: dict[str, Any] = {}
        for name, convert, has_default in fields:
            if name in datum:
                try:
                    found[name] = convert(datum[name])
                except Misfit as misfit:
                    raise misfit.inside(name) from None
            elif not has_default:
                raise Misfit("is missing", (name,))
        if closed and len(found) < len(datum):  # pyright: ignore[reportUnknownArgumentType]
            raise _unknown(shape, datum)  # pyright: ignore[reportUnknownArgumentType]
        try:
            return value_type(**found)
        except Exception as error:
            raise refused(value_type, error) from error

    return to_value


def refused(value_type: type[Any], error: Exception) -> Misfit:
    """`__post_init__` is the user's own check of a value."""
    return Misfit(f"{value_type.__name__} refuses these values: {type(error).__name__}: {error}")


def _unknown(shape: RecordOf, datum: Mapping[str, Any]) -> Misfit:
    names = [field.name for field in shape.fields]
    return next(no_field(shape, name) for name in datum if name not in names)


def no_field(shape: RecordOf, name: str) -> Misfit:
    """The misfit of a name that no field has, with the one that was probably meant."""
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
            raise Misfit(f"{datum!r} is no {shape.type.__name__}; it has {', '.join(members)}") from None

    return to_member


def _same(datum: Any) -> Any:
    return datum


def text(datum: Any) -> str:
    """A text, or Misfit."""
    if isinstance(datum, str):
        return datum
    raise is_a(datum, "a string")


def integer(datum: Any) -> int:
    """A number of 64 bits, or Misfit."""
    if type(datum) is not int:
        raise is_a(datum, "an integer")
    if not -(2**63) <= datum < 2**63:
        raise Misfit("does not fit 64 bits")
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
    try:
        return base64.b64decode(text(datum), validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("is not base64") from None


def _instant(datum: Any) -> datetime:
    try:
        instant = datetime.fromisoformat(text(datum))
    except ValueError:
        raise Misfit("is not an RFC 3339 instant such as 2026-01-31T12:00:00Z") from None
    if instant.tzinfo is None:
        raise Misfit("is an instant without a zone")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise Misfit("leaves the years 1 to 9999 when turned to UTC") from None


def _day(datum: Any) -> date:
    try:
        return date.fromisoformat(text(datum))
    except ValueError:
        raise Misfit("is not a date such as 2026-01-31") from None


def _decimal(shape: DecimalOf) -> Convert:
    def to_decimal(datum: Any) -> Decimal:
        try:
            number = Decimal(text(datum))
        except InvalidOperation:
            raise Misfit("is not a decimal number") from None
        if not number.is_finite():
            raise Misfit("is not a finite number")
        # Text such as 1e999999999 is short and the number it spells is not: refuse before anyone writes it out.
        if number.adjusted() >= shape.precision - shape.scale and number:
            raise Misfit(f"has too many digits for decimal({shape.precision}, {shape.scale})")
        return number

    return to_decimal


def _avro_octets(datum: Any) -> bytes:
    return datum if isinstance(datum, bytes) else datum.encode("latin-1")


def _avro_instant(datum: Any) -> datetime:
    return datum if isinstance(datum, datetime) else EPOCH + timedelta(microseconds=datum)


def _avro_day(datum: Any) -> date:
    return datum if isinstance(datum, date) else EPOCH.date() + timedelta(days=datum)


def _avro_decimal(shape: DecimalOf) -> Convert:
    # Shifting the point by the scale needs no rounding, but the default context would round to 28 digits.
    context = Context(prec=shape.precision)

    def to_decimal(datum: Any) -> Decimal:
        if isinstance(datum, Decimal):
            return datum
        return Decimal(int.from_bytes(_avro_octets(datum), "big", signed=True)).scaleb(-shape.scale, context)

    return to_decimal


# fastavro has checked the types and applied the logical ones, but it leaves the defaults that it takes
# from the reader's schema as they stand in there: bytes as text, logical types as plain numbers.
AVRO = Decoding(
    {
        **dict.fromkeys(Scalar, _same),
        Scalar.BYTES: _avro_octets,
        Scalar.TIMESTAMP: _avro_instant,
        Scalar.DATE: _avro_day,
    },
    _avro_decimal,
)
JSON = Decoding(
    {
        Scalar.STRING: text,
        Scalar.LONG: integer,
        Scalar.DOUBLE: _number,
        Scalar.BOOLEAN: _truth,
        Scalar.BYTES: _octets,
        Scalar.TIMESTAMP: _instant,
        Scalar.DATE: _day,
    },
    _decimal,
)
# For what comes from outside: a misspelt field would be lost unseen, and 1e999 is read as infinity.
JSON_CLOSED = Decoding({**JSON.scalars, Scalar.DOUBLE: _finite}, _decimal, closed=True)
