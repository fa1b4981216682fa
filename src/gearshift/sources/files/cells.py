"""Converts the cells of a CSV row to a value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from gearshift.schemas.encoding import Convert, Misfit
from gearshift.schemas.json.decoding import JSON, JSON_CLOSED, decoder, no_field, refused
from gearshift.schemas.shapes import Field, ListOf, MapOf, OptionalOf, RecordOf, Scalar, Shape, describe
from gearshift.sources.strict_json import read_json

_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)


def row_reader(value_type: type[Any], header: Sequence[str]) -> Callable[[Sequence[str]], Any]:
    """A function from the cells under this header to a value; both raise Misfit for what does not fit.

    An empty cell is None for an optional field, "" for a string, and otherwise the field's default.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Reading:
    ...     meter_id: str
    ...     load_kw: float
    ...     note: str | None = None
    >>> row_reader(Reading, ["load_kw", "meter_id"])(["2.5", "m-1"])
    Reading(meter_id='m-1', load_kw=2.5, note=None)
    """
    shape = describe(value_type)
    fields = _columns(shape, header)
    converts = [(field.name, _cell(field.shape), _if_empty(field)) for field in fields]

    def to_value(cells: Sequence[str]) -> Any:
        found: dict[str, Any] = {}
        for (name, convert, if_empty), cell in zip(converts, cells, strict=True):
            try:
                if cell:
                    found[name] = convert(cell)
                elif if_empty is not None:
                    if_empty(found)
            except Misfit as misfit:
                raise misfit.inside(name) from None
        try:
            return value_type(**found)
        except Exception as error:
            raise refused(value_type, error) from error

    return to_value


def _columns(shape: RecordOf, header: Sequence[str]) -> list[Field]:
    by_name = {field.name: field for field in shape.fields}
    found: list[Field] = []
    for name in header:
        if name not in by_name:
            raise no_field(shape, name)
        if by_name[name] in found:
            raise Misfit("appears twice", (name,))
        found.append(by_name[name])
    for field in shape.fields:
        if field not in found and not field.has_default:
            raise Misfit("has no column", (field.name,))
    return found


def _if_empty(field: Field) -> Callable[[dict[str, Any]], None] | None:
    """What an empty cell sets; None leaves the field to its default."""
    name = field.name
    if isinstance(field.shape, OptionalOf):
        return lambda found: found.__setitem__(name, None)
    if field.shape is Scalar.STRING:
        return lambda found: found.__setitem__(name, "")
    if field.has_default:
        return None

    def missing(_: dict[str, Any]) -> None:
        raise Misfit("is empty")

    return missing


def _cell(shape: Shape) -> Convert:
    if isinstance(shape, OptionalOf):
        return _cell(shape.item)
    if shape is Scalar.LONG:
        return _integer
    if shape is Scalar.DOUBLE:
        return _number
    if shape is Scalar.BOOLEAN:
        return _truth
    if isinstance(shape, ListOf | MapOf | RecordOf):
        convert = decoder(shape, JSON_CLOSED)
        return lambda cell: convert(read_json(cell))
    # Strings, timestamps, dates, decimals and Enum values are strings in JSON as well.
    return decoder(shape, JSON)


def _integer(cell: str) -> int:
    # int() also accepts 1_000, spaces and digits of other scripts, which a reader of the file would not expect.
    if not _INTEGER.fullmatch(cell):
        raise Misfit("is not an integer")
    number = int(cell)
    if not -(2**63) <= number < 2**63:
        raise Misfit("does not fit in 64 bits")
    return number


def _number(cell: str) -> float:
    if not _DECIMAL.fullmatch(cell):
        raise Misfit("is not a number")
    number = float(cell)
    if not math.isfinite(number):
        raise Misfit("is not a finite number")
    return number


def _truth(cell: str) -> bool:
    try:
        return _TRUTHS[cell.lower()]
    except KeyError:
        raise Misfit("is neither true nor false") from None
