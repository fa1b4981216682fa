"""What a value type looks like: one frozen description that every schema and codec is derived from."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final

from gearshift.errors import SchemaError

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
    """A decimal number with this many digits, of which `scale` after the point.

    As a marker it sets the precision of a field: `price: Annotated[Decimal, DecimalOf(12, 2)]`.
    """

    precision: int = 38
    scale: int = 18

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise SchemaError(
                f"decimal({self.precision}, {self.scale}) is not possible",
                hint="precision goes from 1 to 38, as Spark's, and scale from 0 to the precision",
            )


@dataclass(frozen=True, slots=True)
class EnumOf:
    """A member of an Enum, written as a word: its value where all values are str, its name otherwise."""

    type: type[Enum]

    @property
    def members(self) -> dict[str, Enum]:
        """The members by the word each is written as."""
        members = list(self.type)
        if all(isinstance(member.value, str) for member in members):
            return {member.value: member for member in members}
        return {member.name: member for member in members}


@dataclass(frozen=True, slots=True)
class ListOf:
    """Any number of items of one shape."""

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
    """One field of a record; `default` is MISSING where the schema has none."""

    name: str
    shape: Shape
    default: Any = MISSING

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
        """The name the record has in every schema."""
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
    """One walk over a value type; it remembers the names it gave, so that each stands for one class."""

    def __init__(self) -> None:
        self.named: dict[str, type[Any]] = {}

    def record(self, value_type: type[Any], above: tuple[type[Any], ...]) -> RecordOf:
        if not dataclasses.is_dataclass(value_type):
            raise SchemaError(
                f"{_word(value_type)} is not a dataclass", hint="decorate it with @dataclass(frozen=True)"
            )
        name = value_type.__name__
        if value_type in above:
            way = " → ".join(each.__name__ for each in (*above, value_type))
            raise SchemaError(
                f"{name} contains itself ({way})", hint="refer to the other record by its key instead"
            )
        _check_name(name, "a class")
        other = self.named.setdefault(name, value_type)
        if other is not value_type:
            raise SchemaError(
                f"two classes are named {name}: {_full(other)} and {_full(value_type)}",
                hint="a schema knows records by name; rename one of them",
            )
        hints = _hints(value_type)
        fields = tuple(
            self._field(value_type, field, hints[field.name], (*above, value_type))
            for field in dataclasses.fields(value_type)
        )
        if not fields:
            raise SchemaError(f"{name} has no fields", hint="give it at least one")
        return RecordOf(value_type, fields)

    def _field(
        self, owner: type[Any], field: dataclasses.Field[Any], annotation: Any, above: tuple[type[Any], ...]
    ) -> Field:
        path = f"{owner.__name__}.{field.name}"
        _check_name(field.name, "a field")
        if not field.init:
            raise SchemaError(
                f"{path} is not set by the constructor",
                hint="a decoder could not fill it; make it a property",
            )
        return Field(field.name, self.shape(annotation, path, above), _default(field))

    def shape(self, annotation: Any, path: str, above: tuple[type[Any], ...]) -> Shape:
        if annotation in _SCALARS:
            return _SCALARS[annotation]
        origin: Any = typing.get_origin(annotation)
        arguments: tuple[Any, ...] = typing.get_args(annotation)
        if origin is Annotated:
            return self._annotated(arguments, path, above)
        if origin in (typing.Union, types.UnionType):
            kinds = [argument for argument in arguments if argument is not type(None)]
            if len(kinds) == 1 and len(arguments) == 2:
                return OptionalOf(self.shape(kinds[0], path, above))
            raise SchemaError(f"{path} is a union of {len(kinds)} types", hint="only T | None is supported")
        if origin is list:
            return ListOf(self.shape(arguments[0], path, above))
        if origin is dict:
            if arguments[0] is not str:
                raise SchemaError(
                    f"{path} is a dict with {_word(arguments[0])} keys", hint="keys must be str"
                )
            return MapOf(self.shape(arguments[1], path, above))
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            if not len(annotation):
                raise SchemaError(
                    f"{path} is the Enum {annotation.__name__}, which has no members", hint="give it one"
                )
            return EnumOf(annotation)
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            return self.record(annotation, above)
        raise SchemaError(
            f"{path} is {_word(annotation)}, which has no schema", hint=f"supported are {_SUPPORTED}"
        )

    def _annotated(self, arguments: tuple[Any, ...], path: str, above: tuple[type[Any], ...]) -> Shape:
        shape = self.shape(arguments[0], path, above)
        markers = [marker for marker in arguments[1:] if isinstance(marker, DecimalOf)]
        if not markers:
            return shape
        if isinstance(shape, DecimalOf):
            return markers[-1]
        raise SchemaError(
            f"{path} is {_word(arguments[0])}, marked DecimalOf", hint="only a Decimal has a precision"
        )


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is MISSING:
        return field.default
    # A factory that gives something new each time (an id, the present) is no default for old
    # records, and would make a new schema at every start: such a field is required.
    default = field.default_factory()
    return default if default == field.default_factory() else MISSING


def _hints(value_type: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(value_type, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"{value_type.__name__} names a type that cannot be found: {error.name}",
            hint="define or import it at the top of the module",
        ) from None


def _check_name(name: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise SchemaError(f"{name!r} cannot be the name of {what}", hint="Avro allows A-Z, a-z, 0-9 and _")


def _full(value_type: type[Any]) -> str:
    return f"{value_type.__module__}.{value_type.__qualname__}"


def _word(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
