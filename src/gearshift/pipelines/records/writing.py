"""Encodes a transform's rows as a topic's records, stamped with the run and the batch that wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import CheckError
from gearshift.pipelines.records import invalid_rows as invalid
from gearshift.pipelines.records.reading import row_type
from gearshift.pipelines.records.replays import STAMP
from gearshift.schemas import avro_schema
from gearshift.schemas.wire import head
from gearshift.tables import quoted
from gearshift.topics import REASON_HEADERS, result_headers

INVALID = "GEARSHIFT_INVALID_RESULT"
"""The error of a query, with the reason, at a row that its topic cannot take, if the pipeline has on_invalid="stop"."""
RESULT = "gearshift_result"
"""The observation that counts the rows that became dead letters."""
TOPIC = "topic"
"""The column with each record's topic; present only if a row can become a dead letter."""
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_WHY, _KEY, _VALUE = "_gearshift_why", "_gearshift_key", "_gearshift_value"
_HEADERS = "array<struct<key:string,value:binary>>"
_OVERHEAD = 256  # of a record with its stamp, alone in a record batch
_LONGEST_LETTER = 200_000  # characters of at most four bytes: under every broker's default limit


def records(
    frame: DataFrame,
    pipeline: Pipeline,
    topic: Topic,
    *,
    app: str,
    schema_id: int,
    stamp: int | None,
    largest: int,
) -> DataFrame:
    """The frame as Kafka records: key, value in the registry's wire format, and optionally the stamp of a run.

    A row that the topic cannot take, for example one of more than `largest` bytes, becomes a dead letter with the
    reason and the row as JSON: the column `topic` sends it to the dead-letter topic in the same write.
    """
    given = {field.name: field for field in frame.schema.fields}
    value = _encoded(given, topic, schema_id)
    key = F.col(topic.key).cast("string") if topic.key is not None else F.lit(None).cast("string")
    headers = _stamp(pipeline, stamp) if stamp is not None else None
    found, bounded = invalid.misfits(frame.schema, topic), invalid.is_bounded(topic)
    if not found and bounded:
        columns = [key.alias("key"), value.alias("value")]
        return frame.select(*columns, *([headers.alias("headers")] if headers is not None else ()))
    # In steps, so that each column is computed once and only valid rows are encoded.
    frame = frame.select("*", F.expr(invalid.reason(found)).alias(_WHY))
    frame = frame.select("*", key.alias(_KEY), F.when(F.col(_WHY).isNull(), value).alias(_VALUE))
    if not bounded:
        why = F.coalesce(F.col(_WHY), _too_large(largest)).alias(_WHY)
        frame = frame.select(*(name for name in frame.columns if name != _WHY), why)
    fits, why = F.col(_WHY).isNull(), F.col(_WHY)
    if pipeline.on_invalid == "stop":
        stop = F.raise_error(F.concat(F.lit(f"{INVALID}="), why, F.lit(";;"))).cast("binary")
        columns = [F.col(_KEY).alias("key"), F.when(fits, F.col(_VALUE)).otherwise(stop).alias("value")]
        return frame.select(*columns, *([headers.alias("headers")] if headers is not None else ()))
    letter = as_letter(given)
    reasons = letter_headers(result_headers(app, pipeline.name, topic.name), why)
    good = headers if headers is not None else F.lit(None).cast(_HEADERS)
    return frame.select(
        F.col(_KEY).alias("key"),
        F.when(fits, F.col(_VALUE)).otherwise(letter).alias("value"),
        F.when(fits, good).otherwise(reasons).alias("headers"),
        F.when(fits, F.lit(topic.name)).otherwise(F.lit(topic.dead_letters)).alias(TOPIC),
    )


def as_letter(columns: Iterable[str]) -> Column:
    """A row as JSON: the value of the dead letter of a row that cannot be encoded."""
    row = F.to_json(F.struct(*(F.col(quoted(name)) for name in columns)), _JSON)
    return F.encode(F.left(row, F.lit(_LONGEST_LETTER)), "UTF-8")


def letter_headers(known: Mapping[str, str], why: Column) -> Column:
    """The headers of a dead letter, with the reason."""
    headers: list[tuple[str, Column]] = [(name, F.lit(value)) for name, value in known.items()]
    headers += [(name, why) for name in REASON_HEADERS]
    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), F.encode(value, "UTF-8").alias("value"))
            for name, value in headers
        )
    )


def count_invalid(topic: Topic) -> Column:
    """The number of a topic's records that are dead letters."""
    return F.count_if(F.col(TOPIC) == F.lit(topic.dead_letters)).alias("invalid")


def check_columns(schema: StructType, pipeline: Pipeline, topic: Topic) -> None:
    """Raise if a transform's columns are not the fields of the topic's value type."""
    wanted = {field.name: field for field in row_type(topic).fields}
    given = {field.name: field for field in schema.fields}
    name = topic.value.__name__
    for column in given:
        if column not in wanted:
            raise _misfit(
                f"column {column} is not a field of {name}", f"drop it, or add it to {name}", pipeline, topic
            )
    for column, field in wanted.items():
        if column not in given:
            if field.nullable:
                continue
            raise _misfit(
                f"missing column {column}, a field of {name}",
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
                    "(a cast matches them by position, not by name)"
                )
            raise _misfit(f"column {column} is {have} but {name}.{column} is {want}", hint, pipeline, topic)


def _encoded(given: Mapping[str, StructField], topic: Topic, schema_id: int) -> Column:
    value = F.struct(*(_fit(given.get(field.name), field) for field in row_type(topic).fields))
    if topic.format == "avro":
        payload = to_avro(value, json.dumps(avro_schema(topic.value)))
    else:
        text = value.cast(_with_decimals_as_text(_nullable(row_type(topic))))
        payload = F.encode(F.to_json(text, _JSON), "UTF-8")
    return F.concat(F.lit(head(schema_id)), payload)


def _too_large(largest: int) -> Column:
    size = F.octet_length(_VALUE) + F.coalesce(F.octet_length(_KEY), F.lit(0))
    words = (
        size.cast("string"),
        F.lit(f" bytes exceed the topic's limit ({largest} including overhead)"),
    )
    room = largest - _OVERHEAD - largest // 4096  # incompressible data grows a little
    return F.when(size > room, F.concat(*words))


def _fit(given: StructField | None, field: StructField) -> Column:
    type_ = _nullable(field.dataType)  # a cast in Spark always makes nested fields nullable
    if given is None:
        return F.lit(None).cast(type_).alias(field.name)
    value = F.col(field.name)
    if _nullable(given.dataType) != type_:
        value = value.cast(type_)
    if not field.nullable and given.nullable:
        # Rows with nulls never get here; this makes the field non-nullable for Spark.
        value = F.coalesce(value, F.raise_error(F.lit(f"{INVALID}=required field {field.name} is null;;")))
    return value.alias(field.name)


def _nullable(type_: DataType) -> DataType:
    return _rebuilt(type_, lambda leaf: leaf)


def _with_decimals_as_text(type_: DataType) -> DataType:
    """Decimals become text, since most readers parse JSON numbers as floating point."""
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


def _stamp(pipeline: Pipeline, run: int) -> Column:
    """`PIPELINE/RUN/BATCH TIME`, constant within a batch.

    Spark keeps the batch's time in its offset log, also when it runs the batch again. So a record with a time that no
    committed batch of its run has was written by an attempt that never committed.
    """
    time = F.unix_millis(F.current_timestamp()).cast("string")
    text = F.concat(F.lit(f"{pipeline.name}/{run}/"), time)
    return F.array(F.struct(F.lit(STAMP).alias("key"), F.encode(text, "UTF-8").alias("value")))


def _same_kind(given: DataType, wanted: DataType) -> bool:
    """Whether a cast keeps the value, at every depth: integers to integers or decimals, decimals to decimals.

    Fields of a struct must have the same names and order: Spark casts them by position.
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
