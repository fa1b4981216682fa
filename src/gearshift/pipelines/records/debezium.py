"""Decodes Debezium's envelopes to columns: before, after, op and time; a plain projection that runs in every gear.

A row is first read as one text per column, so that each value is parsed by the rule of its type and an unreadable value
differs from a null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING
from enum import Enum
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from gearshift.definitions import DELETED, POSITION, Topic
from gearshift.pipelines.records.debezium_values import DESCRIBED, instant, kinds, literal, quoted, read_value
from gearshift.schemas import spark_schema
from gearshift.schemas.debezium.events import EPOCH_FIELD, UNCHANGED_FORMS
from gearshift.schemas.shapes import EnumOf, OptionalOf, describe
from gearshift.tables import unreadable, unreadable_words
from gearshift.topics import REPLAY_OF

CHANGES = ("before", "after", "op", "source_time", "position")
VALUE = "_value"
WHY = "_why"
MISSING_COLUMN = "GEARSHIFT_MISSING_COLUMN"
BEGINS_AGAIN = "GEARSHIFT_BEGINS_AGAIN"
_CORRUPT = "_corrupt"
SOURCE = ("connector", "lsn", "ts_ms", "ts_us", "snapshot")
_HAS_ROW = ("c", "u", "r")
_WHEN = "coalesce(_source.ts_us, _source.ts_ms, _ts_ms)"
_SOURCE_TIME = instant(
    "if(_source.ts_us IS NOT NULL, try_cast(_source.ts_us AS bigint), "
    f"try_multiply(try_cast({_WHEN} AS bigint), 1000L))"
)
_OPERATIONS = (*_HAS_ROW, "d", "t")
_UNCHANGED = ", ".join(
    literal(form if isinstance(form, str) else json.dumps(form, separators=(",", ":")))
    for form in UNCHANGED_FORMS
    if not isinstance(form, bytes)
)


def row_type(topic: Topic) -> StructType:
    """The Spark type of the rows of a change topic; every field is nullable."""
    type_ = StructType.fromJson(spark_schema(topic.value))
    return StructType([StructField(field.name, field.dataType) for field in type_.fields])


def decode(raw: DataFrame, topic: Topic, found: Column, key: Column) -> DataFrame:
    """Add each record's change, or why it cannot be decoded; both are null for a tombstone.

    `found` and `key` are the envelope and the key as one text per column. Each step is a separate projection, so that
    expressions that are used repeatedly are computed once.
    """
    names = [quoted(field.name) for field in row_type(topic).fields]
    parts = ("before", "after", "op", "source", "ts_ms", EPOCH_FIELD)
    frame = raw.withColumns({"_found": found, "_key": key}).selectExpr(
        "*",
        *(
            f"if(_found.payload IS NOT NULL, _found.payload.{part}, _found.{part}) "
            f"AS _{'epoch' if part == EPOCH_FIELD else part}"
            for part in parts
        ),
        f"{kinds('_found.schema')} AS _kinds",
    )
    # By default PostgreSQL sends only the key, and Debezium fills in columns that may not be null.
    whole = "true" if topic.before else "coalesce(_source.connector, '') <> 'postgresql'"
    by_key = {name: f"coalesce(_key.payload.{name}, _key.{name})" for name in names}
    keys = ", ".join(f"{text} AS {name}" for name, text in by_key.items())
    frame = frame.selectExpr(
        "*",
        f"CASE WHEN {whole} THEN _before WHEN _op = 'd' AND coalesce({', '.join(by_key.values())}) IS NOT NULL "
        f"THEN struct({keys}) END AS _old",
        f"{_position(topic, raw.columns)} AS _position",
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


def wanted(value: Column, since: int | None) -> Column:
    """Which of the decoded changes are kept; a query that cannot continue stops here, before columns are pruned.

    With `since`, changes before that position are dropped, and a later beginning (a truncate or a new snapshot) stops
    the query so that the table can delete its rows.
    """
    missing = F.raise_error(F.concat(F.lit(f"{MISSING_COLUMN}="), value["missing"], F.lit(";")))
    keep = F.when(value.isNull(), F.lit(False)).when(value["missing"].isNotNull(), missing.cast("boolean"))
    if since is None:
        return keep.otherwise(F.lit(True))
    begins = value["begins"]
    stop = F.raise_error(F.concat(F.lit(f"{BEGINS_AGAIN}="), begins.cast("string"), F.lit(";")))
    keep = keep.when(begins > F.lit(since), stop.cast("boolean"))
    return keep.otherwise(value["position"] >= F.lit(since))


def columns(value: Column, topic: Topic) -> list[Column]:
    """The columns of a transform's input: the change, or the current row with `_deleted` and `_position`."""
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
    """A row as one text per column."""
    return StructType([StructField(field.name, StringType()) for field in row_type(topic).fields])


def key_type(topic: Topic) -> StructType:
    """A key as one text per column, with or without Connect's schema around it."""
    row = texts_type(topic)
    return StructType([*row.fields, StructField("payload", row)])


def envelope_type(topic: Topic) -> StructType:
    """An envelope as one text per column, with or without Connect's schema around it."""
    row = texts_type(topic)
    body = [
        StructField("before", row),
        StructField("after", row),
        StructField("op", StringType()),
        StructField("ts_ms", StringType()),
        StructField(EPOCH_FIELD, StringType()),
        StructField("source", StructType([StructField(name, StringType()) for name in SOURCE])),
    ]
    return StructType(
        [
            *body,
            StructField("payload", StructType(body)),
            StructField("schema", DESCRIBED),
            # jvm/Texts.java reports on the record itself: the columns in `after`, and why it is not an envelope.
            StructField("names", ArrayType(StringType())),
            StructField(_CORRUPT, StringType()),
        ]
    )


def _position(topic: Topic, columns: list[str]) -> str:
    """The position of a change, as defined in `schemas.debezium`: later changes of a row have higher positions."""
    offset = "offset"
    if "headers" in columns:
        replayed = f"get(filter(headers, one -> one.key = '{REPLAY_OF}'), 0).value"
        place = f"regexp_extract(cast({replayed} AS string), '/([0-9]+)$', 1)"
        offset = f"coalesce(try_cast({place} AS bigint), offset)"
    epoch = f"try_cast(_epoch AS bigint) + {offset}, " if topic.partitions == 1 else ""
    return f"coalesce({epoch}try_cast(_source.lsn AS bigint), {offset})"


def _change(topic: Topic) -> str:
    defaults = _defaults(topic)
    row = ", ".join(
        f"if({_present(name)}, _is.{quoted(name)}, {defaults[name]}) AS {quoted(name)}"
        if name in defaults
        else f"_is.{quoted(name)}"
        for name in (field.name for field in row_type(topic).fields)
    )
    # Where the table began again: at a truncate, and at the beginning of a snapshot. All rows of a snapshot have one
    # place in PostgreSQL's log, so that both bounds are its beginning, and a snapshot of one row has only the last.
    bounds = "if(_position = try_cast(_source.lsn AS bigint), '^(first|last)', '^first')"
    begins = (
        "CASE WHEN _op = 't' THEN _position + 1 "
        f"WHEN _op = 'r' AND _source.snapshot RLIKE {bounds} THEN _position END"
    )
    return (
        f"struct(_was AS before, if(_is IS NOT NULL, struct({row}), NULL) AS after, _op AS op, "
        f"{_SOURCE_TIME} AS source_time, _position AS position, {begins} AS begins, _missing AS missing)"
    )


def _why(topic: Topic) -> str:
    """Why a record cannot be decoded; null if it can."""
    has_row = f"_op IN {_HAS_ROW}"
    wrong = [
        (
            f"_found IS NULL OR _found.{_CORRUPT} IS NOT NULL",
            "it is not a readable Debezium envelope",
        ),
        (f"_op IS NULL OR _op NOT IN {_OPERATIONS}", "it is not a Debezium envelope: it has no op"),
        (f"{has_row} AND _after IS NULL", "after is missing"),
        ("_op = 'd' AND _old IS NULL", "it does not say which row was deleted"),
        (f"{_WHEN} IS NOT NULL AND {_SOURCE_TIME} IS NULL", "its time is outside the years 1 to 9999"),
        ("NOT _source.lsn RLIKE '^[0-9]{1,19}$'", "source.lsn is not a valid log position"),
        ("NOT _epoch RLIKE '^[0-9]{1,18}$'", f"{EPOCH_FIELD} is not a valid epoch"),
    ]
    for part, texts, values in (("after", "_after", "_is"), ("before", "_old", "_was")):
        for field in row_type(topic).fields:
            named, name = quoted(field.name), f"{part}.{field.name}"
            unsent = f"{name} was not sent: it is large and did not change; set before=True in app.cdc"
            wrong.append((f"{texts}.{named} IN ({_UNCHANGED})", unsent))
            misfit = f"{texts}.{named} IS NOT NULL AND {values}.{named} IS NULL"
            wrong.append((misfit, f"{name} is not a valid {field.dataType.simpleString()}"))
            kind = field.dataType.jsonValue()
            if condition := unreadable(f"{values}.{named}", kind):
                wrong.append((condition, f"{name} {unreadable_words(kind)}"))
    defaults = _defaults(topic)
    for field in StructType.fromJson(spark_schema(topic.value)).fields:
        if not field.nullable:
            null = f"{has_row} AND _missing IS NULL AND _after.{quoted(field.name)} IS NULL"
            null = f"{null} AND {_present(field.name)}" if field.name in defaults else null
            wrong.append((null, f"after.{field.name} is null"))
    return f"CASE {' '.join(f'WHEN {condition} THEN {literal(words)}' for condition, words in wrong)} END"


def _read(topic: Topic, texts: str) -> str:
    words = _words(topic)
    values = (
        f"{literal(field.name)}, "
        + read_value(
            f"{texts}.{quoted(field.name)}",
            field.dataType,
            f"try_element_at(_kinds, {literal(field.name)})",
            words=words.get(field.name, ()),
            unsigned="_epoch IS NOT NULL",
        )
        for field in row_type(topic).fields
    )
    return f"named_struct({', '.join(values)})"


def _words(topic: Topic) -> dict[str, Sequence[str]]:
    """The members of Enum fields."""
    found: dict[str, Sequence[str]] = {}
    for field in describe(topic.value).fields:
        shape = field.shape.item if isinstance(field.shape, OptionalOf) else field.shape
        if isinstance(shape, EnumOf):
            found[field.name] = list(shape.members)
    return found


def _required(topic: Topic) -> list[str]:
    type_ = StructType.fromJson(spark_schema(topic.value))
    defaults = _defaults(topic)
    return [field.name for field in type_.fields if not field.nullable and field.name not in defaults]


def _present(name: str) -> str:
    """Whether a row has the column, which may be null: a default is only for a column that the source table lacks."""
    return f"array_contains(_found.names, {literal(name)})"


def _missing(topic: Topic) -> str:
    """The first required column that is missing in a Debezium row.

    A column that was dropped from the source table is missing in every later record: setting all of them aside would
    leave nothing.
    """
    absent = " ".join(
        f"WHEN _after.{quoted(name)} IS NULL AND NOT {_present(name)} THEN {literal(name)}"
        for name in _required(topic)
    )
    chosen = f"CASE {absent} END" if absent else "cast(NULL AS string)"
    genuine = f"_op IN {_HAS_ROW} AND _after IS NOT NULL AND _source.connector IS NOT NULL"
    return f"if({genuine}, {chosen}, NULL)"


def _defaults(topic: Topic) -> dict[str, str]:
    """The defaults of fields that the source table may lack."""
    found: dict[str, str] = {}
    for field in describe(topic.value).fields:
        default: Any = field.default
        type_ = row_type(topic)[field.name].dataType
        if default is MISSING or default is None or isinstance(type_, ArrayType | MapType | StructType):
            continue
        if isinstance(default, Enum):
            default = default.value if isinstance(default.value, str) else default.name
        written = f"X'{default.hex()}'" if isinstance(default, bytes) else literal(str(default))
        found[field.name] = f"cast({written} AS {type_.simpleString()})"
    return found
