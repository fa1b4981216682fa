"""Values as Spark frames with a topic's schema, and rows as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import is_dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any, cast

from gearshift.definitions import Location, Topic
from gearshift.errors import DefinitionError, EncodeError, GearshiftError
from gearshift.pipelines.records.reading import row_type
from gearshift.schemas import describe
from gearshift.schemas.encoding import AVRO_PLAIN, Convert, Misfit, encoder, fixed
from gearshift.schemas.shapes import EnumOf, ListOf, MapOf, OptionalOf, RecordOf, Scalar, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _checked(check: Convert, change: Convert) -> Convert:
    def convert(value: Any) -> Any:
        check(value)
        return change(value)

    return convert


_CHECKS = AVRO_PLAIN.scalars
_SPARK = replace(
    AVRO_PLAIN,
    scalars={
        **_CHECKS,
        Scalar.TIMESTAMP: _checked(_CHECKS[Scalar.TIMESTAMP], lambda value: value.astimezone(UTC)),
        Scalar.DATE: _checked(_CHECKS[Scalar.DATE], lambda value: value),
    },
    decimal=fixed,
)
"""What Spark takes: checked as for a topic, with times and dates as Python has them."""


def require_values(values: object, source: str, of: type[Any]) -> list[Any]:
    """The values of a source as a list; raises unless all of them are of the topic's type, field by field."""
    convert = encoder(describe(of), _SPARK)
    found = as_list(values, source)
    for number, value in enumerate(found):
        _converted(convert, value, number, source, of)
    return found


def as_list(values: object, source: str) -> list[Any]:
    """The values as a list; raises if they are a single value or text."""
    if isinstance(values, str | bytes | Mapping) or is_dataclass(values) or not isinstance(values, Iterable):
        raise DefinitionError(f"the input of {source} is not a list", hint="give a list of values")
    return list(cast("Iterable[Any]", values))


def frame_of(spark: SparkSession, topic: Topic, values: Sequence[Any]) -> DataFrame:
    """A static frame with the columns that a pipeline sees of a topic."""
    convert = encoder(describe(topic.value), _SPARK)
    rows = [
        _converted(convert, value, number, topic.name, topic.value) for number, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, row_type(topic))  # pyright: ignore[reportUnknownMemberType]


def frame_of_rows(spark: SparkSession, name: str, rows: Sequence[Any], schema: Any = None) -> DataFrame:
    """A static frame of a table's rows: dataclass instances, or dicts.

    The columns of dicts are those of `schema`, or else as Spark infers them from the values.
    """
    if rows and is_dataclass(rows[0]):
        of = cast("type[Any]", type(rows[0]))
        return frame_of(spark, Topic(name=name, value=of, defined_at=Location("", 0)), rows)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DefinitionError(
                f"row {number} of {name} is {type(row).__name__}", hint="give dicts or dataclass instances"
            )
        unknown = [
            column for column in cast("Mapping[str, Any]", row) if schema and column not in schema.names
        ]
        if unknown:
            raise DefinitionError(
                f"row {number} of {name} has a column {unknown[0]}",
                hint=f"its columns are {', '.join(schema.names)}",
            )
    if schema is None and not rows:
        raise DefinitionError(
            f"the columns of table {name} are unknown: it has no rows and no pipeline writes it",
            hint="give it a row, or declare the pipeline that writes it",
        )
    try:
        return spark.createDataFrame([dict(row) for row in rows], schema)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    except GearshiftError:
        raise
    except Exception as error:
        raise EncodeError(
            f"the rows of {name} do not have its columns: {str(error).splitlines()[0]}",
            hint=f"give {schema.simpleString()}" if schema else "give all rows the same columns and types",
        ) from error


def _converted(convert: Convert, value: Any, number: int, source: str, of: type[Any]) -> Any:
    try:
        return convert(value)
    except Misfit as misfit:
        raise EncodeError(
            f"value {number} of {source}: {misfit}", hint=f"give instances of {of.__name__}"
        ) from None


def values_of(frame: DataFrame, of: type[Any] | None) -> list[Any]:
    """The rows of a frame as instances of a type, or as dicts; times are in UTC."""
    rows = [as_dict(row, frame.schema) for row in frame.collect()]
    if of is None:
        return rows
    make = _maker(describe(of))
    return [make(row) for row in rows]


def as_dict(row: Any, schema: Any) -> dict[str, Any]:
    """A row of Spark as plain data: dicts, lists, and times in UTC, which PySpark gives without a zone."""
    return {field.name: _plain(row[field.name], field.dataType) for field in schema.fields}


def _plain(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    name = kind.typeName()
    if name == "timestamp":
        return value.astimezone(UTC)
    if name == "struct":
        return as_dict(value, kind)
    if name == "array":
        return [_plain(item, kind.elementType) for item in value]
    if name == "map":
        return {key: _plain(item, kind.valueType) for key, item in value.items()}
    return bytes(value) if name == "binary" else value


Make = Callable[[Any], Any]


def _maker(shape: Shape) -> Make:
    """A function from plain data to a value of a shape."""
    if isinstance(shape, RecordOf):
        parts = {field.name: _maker(field.shape) for field in shape.fields}
        made, taken = shape.type, {field.name for field in fields_of(shape.type) if field.init}
        return lambda row: made(
            **{name: part(row.get(name)) for name, part in parts.items() if name in taken}
        )
    if isinstance(shape, ListOf):
        item = _maker(shape.item)
        return lambda items: None if items is None else [item(each) for each in items]
    if isinstance(shape, MapOf):
        value = _maker(shape.value)
        return lambda entries: (
            None if entries is None else {key: value(each) for key, each in entries.items()}
        )
    if isinstance(shape, OptionalOf):
        inner = _maker(shape.item)
        return lambda value: None if value is None else inner(value)
    if isinstance(shape, EnumOf):
        members = shape.members
        return lambda word: None if word is None else members[word]
    return lambda value: value
