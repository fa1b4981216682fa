"""Avro's logical types as readable JSON: times as ISO 8601, decimals as text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from typing import Any
from uuid import UUID

from gearshift.schemas.encoding import EPOCH, Misfit
from gearshift.schemas.json.decoding import LONGEST_NUMBER, text

_UNITS = {"millis": 3, "micros": 6, "nanos": 9}  # digits after the point of a second
_WORDS = {3: "milliseconds", 6: "microseconds", 9: "nanoseconds"}
_DAY_SECONDS = 86_400
_LONG, _INT = range(-(2**63), 2**63), range(-(2**31), 2**31)
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - EPOCH.toordinal(), date.max.toordinal() - EPOCH.toordinal()
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]+))?", re.ASCII)
_TIME = re.compile(rf"({_DATE.pattern})[Tt ]({_CLOCK.pattern})([Zz]|[+-][0-9]{{2}}:[0-9]{{2}})?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?", re.ASCII)
_LARGEST_DECIMAL = 400  # bytes; Python refuses to write much longer numbers


@dataclass(frozen=True, slots=True)
class Logical:
    """How a logical type is written as JSON, and read back; both raise Misfit."""

    show: Callable[[Any], Any]
    store: Callable[[Any], Any]


def logical_of(schema: Mapping[str, Any]) -> Logical | None:
    """The logical type of a schema; None if it has none, or one that Avro's rules say to ignore.

    >>> times = logical_of({"type": "long", "logicalType": "timestamp-millis"})
    >>> times.show(1_500), times.store("1970-01-01T00:00:01.500Z")
    ('1970-01-01T00:00:01.500Z', 1500)
    """
    kind, name = schema["type"], str(schema.get("logicalType", ""))
    if name == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(schema)
    if name == "uuid" and kind == "fixed" and schema.get("size") == 16:
        return Logical(lambda octets: str(UUID(bytes=octets)), _uuid)
    if name == "date" and kind == "int":
        return Logical(_show_date, _store_date)
    what, _, unit = name.rpartition("-")
    digits = _UNITS.get(unit)
    if digits is None:
        return None
    if what == "time" and kind == ("int" if unit == "millis" else "long"):
        return Logical(partial(_show_clock, digits), partial(_store_clock, digits))
    if what in ("timestamp", "local-timestamp") and kind == "long":
        local = what == "local-timestamp"
        return Logical(partial(_show_time, digits, local), partial(_store_time, digits, local))
    return None


def _show_time(digits: int, local: bool, number: int) -> str | int:
    seconds, rest = divmod(number, 10**digits)
    try:
        moment = (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    except OverflowError:
        return number  # before the year 1 or after 9999, which ISO 8601 has no agreed form for
    return moment + (f".{rest:0{digits}}" if rest else "") + ("" if local else "Z")


def _store_time(digits: int, local: bool, datum: Any) -> int:
    example = f"2026-01-31T12:00:00{'' if local else 'Z'}"
    if type(datum) is int and datum in _LONG and isinstance(_show_time(digits, local, datum), int):
        return datum
    found = _TIME.fullmatch(text(datum))
    if found is None or (found[7] is None) != local:
        raise Misfit(f"is not a time {'without' if local else 'with'} a zone, such as {example}")
    try:
        zone = "" if found[7] is None else found[7].upper()
        since = (
            datetime.fromisoformat(f"{found[1]}T{found[3]}:{found[4]}:{found[5]}{zone or '+00:00'}") - EPOCH
        )
    except ValueError:
        raise Misfit("is not a time that exists") from None
    number = (since.days * _DAY_SECONDS + since.seconds) * 10**digits + _fraction(digits, found[6])
    if number not in _LONG:
        raise Misfit(f"does not fit in 64 bits as {_WORDS[digits]}")
    return number


def _show_clock(digits: int, number: int) -> str | int:
    seconds, rest = divmod(number, 10**digits)
    if not 0 <= seconds < _DAY_SECONDS:
        return number
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return clock + (f".{rest:0{digits}}" if rest else "")


def _store_clock(digits: int, datum: Any) -> int:
    if (
        type(datum) is int
        and datum in (_INT if digits == 3 else _LONG)
        and isinstance(_show_clock(digits, datum), int)
    ):
        return datum
    found = _CLOCK.fullmatch(text(datum))
    if found is None:
        raise Misfit("is not a time of day such as 12:00:00")
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
    return seconds * 10**digits + _fraction(digits, found[4])


def _fraction(digits: int, written: str | None) -> int:
    written = (written or "").rstrip("0")
    if len(written) > digits:
        raise Misfit(f"is more precise than {_WORDS[digits]}; round it first")
    return int(written.ljust(digits, "0"))


def _show_date(days: int) -> str | int:
    if not _FIRST_DAY <= days <= _LAST_DAY:
        return days
    return date.fromordinal(days + EPOCH.toordinal()).isoformat()


def _store_date(datum: Any) -> int:
    if type(datum) is int and datum in _INT and not _FIRST_DAY <= datum <= _LAST_DAY:
        return datum
    written = text(datum)
    if not _DATE.fullmatch(written):
        raise Misfit("is not a date such as 2026-01-31")
    try:
        return date.fromisoformat(written).toordinal() - EPOCH.toordinal()
    except ValueError:
        raise Misfit("is not a date that exists") from None


def _uuid(datum: Any) -> bytes:
    try:
        return UUID(text(datum)).bytes
    except ValueError:
        raise Misfit("is not a UUID") from None


def _decimal(schema: Mapping[str, Any]) -> Logical | None:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
        return None
    size: int | None = schema.get("size") if schema["type"] == "fixed" else None
    # Shifting the point needs no rounding, but the default context would round to 28 digits.
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    step = Decimal((0, (1,), -scale))

    def show(octets: bytes) -> str:
        if len(octets) > _LARGEST_DECIMAL:
            raise Misfit(f"is a decimal number of {len(octets)} bytes")
        unscaled = int.from_bytes(octets, "big", signed=True)
        sign, digits = "-" * (unscaled < 0), str(abs(unscaled)).rjust(scale + 1, "0")
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits

    def store(datum: Any) -> bytes:
        if isinstance(datum, int | float) and not isinstance(datum, bool):
            raise Misfit('is a number; write decimals as text, such as "12.50"')
        written = text(datum)
        if len(written) > LONGEST_NUMBER or not _DECIMAL.fullmatch(written):
            raise Misfit('is not a decimal number such as "12.50"')
        try:
            unscaled = int(Decimal(written).quantize(step, context=context).scaleb(scale, context))
        except Inexact:
            raise Misfit(f"has more than {scale} digits after the point; round it first") from None
        except InvalidOperation:
            raise Misfit(f"has too many digits for decimal({precision}, {scale})") from None
        length = unscaled.bit_length() // 8 + 1 if size is None else size
        try:
            return unscaled.to_bytes(length, "big", signed=True)
        except OverflowError:
            raise Misfit(f"does not fit in {length} bytes") from None

    return Logical(show, store)
