"""From Debezium's envelopes to columns: before, after, op and when; a plain projection that every gear runs.

A row comes as text by column first, so that each value is read by the rule of its own type, and one that cannot be
read is told from one that is null.
"""

from __future__ import annotations

from dataclasses import MISSING
from enum import Enum
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from gearshift.definitions import DELETED, POSITION, Topic
from gearshift.pipelines.change_values import DESCRIBED, kinds, literal, quoted, read_value
from gearshift.schemas import spark_schema
from gearshift.schemas.shapes import describe
from gearshift.tables import unreadable, unreadable_words

CHANGES = ("before", "after", "op", "source_time", "position")
VALUE = "_value"
WHY = "_why"
MISSING_COLUMN = "GEARSHIFT_MISSING_COLUMN"
BEGINS_ANEW = "GEARSHIFT_BEGINS_ANEW"
_CORRUPT = "_corrupt"
SOURCE = ("connector", "lsn", "ts_ms", "ts_us", "file", "pos", "snapshot")
_HAS_ROW = ("c", "u", "r")
# Where in the database's log the change is: later changes of a row have a higher one. PostgreSQL's is the number of
# its log's byte, MySQL's that of the file and of the byte in it. Without either it is the record's own offset: a
# row's changes are in one partition.
_POSITION = (
    "coalesce(try_cast(_source.lsn AS bigint), "
    "shiftleft(try_cast(regexp_extract(_source.file, '([0-9]+)$', 1) AS bigint), 36) "
    "+ try_cast(_source.pos AS bigint), offset)"
)
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
    names = [quoted(field.name) for field in row_type(topic).fields]
    parts = ("before", "after", "op", "source", "ts_ms")
    frame = raw.withColumns({"_found": found, "_key": key}).selectExpr(
        "*",
        *(
            f"if(_found.payload IS NOT NULL, _found.payload.{part}, _found.{part}) AS _{part}"
            for part in parts
        ),
        f"{kinds('_found.schema')} AS _kinds",
    )
    # PostgreSQL sends the key alone unless told otherwise, and Debezium makes up what may not be null.
    whole = "true" if topic.before else "coalesce(_source.connector, '') <> 'postgresql'"
    by_key = {name: f"coalesce(_key.payload.{name}, _key.{name})" for name in names}
    keys = ", ".join(f"{text} AS {name}" for name, text in by_key.items())
    frame = frame.selectExpr(
        "*",
        f"CASE WHEN {whole} THEN _before WHEN _op = 'd' AND coalesce({', '.join(by_key.values())}) IS NOT NULL "
        f"THEN struct({keys}) END AS _old",
        f"{_POSITION} AS _position",
    )
    frame = frame.selectExpr(
        "*",
        f"if(_old IS NOT NULL, {_read(topic, '_old')}, NULL) AS _was",
        f"if(_after IS NOT NULL, {_read(topic, '_after')}, NULL) AS _is",
        f"{_missing(topic)} AS _missing",
    )
    return frame.selectExpr(
        "*",
        f"if(value IS NOT NULL, {_change(topic)}, NULL) AS {VALUE}",
        f"if(value IS NOT NULL, {_why(topic)}, NULL) AS {WHY}",
    )


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
            StructField("schema", DESCRIBED),
            StructField("names", ArrayType(StringType())),
            StructField(_CORRUPT, StringType()),
        ]
    )


def _change(topic: Topic) -> str:
    defaults = _defaults(topic)
    row = ", ".join(
        f"coalesce(_is.{name}, {defaults[name]}) AS {name}" if name in defaults else f"_is.{name}"
        for name in (quoted(field.name) for field in row_type(topic).fields)
    )
    millis = "coalesce(try_cast(_source.ts_ms AS bigint), try_cast(_ts_ms AS bigint))"
    micros = f"coalesce(try_cast(_source.ts_us AS bigint), try_multiply({millis}, 1000L))"
    # Where the table began anew: at a truncate, and at the bounds of a snapshot.
    begins = (
        "CASE WHEN _op = 't' THEN _position + 1 "
        "WHEN _op = 'r' AND _source.snapshot RLIKE '^(first|last)' THEN _position END"
    )
    return (
        f"struct(_was AS before, if(_is IS NOT NULL, struct({row}), NULL) AS after, _op AS op, "
        f"timestamp_micros({micros}) AS source_time, _position AS position, {begins} AS begins, _missing AS missing)"
    )


def _why(topic: Topic) -> str:
    """The first thing that is wrong with a record; null if nothing is."""
    has_row = f"_op IN {_HAS_ROW}"
    wrong = [
        (
            f"_found IS NULL OR _found.{_CORRUPT} IS NOT NULL",
            "it cannot be read as an envelope of Debezium's",
        ),
        (f"_op IS NULL OR _op NOT IN {_OPERATIONS}", "it is no envelope of Debezium's: there is no op"),
        (f"{has_row} AND _after IS NULL", "after is missing"),
        ("_op = 'd' AND _old IS NULL", "it does not say which row was deleted"),
    ]
    for part, texts, values in (("after", "_after", "_is"), ("before", "_old", "_was")):
        for field in row_type(topic).fields:
            named, name = quoted(field.name), f"{part}.{field.name}"
            unsent = f"{name} was not sent: it is large and did not change; say before=True in app.cdc"
            wrong.append((f"{texts}.{named} IN {_UNCHANGED}", unsent))
            misfit = f"{texts}.{named} IS NOT NULL AND {values}.{named} IS NULL"
            wrong.append((misfit, f"{name} is no {field.dataType.simpleString()}"))
            kind = field.dataType.jsonValue()
            if condition := unreadable(f"{values}.{named}", kind):
                wrong.append((condition, f"{name} {unreadable_words(kind)}"))
    for field in _required(topic):
        wrong.append(
            (f"{has_row} AND _missing IS NULL AND _after.{quoted(field)} IS NULL", f"after.{field} is null")
        )
    return f"CASE {' '.join(f'WHEN {condition} THEN {literal(words)}' for condition, words in wrong)} END"


def _read(topic: Topic, texts: str) -> str:
    values = (
        f"{literal(field.name)}, "
        + read_value(
            f"{texts}.{quoted(field.name)}",
            field.dataType,
            f"try_element_at(_kinds, {literal(field.name)})",
        )
        for field in row_type(topic).fields
    )
    return f"named_struct({', '.join(values)})"


def _required(topic: Topic) -> list[str]:
    type_ = StructType.fromJson(spark_schema(topic.value))
    defaults = _defaults(topic)
    return [field.name for field in type_.fields if not field.nullable and quoted(field.name) not in defaults]


def _missing(topic: Topic) -> str:
    """The first required column that a row of Debezium's does not have at all.

    A column that went from the source table is missing in all that follows: a query that sets each of these records
    aside would go on with nothing.
    """
    text = "cast(value AS string)"
    row = f"coalesce(get_json_object({text}, '$.payload.after'), get_json_object({text}, '$.after'))"
    has = f"coalesce(_found.names, json_object_keys({row}))"
    absent = " ".join(
        f"WHEN _after.{quoted(name)} IS NULL AND NOT array_contains({has}, {literal(name)}) THEN {literal(name)}"
        for name in _required(topic)
    )
    chosen = f"CASE {absent} END" if absent else "cast(NULL AS string)"
    genuine = f"_op IN {_HAS_ROW} AND _after IS NOT NULL AND _source.connector IS NOT NULL"
    return f"if({genuine}, {chosen}, NULL)"


def _defaults(topic: Topic) -> dict[str, str]:
    """What fields that need not be in the source table stand for without it, by quoted name."""
    found: dict[str, str] = {}
    for field in describe(topic.value).fields:
        default: Any = field.default
        type_ = row_type(topic)[field.name].dataType
        if default is MISSING or default is None or isinstance(type_, ArrayType | MapType | StructType):
            continue
        if isinstance(default, Enum):
            default = default.value if isinstance(default.value, str) else default.name
        written = f"X'{default.hex()}'" if isinstance(default, bytes) else literal(str(default))
        found[quoted(field.name)] = f"cast({written} AS {type_.simpleString()})"
    return found
