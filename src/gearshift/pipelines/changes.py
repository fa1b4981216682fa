"""From Debezium's envelopes to columns: before, after, op and when; a plain projection that every gear runs.

A row comes as text by column first, so that each value is read by the rule of its own type, and one that cannot be
read is told from one that is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from enum import Enum
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from gearshift.definitions import DELETED, POSITION, Topic
from gearshift.pipelines.change_values import Described, read_value
from gearshift.schemas import spark_schema
from gearshift.schemas.shapes import describe

CHANGES = ("before", "after", "op", "source_time", "position")
MISSING_COLUMN = "GEARSHIFT_MISSING_COLUMN"
BEGINS_ANEW = "GEARSHIFT_BEGINS_ANEW"
_CORRUPT = "_corrupt"
_SOURCE = ("connector", "lsn", "ts_ms", "ts_us", "file", "pos", "snapshot")
_HAS_ROW = ("c", "u", "r")
_OPERATIONS = (*_HAS_ROW, "d", "t")
_UNCHANGED = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")


def row_type(topic: Topic) -> StructType:
    """The Spark type of the rows of a change topic; nothing in it is sure to be there."""
    type_ = StructType.fromJson(spark_schema(topic.value))
    return StructType([StructField(field.name, field.dataType) for field in type_.fields])


def parsed(topic: Topic) -> Column:
    """The JSON of a record's value as text by column: the envelope, or the envelope inside Connect's schema."""
    return F.from_json(
        F.col("value").cast("string"),
        _envelope_type(topic),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )


def parsed_key(topic: Topic) -> Column:
    """The JSON of a record's key as text by column."""
    row = _texts(topic)
    type_ = StructType([*row.fields, StructField("payload", row)])
    return F.from_json(F.col("key").cast("string"), type_, {"mode": "PERMISSIVE"})


def change(topic: Topic, found: Column, key: Column) -> tuple[Column, Column]:
    """The change that a parsed value and key are, and why they are none; both are null for a tombstone."""
    wrapped = found["payload"].isNotNull()

    def part(name: str) -> Column:
        return F.when(wrapped, found["payload"][name]).otherwise(found[name])

    names = [field.name for field in row_type(topic).fields]
    before, after, op, source = part("before"), part("after"), part("op"), part("source")
    described = Described(F.get(F.filter(found["schema"]["fields"], lambda one: one["field"] == "after"), 0))
    whole = F.lit(topic.before) | (F.coalesce(source["connector"], F.lit("")) != "postgresql")
    # PostgreSQL sends the key alone unless told otherwise, and Debezium makes up what may not be null.
    by_key = {name: F.coalesce(key["payload"][name], key[name]) for name in names}
    old = {name: F.when(whole, before[name]).otherwise(text) for name, text in by_key.items()}
    new = {name: after[name] for name in names}
    has_old = F.when(whole, before.isNotNull()).otherwise((op == "d") & _any_of(by_key.values()))
    has_new = op.isin(*_HAS_ROW)
    old_values, new_values = _read(topic, old, described), _read(topic, new, described)
    defaults = _defaults(topic)
    missing = _missing(topic, after, wrapped, source)
    value = F.struct(
        F.when(has_old & (op != "t"), _struct(old_values)).alias("before"),
        F.when(
            after.isNotNull(),
            _struct(
                {name: F.coalesce(new_values[name], defaults[name]) for name in defaults}, over=new_values
            ),
        ).alias("after"),
        op.alias("op"),
        _instant(source, part("ts_ms")).alias("source_time"),
        _position(source).alias("position"),
        _begins_anew(op, source).alias("begins"),
        F.when(has_new, missing).alias("missing"),
    )
    envelope = "is not Debezium's envelope: there is no op of its"
    why = F.when(
        found.isNull() | found[_CORRUPT].isNotNull(), F.lit("is not readable as JSON of an envelope")
    )
    why = why.when(op.isNull() | ~op.isin(*_OPERATIONS), F.lit(envelope))
    why = why.when(has_new & after.isNull(), F.lit("after is missing"))
    why = why.when((op == "d") & ~has_old, F.lit("it does not say which row was deleted"))
    for part_, condition, texts, values in (
        ("after", has_new, new, new_values),
        ("before", has_old, old, old_values),
    ):
        for field in row_type(topic).fields:
            name, text = f"{part_}.{field.name}", texts[field.name]
            unsent = (
                f"{name} was not sent: it is large and did not change; declare the capture with before=True"
            )
            why = why.when(condition & text.isin(*_UNCHANGED), F.lit(unsent))
            misfit = f"{name} is no {field.dataType.simpleString()}"
            why = why.when(condition & text.isNotNull() & values[field.name].isNull(), F.lit(misfit))
    for name in _required(topic):
        why = why.when(has_new & missing.isNull() & after[name].isNull(), F.lit(f"after.{name} is null"))
    is_there = F.col("value").isNotNull()
    return F.when(is_there, value), F.when(is_there, why)


def wanted(value: Column, since: int | None) -> Column:
    """Which of the decoded changes go on; a query that cannot go on stops here, where no column is left out.

    With `since`, what came before that position is void, and a later beginning (a truncate or a new snapshot) stops
    the query so that the table can forget what it holds.
    """
    missing = F.raise_error(F.concat(F.lit(f"{MISSING_COLUMN}="), value["missing"], F.lit(";")))
    keep = F.when(value.isNull(), F.lit(False)).when(value["missing"].isNotNull(), missing.cast("boolean"))
    if since is None:
        return keep.otherwise(F.lit(True))
    begins = value["begins"]
    stop = F.raise_error(F.concat(F.lit(f"{BEGINS_ANEW}="), begins.cast("string"), F.lit(";")))
    keep = keep.when(begins > F.lit(since), stop.cast("boolean"))
    return keep.otherwise(value["position"] >= F.lit(since))


def columns(value: Column, topic: Topic) -> list[Column]:
    """What a transform sees: the change, or the row as it is now with whether it is deleted and its place in the log."""
    if topic.as_of != "latest":
        return [value[name].alias(name) for name in CHANGES]
    after = value["after"]
    return [
        *(
            F.when(after.isNotNull(), after[field.name])
            .otherwise(value["before"][field.name])
            .alias(field.name)
            for field in row_type(topic).fields
        ),
        value["op"].isin("d", "t").alias(DELETED),
        value["position"].alias(POSITION),
    ]


def _texts(topic: Topic) -> StructType:
    return StructType([StructField(field.name, StringType()) for field in row_type(topic).fields])


def _envelope_type(topic: Topic) -> StructType:
    texts = _texts(topic)
    source = StructType([StructField(name, StringType()) for name in _SOURCE])
    body = [
        StructField("before", texts),
        StructField("after", texts),
        StructField("op", StringType()),
        StructField("ts_ms", StringType()),
        StructField("source", source),
    ]
    return StructType(
        [
            *body,
            StructField("payload", StructType(body)),
            StructField("schema", Described.TYPE),
            StructField(_CORRUPT, StringType()),
        ]
    )


def _read(topic: Topic, texts: Mapping[str, Column], described: Described) -> dict[str, Column]:
    return {
        field.name: read_value(texts[field.name], field.dataType, described.of(field.name))
        for field in row_type(topic).fields
    }


def _struct(values: Mapping[str, Column], *, over: Mapping[str, Column] | None = None) -> Column:
    return F.struct(*(value.alias(name) for name, value in {**(over or {}), **values}.items()))


def _required(topic: Topic) -> list[str]:
    type_ = StructType.fromJson(spark_schema(topic.value))
    defaults = _defaults(topic)
    return [field.name for field in type_.fields if not field.nullable and field.name not in defaults]


def _missing(topic: Topic, after: Column, wrapped: Column, source: Column) -> Column:
    """The first required column that a row of Debezium's does not have at all.

    A column that went from the source table is missing in all that follows: a query that sets each of these records
    aside would go on with nothing.
    """
    text = F.col("value").cast("string")
    row = F.when(wrapped, F.get_json_object(text, "$.payload.after")).otherwise(
        F.get_json_object(text, "$.after")
    )
    missing = F.lit(None).cast("string")
    for name in reversed(_required(topic)):
        may_be = source["connector"].isNotNull() & after.isNotNull() & after[name].isNull()
        absent = F.when(may_be, ~F.array_contains(F.json_object_keys(row), name)).otherwise(F.lit(False))
        missing = F.when(absent, F.lit(name)).otherwise(missing)
    return missing


def _defaults(topic: Topic) -> dict[str, Column]:
    """What fields that need not be in the source table stand for without it."""
    found: dict[str, Column] = {}
    for field in describe(topic.value).fields:
        default: Any = field.default
        if default is MISSING or default is None or isinstance(default, list | dict):
            continue
        type_ = row_type(topic)[field.name].dataType
        if isinstance(type_, StructType):
            continue
        word = default.value if isinstance(default, Enum) and isinstance(default.value, str) else default
        found[field.name] = F.lit(word.name if isinstance(word, Enum) else word).cast(type_)
    return found


def _position(source: Column) -> Column:
    """Where in the database's log the change is: later changes of a row have a higher one.

    PostgreSQL's is the number of its log's byte, MySQL's that of the file and of the byte in it. Without either it
    is the record's own offset: a row's changes are in one partition.
    """
    file = F.regexp_extract(source["file"], r"(\d+)$", 1).try_cast("bigint")
    binlog = F.shiftleft(file, 36) + source["pos"].try_cast("bigint")
    return F.coalesce(source["lsn"].try_cast("bigint"), binlog, F.col("offset"))


def _begins_anew(op: Column, source: Column) -> Column:
    """The position at which the table began anew, for a truncate and for the bounds of a snapshot."""
    bounds = source["snapshot"].rlike("^(first|last)")
    return F.when(op == "t", _position(source) + 1).when((op == "r") & bounds, _position(source))


def _instant(source: Column, ts_ms: Column) -> Column:
    micros = F.coalesce(
        source["ts_us"].try_cast("bigint"),
        source["ts_ms"].try_cast("bigint") * 1000,
        ts_ms.try_cast("bigint") * 1000,
    )
    return F.timestamp_micros(micros)


def _any_of(values: Iterable[Column]) -> Column:
    return reduce(lambda one, other: one | other, (value.isNotNull() for value in values))
