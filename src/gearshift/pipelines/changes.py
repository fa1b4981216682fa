"""From Debezium's envelopes to columns: before, after, op and when; a plain projection that every gear runs.

A row comes as text by column first, so that each value is read by the rule of its own type, and one that cannot be
read is told from one that is null.
"""

from __future__ import annotations

from dataclasses import MISSING
from enum import Enum
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from gearshift.definitions import DELETED, POSITION, Topic
from gearshift.pipelines.change_values import Described, read_value
from gearshift.schemas import spark_schema
from gearshift.schemas.shapes import describe

CHANGES = ("before", "after", "op", "source_time", "position")
VALUE = "_value"
WHY = "_why"
MISSING_COLUMN = "GEARSHIFT_MISSING_COLUMN"
BEGINS_ANEW = "GEARSHIFT_BEGINS_ANEW"
_CORRUPT = "_corrupt"
SOURCE = ("connector", "lsn", "ts_ms", "ts_us", "file", "pos", "snapshot")
_HAS_ROW = ("c", "u", "r")
_OPERATIONS = (*_HAS_ROW, "d", "t")
_UNCHANGED = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")


def row_type(topic: Topic) -> StructType:
    """The Spark type of the rows of a change topic; nothing in it is sure to be there."""
    type_ = StructType.fromJson(spark_schema(topic.value))
    return StructType([StructField(field.name, field.dataType) for field in type_.fields])


def decode(raw: DataFrame, topic: Topic, found: Column, key: Column) -> DataFrame:
    """Add the change that each record is, and why it is none; both are null for a tombstone.

    `found` and `key` are the envelope and the key as text by column. Each step is a projection of its own: what is
    used more than once is then computed once.
    """
    fields = row_type(topic).fields
    has_schema = F.col("_found")["payload"].isNotNull()

    def part(name: str) -> Column:
        return F.when(has_schema, F.col("_found")["payload"][name]).otherwise(F.col("_found")[name])

    op, source = F.col("_op"), F.col("_source")
    described = Described(F.col("_described"))
    frame = raw.withColumns({"_found": found, "_key": key})
    frame = frame.withColumns(
        {
            **{f"_{name}": part(name) for name in ("before", "after", "op", "source", "ts_ms")},
            "_described": F.get(
                F.filter(F.col("_found")["schema"]["fields"], lambda one: one["field"] == "after"), 0
            ),
        }
    )
    # PostgreSQL sends the key alone unless told otherwise, and Debezium makes up what may not be null.
    whole = F.lit(topic.before) | (F.coalesce(source["connector"], F.lit("")) != "postgresql")
    by_key = [F.coalesce(F.col("_key")["payload"][field.name], F.col("_key")[field.name]) for field in fields]
    known = reduce(lambda one, other: one | other, (text.isNotNull() for text in by_key))
    frame = frame.withColumns(
        {
            "_old": F.when(whole, F.col("_before")).otherwise(
                F.when(
                    (op == "d") & known,
                    F.struct(*(text.alias(field.name) for text, field in zip(by_key, fields, strict=True))),
                )
            ),
            "_position": _position(source),
        }
    )
    frame = frame.withColumns(
        {
            "_was": F.when(F.col("_old").isNotNull(), _read(topic, F.col("_old"), described)),
            "_is": F.when(F.col("_after").isNotNull(), _read(topic, F.col("_after"), described)),
            "_missing": F.when(op.isin(*_HAS_ROW) & source["connector"].isNotNull(), _missing(topic)),
        }
    )
    there = F.col("value").isNotNull()
    return frame.withColumns({VALUE: F.when(there, _change(topic)), WHY: F.when(there, _why(topic))})


def parsed(topic: Topic) -> Column:
    """The JSON of a record's value as text by column: the envelope, or the envelope inside Connect's schema."""
    return F.from_json(
        F.col("value").cast("string"),
        envelope_type(topic),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )


def parsed_key(topic: Topic) -> Column:
    """The JSON of a record's key as text by column."""
    return F.from_json(F.col("key").cast("string"), key_type(topic), {"mode": "PERMISSIVE"})


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


def texts_type(topic: Topic) -> StructType:
    """A row as text by column."""
    return StructType([StructField(field.name, StringType()) for field in row_type(topic).fields])


def key_type(topic: Topic) -> StructType:
    """A key as text by column, itself or inside Connect's schema."""
    row = texts_type(topic)
    return StructType([*row.fields, StructField("payload", row)])


def envelope_type(topic: Topic) -> StructType:
    """An envelope as text by column, itself or inside Connect's schema."""
    row = texts_type(topic)
    body = [
        StructField("before", row),
        StructField("after", row),
        StructField("op", StringType()),
        StructField("ts_ms", StringType()),
        StructField("source", StructType([StructField(name, StringType()) for name in SOURCE])),
    ]
    return StructType(
        [
            *body,
            StructField("payload", StructType(body)),
            StructField("schema", Described.TYPE),
            StructField("names", ArrayType(StringType())),
            StructField(_CORRUPT, StringType()),
        ]
    )


def _change(topic: Topic) -> Column:
    op, after, defaults = F.col("_op"), F.col("_is"), _defaults(topic)
    row = F.struct(
        *(
            (F.coalesce(after[name], defaults[name]) if name in defaults else after[name]).alias(name)
            for name in (field.name for field in row_type(topic).fields)
        )
    )
    micros = F.coalesce(
        F.col("_source")["ts_us"].try_cast("bigint"),
        F.col("_source")["ts_ms"].try_cast("bigint") * 1000,
        F.col("_ts_ms").try_cast("bigint") * 1000,
    )
    bounds = F.col("_source")["snapshot"].rlike("^(first|last)")
    return F.struct(
        F.col("_was").alias("before"),
        F.when(after.isNotNull(), row).alias("after"),
        op.alias("op"),
        F.timestamp_micros(micros).alias("source_time"),
        F.col("_position").alias("position"),
        # Where the table began anew: at a truncate, and at the bounds of a snapshot.
        F.when(op == "t", F.col("_position") + 1)
        .when((op == "r") & bounds, F.col("_position"))
        .alias("begins"),
        F.col("_missing").alias("missing"),
    )


def _why(topic: Topic) -> Column:
    """The first thing that is wrong with a record; null if nothing is."""
    op, after, old = F.col("_op"), F.col("_after"), F.col("_old")
    has_row = op.isin(*_HAS_ROW)
    why = (
        F.when(
            F.col("_found").isNull() | F.col("_found")[_CORRUPT].isNotNull(),
            F.lit("it cannot be read as an envelope of Debezium's"),
        )
        .when(op.isNull() | ~op.isin(*_OPERATIONS), F.lit("it is no envelope of Debezium's: there is no op"))
        .when(has_row & after.isNull(), F.lit("after is missing"))
        .when((op == "d") & old.isNull(), F.lit("it does not say which row was deleted"))
    )
    for part, texts, values in (("after", after, F.col("_is")), ("before", old, F.col("_was"))):
        for field in row_type(topic).fields:
            name, text = f"{part}.{field.name}", texts[field.name]
            unsent = f"{name} was not sent: it is large and did not change; say before=True in app.cdc"
            why = why.when(text.isin(*_UNCHANGED), F.lit(unsent))
            misfit = f"{name} is no {field.dataType.simpleString()}"
            why = why.when(text.isNotNull() & values[field.name].isNull(), F.lit(misfit))
    for name in _required(topic):
        lacks = has_row & F.col("_missing").isNull() & after[name].isNull()
        why = why.when(lacks, F.lit(f"after.{name} is null"))
    return why


def _read(topic: Topic, texts: Column, described: Described) -> Column:
    return F.struct(
        *(
            read_value(texts[field.name], field.dataType, described.of(field.name)).alias(field.name)
            for field in row_type(topic).fields
        )
    )


def _required(topic: Topic) -> list[str]:
    type_ = StructType.fromJson(spark_schema(topic.value))
    defaults = _defaults(topic)
    return [field.name for field in type_.fields if not field.nullable and field.name not in defaults]


def _missing(topic: Topic) -> Column:
    """The first required column that a row of Debezium's does not have at all.

    A column that went from the source table is missing in all that follows: a query that sets each of these records
    aside would go on with nothing.
    """
    after, text = F.col("_after"), F.col("value").cast("string")
    row = F.coalesce(F.get_json_object(text, "$.payload.after"), F.get_json_object(text, "$.after"))
    names = F.coalesce(F.col("_found")["names"], F.json_object_keys(row))
    missing = F.lit(None).cast("string")
    for name in reversed(_required(topic)):
        may_be = after.isNotNull() & after[name].isNull()
        absent = F.when(may_be, ~F.array_contains(names, name)).otherwise(F.lit(False))
        missing = F.when(absent, F.lit(name)).otherwise(missing)
    return missing


def _defaults(topic: Topic) -> dict[str, Column]:
    """What fields that need not be in the source table stand for without it."""
    found: dict[str, Column] = {}
    for field in describe(topic.value).fields:
        default: Any = field.default
        type_ = row_type(topic)[field.name].dataType
        if default is MISSING or default is None or isinstance(type_, ArrayType | MapType | StructType):
            continue
        if isinstance(default, Enum):
            default = default.value if isinstance(default.value, str) else default.name
        found[field.name] = F.lit(default).cast(type_)
    return found


def _position(source: Column) -> Column:
    """Where in the database's log the change is: later changes of a row have a higher one.

    PostgreSQL's is the number of its log's byte, MySQL's that of the file and of the byte in it. Without either it
    is the record's own offset: a row's changes are in one partition.
    """
    file = F.regexp_extract(source["file"], r"(\d+)$", 1).try_cast("bigint")
    binlog = F.shiftleft(file, 36) + source["pos"].try_cast("bigint")
    return F.coalesce(source["lsn"].try_cast("bigint"), binlog, F.col("offset"))
