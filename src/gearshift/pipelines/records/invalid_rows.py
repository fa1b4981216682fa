"""Why a row of a transform's result cannot be written to its topic, as SQL that runs in every gear.

A condition is generated only if the row's type allows the problem: a non-nullable column is not checked for nulls, and
a decimal whose type always fits is not cast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from gearshift.definitions import Topic
from gearshift.schemas.shapes import (
    DecimalOf,
    EnumOf,
    ListOf,
    MapOf,
    OptionalOf,
    RecordOf,
    Scalar,
    Shape,
    describe,
)
from gearshift.tables import literal, quoted, unreadable, unreadable_words

_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_UNBOUNDED = (Scalar.STRING, Scalar.BYTES)


@dataclass(frozen=True, slots=True)
class Misfit:
    """An SQL condition that is true if a value cannot be written, and the reason."""

    condition: str
    reason: str


def misfits(given: StructType, topic: Topic) -> list[Misfit]:
    """What can be wrong with a row of these columns for the topic."""
    columns = {field.name: field for field in given.fields}
    found: list[Misfit] = []
    for field in describe(topic.value).fields:
        column = columns.get(field.name)
        if column is not None:
            found += _of(quoted(field.name), field.name, column, field.shape, topic.format == "json")
    return found


def reason(found: Iterable[Misfit]) -> str:
    """An SQL expression for the first reason, or null.

    >>> reason([Misfit("n IS NULL", "required field n is null")])
    "CASE WHEN n IS NULL THEN 'required field n is null' END"
    >>> reason([])
    'cast(null as string)'
    """
    cases = [f"WHEN {misfit.condition} THEN {literal(misfit.reason)}" for misfit in found]
    return f"CASE {' '.join(cases)} END" if cases else "cast(null as string)"


def is_bounded(topic: Topic) -> bool:
    """Whether every field of the topic's values has a small maximum size."""
    return all(_is_bounded(field.shape) for field in describe(topic.value).fields)


def _of(value: str, path: str, given: StructField, shape: Shape, json: bool, depth: int = 0) -> list[Misfit]:
    found: list[Misfit] = []
    optional = isinstance(shape, OptionalOf)
    if given.nullable and not optional:
        found.append(Misfit(f"{value} IS NULL", f"required field {path} is null"))
    inner = shape.item if isinstance(shape, OptionalOf) else shape
    within = _within(value, path, given.dataType, inner, json, depth)
    if given.nullable and isinstance(inner, RecordOf):  # the fields of a struct that is null are null
        within = [Misfit(f"({value} IS NOT NULL AND {each.condition})", each.reason) for each in within]
    return [*found, *within]


def _within(value: str, path: str, type_: DataType, shape: Shape, json: bool, depth: int) -> list[Misfit]:
    match shape:
        case Scalar.STRING | Scalar.DATE | Scalar.TIMESTAMP:
            kind = "string" if shape is Scalar.STRING else type_.typeName()
            condition = unreadable(value, kind)
            return [Misfit(condition, f"{path} {unreadable_words(kind)}")] if condition else []
        case Scalar.DOUBLE if json:
            return [
                Misfit(
                    f"NOT abs({value}) < double('Infinity')",
                    f"{path} is NaN or infinite, which JSON cannot hold",
                )
            ]
        case EnumOf():
            words = ", ".join(literal(word) for word in shape.members)
            return [Misfit(f"{value} NOT IN ({words})", f"{path} is not a member of {shape.type.__name__}")]
        case DecimalOf():
            return _overflows(value, path, type_, shape)
        case RecordOf() if isinstance(type_, StructType):
            pairs = zip(type_.fields, shape.fields, strict=True)
            return [
                misfit
                for one, other in pairs
                for misfit in _of(
                    f"{value}.{quoted(one.name)}", f"{path}.{one.name}", one, other.shape, json, depth
                )
            ]
        case ListOf() if isinstance(type_, ArrayType):
            item = StructField("item", type_.elementType, type_.containsNull)
            return _exists(value, f"{path}[]", item, shape.item, json, depth)
        case MapOf() if isinstance(type_, MapType):
            key = StructField("key", type_.keyType, False)
            item = StructField("value", type_.valueType, type_.valueContainsNull)
            return [
                *_exists(f"map_keys({value})", f"a key of {path}", key, Scalar.STRING, json, depth),
                *_exists(f"map_values({value})", f"{path}[]", item, shape.value, json, depth),
            ]
        case _:
            return []


def _exists(values: str, path: str, item: StructField, shape: Shape, json: bool, depth: int) -> list[Misfit]:
    each = f"_{depth}"
    return [
        Misfit(f"exists({values}, {each} -> {misfit.condition})", misfit.reason)
        for misfit in _of(each, path, item, shape, json, depth + 1)
    ]


def _overflows(value: str, path: str, type_: DataType, shape: DecimalOf) -> list[Misfit]:
    room = shape.precision - shape.scale
    if isinstance(type_, DecimalType):
        digits, rounds = type_.precision - type_.scale, type_.scale > shape.scale
    else:
        digits, rounds = _DIGITS.get(type(type_), 0), False
    if digits + rounds <= room:  # rounding may carry: 9.99 becomes 10.0
        return []
    wanted = f"decimal({shape.precision},{shape.scale})"
    condition = f"({value} IS NOT NULL AND try_cast({value} AS {wanted}) IS NULL)"
    return [Misfit(condition, f"{path} does not fit {wanted}")]


def _is_bounded(shape: Shape) -> bool:
    match shape:
        case ListOf() | MapOf():
            return False
        case OptionalOf():
            return _is_bounded(shape.item)
        case RecordOf():
            return all(_is_bounded(field.shape) for field in shape.fields)
        case _:
            return shape not in _UNBOUNDED
