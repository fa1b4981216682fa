"""Shapes: frozen descriptions of value types, from which schemas and codecs are derived."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
import zoneinfo
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final

from gearshift.errors import SchemaError
from gearshift.schemas.locating import located

TIME_UNITS = ("s", "ms", "us", "ns")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SUPPORTED = "str, int, float, bool, bytes, Decimal, datetime, date, Enum, T | None, list[T], dict[str, T] and dataclasses"


class Scalar(Enum):
    """The shapes without parameters."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    BYTES = "bytes"
    TIMESTAMP = "timestamp"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class DecimalOf:
    """A decimal number with `precision` digits, `scale` of them after the point.

    As a marker it sets the precision of a field: `price: Annotated[Decimal, DecimalOf(12, 2)]`.
    """

    precision: int = 38
    scale: int = 18

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise SchemaError(
                f"invalid type decimal({self.precision}, {self.scale})",
                hint="use a precision from 1 to 38, and a scale from 0 to the precision",
            )


@dataclass(frozen=True, slots=True)
class Alias:
    """A former name of a field, which older records use: `meter_id: Annotated[str, Alias("meter")]`."""

    name: str


@dataclass(frozen=True, slots=True)
class TimeOf:
    """The unit or zone of times of an external topic whose schema does not define them.

    `unit` is that of a plain number since 1970; `zone` is that of a local timestamp:
    `read_at: Annotated[datetime, TimeOf("ms")]`, `opened_at: Annotated[datetime, TimeOf(zone="Europe/Berlin")]`.
    An int with a unit reads times as numbers, also times of day: `opens: Annotated[int, TimeOf("ms")]`.
    """

    unit: str | None = None
    zone: str | None = None

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in TIME_UNITS:
            raise SchemaError(f"unknown time unit {self.unit!r}", hint=f"use one of {', '.join(TIME_UNITS)}")
        if self.zone is not None:
            try:
                zoneinfo.ZoneInfo(self.zone)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError):
                raise SchemaError(
                    f"unknown time zone {self.zone!r}", hint='use a name such as "Europe/Berlin" or "UTC"'
                ) from None


@dataclass(frozen=True, slots=True)
class EnumOf:
    """A member of an Enum, written as its value if all values are str, otherwise as its name."""

    type: type[Enum]

    @property
    def members(self) -> dict[str, Enum]:
        """The members by their written form."""
        members = list(self.type)
        if all(isinstance(member.value, str) for member in members):
            return {member.value: member for member in members}
        return {member.name: member for member in members}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of items of one shape."""

    item: Shape


@dataclass(frozen=True, slots=True)
class MapOf:
    """Values of one shape by str keys."""

    value: Shape


@dataclass(frozen=True, slots=True)
class OptionalOf:
    """A shape, or None."""

    item: Shape


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record; `default` is MISSING if the schema has none."""

    name: str
    shape: Shape
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    """Its former names, newest first; for a record without the present name, the first that it has is used."""
    time: TimeOf | None = None
    """The unit or zone of its times, if the writer's schema does not define it."""

    @property
    def has_default(self) -> bool:
        """Whether old records without this field can be read."""
        return self.default is not MISSING


@dataclass(frozen=True, slots=True)
class RecordOf:
    """The fields of a dataclass."""

    type: type[Any]
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """The record's name in schemas."""
        return self.type.__name__


Shape = Scalar | DecimalOf | EnumOf | ListOf | MapOf | OptionalOf | RecordOf

_SCALARS: Final[Mapping[Any, Scalar | DecimalOf]] = {
    str: Scalar.STRING,
    int: Scalar.LONG,
    float: Scalar.DOUBLE,
    bool: Scalar.BOOLEAN,
    bytes: Scalar.BYTES,
    datetime: Scalar.TIMESTAMP,
    date: Scalar.DATE,
    Decimal: DecimalOf(),
}


@cache
def describe(value_type: type[Any]) -> RecordOf:
    """The shape of a dataclass.

    >>> @dataclass
    ... class Reading:
    ...     meter_id: str
    ...     load_kw: float = 0.0
    >>> [(field.name, field.shape.value, field.has_default) for field in describe(Reading).fields]
    [('meter_id', 'string', False), ('load_kw', 'double', True)]
    """
    return _Description().record(value_type, ())


class _Description:
    """One traversal of a value type, which checks that each name is used by one class only."""

    def __init__(self) -> None:
        self.named: dict[str, type[Any]] = {}

    def record(self, value_type: type[Any], above: tuple[type[Any], ...]) -> RecordOf:
        if not dataclasses.is_dataclass(value_type):
            raise SchemaError(
                f"{_word(value_type)} is not a dataclass", hint="decorate it with @dataclass(frozen=True)"
            )
        name = value_type.__name__
        if value_type in above:
            path = " → ".join(each.__name__ for each in (*above, value_type))
            raise SchemaError(f"{name} contains itself ({path})", hint="refer to the other record by its key")
        _check_name(name, "a class")
        other = self.named.setdefault(name, value_type)
        if other is not value_type:
            raise SchemaError(
                f"two classes are named {name}: {_full(other)} and {_full(value_type)}",
                hint="rename one of them: schemas identify records by name",
            )
        with located(value_type):
            hints = _hints(value_type)
            fields: list[Field] = []
            for field in dataclasses.fields(value_type):
                with located(value_type, field.name):
                    fields.append(self._field(value_type, field, hints[field.name], (*above, value_type)))
            if not fields:
                raise SchemaError(f"{name} has no fields", hint="add at least one field")
            _check_aliases(name, fields)
        return RecordOf(value_type, tuple(fields))

    def _field(
        self, owner: type[Any], field: dataclasses.Field[Any], annotation: Any, above: tuple[type[Any], ...]
    ) -> Field:
        path = f"{owner.__name__}.{field.name}"
        _check_name(field.name, "a field")
        if not field.init:
            raise SchemaError(
                f"{path} is not set by the constructor",
                hint="make it a property: decoders set fields with the constructor",
            )
        # An alias belongs to the field; deeper inside its type it would have no effect.
        markers = typing.get_args(annotation)[1:] if typing.get_origin(annotation) is Annotated else ()
        aliases = tuple(marker.name for marker in markers if isinstance(marker, Alias))
        times = [marker for marker in markers if isinstance(marker, TimeOf)]
        shape = self.shape(annotation, path, above, field=True)
        if times and not _holds_time(shape):
            raise SchemaError(f"{path} is marked TimeOf", hint="use TimeOf for a datetime or an int only")
        return Field(field.name, shape, _default(field), aliases, times[-1] if times else None)

    def shape(
        self, annotation: Any, path: str, above: tuple[type[Any], ...], *, field: bool = False
    ) -> Shape:
        if annotation in _SCALARS:
            return _SCALARS[annotation]
        origin: Any = typing.get_origin(annotation)
        arguments: tuple[Any, ...] = typing.get_args(annotation)
        if origin is Annotated:
            inside = [marker for marker in arguments[1:] if isinstance(marker, Alias | TimeOf)]
            if inside and not field:
                kind = type(inside[0]).__name__
                raise SchemaError(
                    f"{path} has {kind} inside its type",
                    hint=f"write it around the whole type: Annotated[datetime | None, {kind}(...)]",
                )
            return self._annotated(arguments, path, above)
        if origin in (typing.Union, types.UnionType):
            kinds = [argument for argument in arguments if argument is not type(None)]
            if len(kinds) == 1 and len(arguments) == 2:
                return OptionalOf(self.shape(kinds[0], path, above))
            raise SchemaError(
                f"{path} is a union of {len(kinds)} types", hint="use T | None, the only supported union"
            )
        if origin is list:
            return ListOf(self.shape(arguments[0], path, above))
        if origin is dict:
            if arguments[0] is not str:
                raise SchemaError(f"{path} is a dict with {_word(arguments[0])} keys", hint="use str keys")
            return MapOf(self.shape(arguments[1], path, above))
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            if not len(annotation):
                raise SchemaError(
                    f"{path} is the Enum {annotation.__name__}, which has no members", hint="add a member"
                )
            return EnumOf(annotation)
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            return self.record(annotation, above)
        raise SchemaError(f"{path} is {_word(annotation)}, which has no schema", hint=f"use {_SUPPORTED}")

    def _annotated(self, arguments: tuple[Any, ...], path: str, above: tuple[type[Any], ...]) -> Shape:
        shape = self.shape(arguments[0], path, above)
        markers = [marker for marker in arguments[1:] if isinstance(marker, DecimalOf)]
        if not markers:
            return shape
        if isinstance(shape, DecimalOf):
            return markers[-1]
        raise SchemaError(
            f"{path} is {_word(arguments[0])}, marked DecimalOf", hint="use DecimalOf for a Decimal only"
        )


def _check_aliases(record: str, fields: Iterable[Field]) -> None:
    """Raise if a name that old records may use belongs to two fields."""
    taken = {field.name: field.name for field in fields}
    for field in fields:
        for alias in field.aliases:
            _check_name(alias, "a field")
            if alias in taken:
                raise SchemaError(
                    f"{record}.{field.name} has the alias {alias!r}, which is also a name of {record}.{taken[alias]}",
                    hint="remove the alias from one of them",
                )
            taken[alias] = field.name


def _holds_time(shape: Shape) -> bool:
    if isinstance(shape, OptionalOf | ListOf):
        return _holds_time(shape.item)
    if isinstance(shape, MapOf):
        return _holds_time(shape.value)
    return shape in (Scalar.TIMESTAMP, Scalar.LONG)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is MISSING:
        return field.default
    # A factory that returns a new value each time (an id, the present time) is not a default for old
    # records, and would change the schema at every start: such a field is required.
    default = field.default_factory()
    return default if default == field.default_factory() else MISSING


def _hints(value_type: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(value_type, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"{value_type.__name__} uses an undefined type: {error.name}",
            hint="define or import it at the top of the module",
        ) from None


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise SchemaError(
            f"{name!r} cannot be the name of {what}", hint="use A-Z, a-z, 0-9 and _, as Avro requires"
        )


def _full(value_type: type[Any]) -> str:
    return f"{value_type.__module__}.{value_type.__qualname__}"


def _word(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
