"""Converts values to the plain dicts, lists and numbers that Avro and JSON encoders write."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from operator import attrgetter
from typing import Any, cast

from gearshift.schemas.shapes import DecimalOf, EnumOf, ListOf, MapOf, OptionalOf, RecordOf, Scalar, Shape

Convert = Callable[[Any], Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = EPOCH.toordinal()
_LONG = range(-(2**63), 2**63)


class Misfit(Exception):  # noqa: N818 - internal: codecs turn it into EncodeError or DecodeError
    """A value does not match its shape: the reason, and the path to it from the outside in."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def inside(self, step: str) -> Misfit:
        """The same misfit, one level further out."""
        return Misfit(self.reason, (step, *self.path))

    def __str__(self) -> str:
        return f"field {'.'.join(self.path)}: {self.reason}" if self.path else self.reason


def is_a(value: object, wanted: str) -> Misfit:
    """The misfit for a value of the wrong type, without the value, which may be secret."""
    return Misfit(f"is {type(value).__name__}, not {wanted}")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one format writes the shapes in which formats differ."""

    scalars: Mapping[Scalar, Convert]
    decimal: Callable[[DecimalOf], Convert]
    optional: Callable[[Shape, Convert], Convert]


def encoder(shape: Shape, encoding: Encoding) -> Convert:
    """A function that converts values of this shape for the format; it raises Misfit."""
    if isinstance(shape, Scalar):
        return encoding.scalars[shape]
    if isinstance(shape, DecimalOf):
        return encoding.decimal(shape)
    if isinstance(shape, EnumOf):
        return _member(shape)
    if isinstance(shape, ListOf):
        return _items(encoder(shape.item, encoding))
    if isinstance(shape, MapOf):
        return _entries(encoder(shape.value, encoding))
    if isinstance(shape, OptionalOf):
        return encoding.optional(shape.item, encoder(shape.item, encoding))
    return _record(shape, encoding)


def _record(shape: RecordOf, encoding: Encoding) -> Convert:
    value_type = shape.type
    names = tuple(field.name for field in shape.fields)
    convert = tuple(encoder(field.shape, encoding) for field in shape.fields)
    if len(names) == 1:
        only, change = names[0], convert[0]

        def attributes(value: Any) -> dict[str, Any]:
            return {only: change(getattr(value, only))}
    else:
        get = attrgetter(*names)

        def attributes(value: Any) -> dict[str, Any]:
            return {name: change(item) for name, change, item in zip(names, convert, get(value), strict=True)}

    def to_dict(value: Any) -> dict[str, Any]:
        if type(value) is not value_type and not isinstance(value, value_type):
            raise is_a(value, value_type.__name__)
        try:
            return attributes(value)
        except Misfit:
            # Find the field again: keeping track of it in the loop above would slow down every record.
            for name, change in zip(names, convert, strict=True):
                try:
                    change(getattr(value, name))
                except Misfit as misfit:
                    raise misfit.inside(name) from None
            raise

    return to_dict


def _items(convert: Convert) -> Convert:
    def to_list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise is_a(value, "list")
        done: list[Any] = []
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            try:
                done.append(convert(item))
            except Misfit as misfit:
                raise misfit.inside(f"[{len(done)}]") from None
        return done

    return to_list


def _entries(convert: Convert) -> Convert:
    def to_dict(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise is_a(value, "dict")
        done: dict[str, Any] = {}
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(key, str):
                raise is_a(cast("object", key), "a str key")
            try:
                done[key] = convert(item)
            except Misfit as misfit:
                raise misfit.inside(f"[{key!r}]") from None
        return done

    return to_dict


def _member(shape: EnumOf) -> Convert:
    words = {member: word for word, member in shape.members.items()}

    def to_word(value: Any) -> str:
        if not isinstance(value, shape.type):
            raise is_a(value, shape.type.__name__)
        return words[value]

    return to_word


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise is_a(value, "str")


def _integer(value: Any) -> int:
    if type(value) is not int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise is_a(value, "int")
        value = int(value)
    if value not in _LONG:
        raise Misfit("does not fit in 64 bits")
    return value


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise is_a(value, "float")
    try:
        return float(value)
    except OverflowError:
        raise Misfit("is too large for a float") from None


def _finite(value: Any) -> float:
    number = _number(value)
    if not math.isfinite(number):
        raise Misfit(f"is {number}, which JSON does not support")
    return number


def _truth(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise is_a(value, "bool")


def _octets(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    raise is_a(value, "bytes")


def _base64(value: Any) -> str:
    return base64.b64encode(_octets(value)).decode("ascii")


def _instant(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise is_a(value, "datetime")
    if value.tzinfo is None or value.utcoffset() is None:
        raise Misfit("is a naive datetime; add a time zone, for example tzinfo=UTC")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise Misfit("is not between the years 1 and 9999 in UTC") from None


def _micros(value: Any) -> int:
    # Most times are in UTC already, and converting them costs more than the rest of this function.
    since = (value if type(value) is datetime and value.tzinfo is UTC else _instant(value)) - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _rfc3339(value: Any) -> str:
    return _instant(value).isoformat().replace("+00:00", "Z")


def _day(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise is_a(value, "date")


def fixed(shape: DecimalOf) -> Callable[[Any], Decimal]:
    """A function that gives a Decimal the shape's scale without rounding it."""
    context = Context(prec=shape.precision, traps=[Inexact, InvalidOperation])
    step = Decimal((0, (1,), -shape.scale))

    def fix(value: Any) -> Decimal:
        if not isinstance(value, Decimal):
            raise is_a(value, "Decimal")
        if not value.is_finite():
            raise Misfit(f"is {value}, not a finite number")
        try:
            return value.quantize(step, context=context)
        except Inexact:
            raise Misfit(f"has more than {shape.scale} digits after the point; round it first") from None
        except InvalidOperation:
            raise Misfit(f"has too many digits for decimal({shape.precision}, {shape.scale})") from None

    return fix


def _unscaled(shape: DecimalOf) -> Convert:
    fix = fixed(shape)
    # Shifting the point needs no rounding, but the default context would round to 28 digits.
    context = Context(prec=shape.precision, traps=[Inexact, InvalidOperation])

    def to_bytes(value: Any) -> bytes:
        unscaled = int(fix(value).scaleb(shape.scale, context))
        return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)

    return to_bytes


def _decimal_text(shape: DecimalOf) -> Convert:
    fix = fixed(shape)
    return lambda value: format(fix(value), "f")


def _branch(shape: Shape, convert: Convert) -> Convert:
    """Name the union's branch, so that fastavro need not try each of them."""
    if isinstance(shape, RecordOf):
        branch = shape.name
    elif isinstance(shape, ListOf):
        branch = "array"
    elif isinstance(shape, MapOf):
        branch = "map"
    elif isinstance(shape, Scalar):
        branch = {Scalar.TIMESTAMP: "long", Scalar.DATE: "int"}.get(shape, shape.value)
    else:
        branch = "bytes" if isinstance(shape, DecimalOf) else "string"
    return lambda value: None if value is None else (branch, convert(value))


def _or_none(_: Shape, convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


_AVRO_SCALARS: Mapping[Scalar, Convert] = {
    Scalar.STRING: _text,
    Scalar.LONG: _integer,
    Scalar.DOUBLE: _number,
    Scalar.BOOLEAN: _truth,
    Scalar.BYTES: _octets,
    Scalar.TIMESTAMP: _micros,
    Scalar.DATE: lambda value: _day(value).toordinal() - _EPOCH_DAY,
}
AVRO = Encoding(_AVRO_SCALARS, _unscaled, _branch)
AVRO_PLAIN = Encoding(_AVRO_SCALARS, _unscaled, _or_none)
JSON = Encoding(
    {
        Scalar.STRING: _text,
        Scalar.LONG: _integer,
        Scalar.DOUBLE: _finite,
        Scalar.BOOLEAN: _truth,
        Scalar.BYTES: _base64,
        Scalar.TIMESTAMP: _rfc3339,
        Scalar.DATE: lambda value: _day(value).isoformat(),
    },
    _decimal_text,
    _or_none,
)
