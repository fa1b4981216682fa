"""From a transform's rows to a topic's records, each stamped with the stretch and batch that wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import CheckError
from gearshift.pipelines.reading import row_type
from gearshift.pipelines.replays import STAMP
from gearshift.schemas import avro_schema
from gearshift.schemas.wire import head

NULL_FIELD = "GEARSHIFT_NULL_FIELD"
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def records(
    frame: DataFrame, pipeline: Pipeline, topic: Topic, *, schema_id: int, stamp: int | None
) -> DataFrame:
    """The frame as Kafka records: key, value in the registry's wire format, and the stamp of a stretch if asked."""
    given = {field.name: field for field in frame.schema.fields}
    value = F.struct(*(_fit(given.get(field.name), field) for field in row_type(topic).fields))
    if topic.format == "avro":
        payload = to_avro(value, json.dumps(avro_schema(topic.value)))
    else:
        text = value.cast(_with_decimals_as_text(_nullable(row_type(topic))))
        payload = F.encode(F.to_json(text, _JSON), "UTF-8")
    columns = [F.concat(F.lit(head(schema_id)), payload).alias("value")]
    if stamp is not None:
        columns.append(_stamp(pipeline, stamp).alias("headers"))
    if topic.key is not None:
        columns.insert(0, F.col(topic.key).cast("string").alias("key"))
    return frame.select(*columns)


def check_columns(schema: StructType, pipeline: Pipeline, topic: Topic) -> None:
    """Refuse a transform whose columns are not the fields of the topic's value type."""
    wanted = {field.name: field for field in row_type(topic).fields}
    given = {field.name: field for field in schema.fields}
    name = topic.value.__name__
    for column in given:
        if column not in wanted:
            raise _misfit(
                f"column {column} is no field of {name}", f"drop it, or add it to {name}", pipeline, topic
            )
    for column, field in wanted.items():
        if column not in given:
            if field.nullable:
                continue
            raise _misfit(
                f"column {column}, a field of {name}, is missing",
                f"select it, or make it Optional in {name}",
                pipeline,
                topic,
            )
        if not _same_kind(given[column].dataType, field.dataType):
            have, want = given[column].dataType.simpleString(), field.dataType.simpleString()
            hint = f"cast it to {want}"
            if "struct<" in want:
                hint = (
                    f"make it {want}: these fields, in this order "
                    "(a cast would take them by their places, not their names)"
                )
            raise _misfit(f"column {column} is {have} but {name}.{column} is {want}", hint, pipeline, topic)


def _fit(given: StructField | None, field: StructField) -> Column:
    type_ = _nullable(field.dataType)  # Spark has no cast that promises there are no nulls inside
    if given is None:
        return F.lit(None).cast(type_).alias(field.name)
    value = F.col(field.name)
    if _nullable(given.dataType) != type_:
        value = value.cast(type_)
    if not field.nullable and given.nullable:
        value = F.coalesce(value, F.raise_error(F.lit(f"{NULL_FIELD}={field.name};")))
    return value.alias(field.name)


def _nullable(type_: DataType) -> DataType:
    return _rebuilt(type_, lambda leaf: leaf)


def _with_decimals_as_text(type_: DataType) -> DataType:
    """JSON's numbers are floating point to most readers: decimals travel as text."""
    return _rebuilt(type_, lambda leaf: StringType() if isinstance(leaf, DecimalType) else leaf)


def _rebuilt(type_: DataType, change: Callable[[DataType], DataType]) -> DataType:
    if isinstance(type_, StructType):
        return StructType(
            [StructField(field.name, _rebuilt(field.dataType, change)) for field in type_.fields]
        )
    if isinstance(type_, ArrayType):
        return ArrayType(_rebuilt(type_.elementType, change))
    if isinstance(type_, MapType):
        return MapType(_rebuilt(type_.keyType, change), _rebuilt(type_.valueType, change))
    return change(type_)


def _stamp(pipeline: Pipeline, stretch: int) -> Column:
    """`PIPELINE/STRETCH/BATCH TIME`, a constant of the batch.

    Spark keeps the batch's time in its offset log, also when it runs the batch again; so a record
    whose time no committed batch of its stretch has was written by an attempt that did not count.
    """
    time = F.unix_millis(F.current_timestamp()).cast("string")
    text = F.concat(F.lit(f"{pipeline.name}/{stretch}/"), time)
    return F.array(F.struct(F.lit(STAMP).alias("key"), F.encode(text, "UTF-8").alias("value")))


def _same_kind(given: DataType, wanted: DataType) -> bool:
    """Whether a cast keeps the value: integers into integers, decimals into decimals, nothing else, at every depth.

    Fields of a struct must have their names and order: Spark casts the first to the first, whatever it is called.
    """
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return given.names == wanted.names and all(
            _same_kind(one.dataType, other.dataType)
            for one, other in zip(given.fields, wanted.fields, strict=True)
        )
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _same_kind(given.elementType, wanted.elementType)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return _same_kind(given.keyType, wanted.keyType) and _same_kind(given.valueType, wanted.valueType)
    if given.typeName() == wanted.typeName() or given.typeName() == "void":
        return True
    whole = {"byte", "short", "integer", "long"}
    fractions = {"float", "double"}
    if wanted.typeName() in whole:
        return given.typeName() in whole
    if wanted.typeName() in fractions:
        return given.typeName() in whole | fractions
    return wanted.typeName() == "decimal" and given.typeName() in whole


def _misfit(what: str, hint: str, pipeline: Pipeline, topic: Topic) -> CheckError:
    where = pipeline.defined_at
    return CheckError(
        what, hint=hint, pipeline=pipeline.name, topic=topic.name, file=where.file, line=where.line
    )
