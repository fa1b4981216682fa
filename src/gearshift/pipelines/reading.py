"""From a topic's bytes to typed rows: one projection that every gear runs, and that sets aside what it cannot decode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as defaulting
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.pipelines import change_avro, changes, leaders
from gearshift.pipelines.changes import VALUE, WHY
from gearshift.pipelines.checkpoint import Offsets
from gearshift.pipelines.live import AGE_PROPERTY, AGE_SLOTS, CORRUPT_PROPERTY
from gearshift.schemas import avro_schema, spark_schema
from gearshift.schemas.wire import head
from gearshift.tables import why_unreadable
from gearshift.topics import for_java

if TYPE_CHECKING:
    from collections.abc import Iterable

CORRUPT = "_corrupt"
AGE = "_age"
TOLD = "_told"
DECODED = "_decoded"
UNKNOWN_SCHEMA = "GEARSHIFT_UNKNOWN_SCHEMA_ID"
_REGISTERED_SOON = 100_000  # ids a registry may give out while a query runs; beyond them an id is noise
_RANGE_PIECE = 5000
_LATENCY_SAMPLE = 16  # one record in so many tells its age; all of them would cost more than they tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The schemas a topic's records were written with, by registry id."""

    writers: Mapping[int, str]
    refused: frozenset[int] = frozenset()
    """Ids that were met and that the registry does not know."""
    asked_until: Mapping[int, int] = defaulting(default_factory=dict[int, int])
    """By partition, where the topic ended when the registry was asked: an unknown id before that is garbage."""
    keys: Mapping[int, str] = defaulting(default_factory=dict[int, str])
    """Of changes in Avro: the schemas of the records' keys."""
    asks: bool = True
    """Whether an id that may be new stops the query; otherwise its record is corrupt."""
    since: int | None = None
    """Of rows as they are now: the position before which a table has forgotten all; None where no table forgets."""


def row_type(topic: Topic) -> StructType:
    """The Spark type of a topic's values."""
    return StructType.fromJson(spark_schema(topic.value))


def _fields(topic: Topic) -> list[dict[str, Any]]:
    return row_type(topic).jsonValue()["fields"]


def kafka_options(connection: Connection) -> dict[str, str]:
    """How Spark's Kafka connector reaches the cluster."""
    return {
        "kafka.bootstrap.servers": connection.bootstrap_servers,
        **{f"kafka.{name}": value for name, value in for_java(connection.kafka).items()},
    }


# What a transaction took back was never there: Spark reads it all the same unless it is told not to.
_COMMITTED = ("kafka.isolation.level", "read_committed")


def read_stream(
    spark: SparkSession,
    connection: Connection,
    topic: Topic,
    *,
    group: str,
    starts: Mapping[int, int] | None = None,
) -> DataFrame:
    """The topic as an endless frame of raw records; the names of its consumer groups begin with `group`.

    A new checkpoint begins at the offsets `starts`, or at the earliest.
    """
    return (
        spark.readStream.format("kafka")
        .options(**kafka_options(connection))
        .option("subscribe", topic.name)
        .option("startingOffsets", json.dumps({topic.name: starts}) if starts else "earliest")
        .option(*_COMMITTED)
        .option("kafka.fetch.max.wait.ms", "20")
        .option("groupIdPrefix", group)
        .options(**leaders.asking())
        .load()
    )


def read_range(
    spark: SparkSession,
    connection: Connection,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
) -> DataFrame:
    """The records of a topic between offsets that are still there, headers too; in pieces that fit in memory."""
    bounds = [{topic: {str(p): bound[p] for p in ends}} for bound in (starts, ends)]
    return (
        spark.read.format("kafka")
        .options(**kafka_options(connection))
        .option("subscribe", topic)
        .option("startingOffsets", json.dumps(bounds[0]))
        .option("endingOffsets", json.dumps(bounds[1]))
        .option("includeHeaders", "true")
        .option("maxRecordsPerPartition", _RANGE_PIECE)
        .option("failOnDataLoss", "false")
        .option(*_COMMITTED)
        .load()
    )


def decode(raw: DataFrame, topic: Topic, versions: Versions) -> DataFrame:
    """Add the decoded value and whether it is corrupt to a topic's raw records."""
    if topic.envelope is not None:
        return _decode_changes(raw, topic, versions)
    decoded = _from_avro(topic, versions) if topic.format == "avro" else _from_json(topic, versions)
    with_value = raw.withColumn(VALUE, decoded)
    # What no other reader of a table could read is not let in: a dead letter says so, a broken table does not.
    with_value = with_value.withColumn(WHY, F.expr(why_unreadable(_fields(topic), f"{VALUE}.")))
    corrupt = F.col(VALUE).isNull() | F.col(WHY).isNotNull()
    if topic.format == "avro":
        required = (field.name for field in row_type(topic).fields if not field.nullable)
        corrupt = corrupt | F.col(VALUE)[next(required, DECODED)].isNull()
    else:
        for field in row_type(topic).fields:
            if not field.nullable:
                corrupt = corrupt | F.col(VALUE)[field.name].isNull()
        corrupt = corrupt | F.col(VALUE)[CORRUPT].isNotNull()
    return with_value.withColumn(CORRUPT, corrupt)


def rows(
    raw: DataFrame, topic: Topic, versions: Versions, *, name: str, group: str, aged: bool = True
) -> DataFrame:
    """The typed rows of a topic; what cannot be decoded is counted under `decode_NAME` and left out.

    The counts come with each batch's progress, so that a healthy stream is read once and only the
    ranges that hold a corrupt record are read again to set it aside. With `aged`, how old the records
    were is counted too, which costs a tenth of a backlog's throughput; what was counted last is told under `group`.
    """
    # Only what is needed: Spark copies every column to where it counts.
    needed = [F.col(VALUE), F.col(CORRUPT), F.col("offset")]
    ages = [_age().alias(AGE), _tell(group).alias(TOLD)] if aged else []
    decoded = decode(raw, topic, versions).select(*needed, *ages)
    counts = [
        F.count("*").alias("read"),
        F.count_if(CORRUPT).alias("corrupt"),
        F.min(F.when(F.col(CORRUPT), F.col("offset"))).alias("first"),
        F.max(F.when(F.col(CORRUPT), F.col("offset"))).alias("last"),
    ]
    if aged:
        counts.append(F.percentile_approx(AGE, [0.5, 0.99], 200).alias("age"))
        counts.append(F.count(TOLD).alias("told"))  # or Spark would leave out what nobody asks for
    good = decoded.observe(f"decode_{name}", *counts).where(~F.col(CORRUPT))
    if topic.envelope is not None:
        value = F.col(VALUE)
        good = good.where(changes.wanted(value, versions.since))
        return good.select(*changes.columns(value, topic))
    return good.select(*(F.col(VALUE)[field.name].alias(field.name) for field in row_type(topic).fields))


def offsets_of(progress_source: Mapping[str, Any], which: str) -> Offsets | None:
    """A source's offsets in a progress report, which has them as text or as an object."""
    from gearshift.pipelines.checkpoint import parse_offsets

    found = progress_source.get(which)
    if not found:
        return None
    return parse_offsets(found if isinstance(found, str) else json.dumps(found))


def _decode_changes(raw: DataFrame, topic: Topic, versions: Versions) -> DataFrame:
    if topic.format == "avro":
        return _decode_avro_changes(raw, topic, versions)
    decoded = changes.decode(raw, topic, changes.parsed(topic), changes.parsed_key(topic))
    return decoded.withColumn(CORRUPT, F.col(WHY).isNotNull())


def _decode_avro_changes(raw: DataFrame, topic: Topic, versions: Versions) -> DataFrame:
    chosen: dict[str, Column | None] = {"value": None, "key": None}
    data: dict[str, Column] = {}
    for column, schemas, made in (
        ("value", versions.writers, change_avro.envelope),
        ("key", versions.keys, change_avro.key),
    ):
        for id_, writer in schemas.items():
            starts, name = _starts_with([id_], column), f"_{column}_{id_}"
            data[name] = F.when(starts, change_avro.datum(F.expr(f"substring({column}, 6)"), writer))
            chosen[column] = _when(chosen[column], starts, made(topic, F.col(name), writer))
    found = _otherwise(chosen["value"], changes.envelope_type(topic), versions)
    key = F.lit(None).cast(changes.key_type(topic))
    if chosen["key"] is not None:
        key = _otherwise(chosen["key"], changes.key_type(topic), versions, "key")
    decoded = changes.decode(raw.withColumns(data) if data else raw, topic, found, key)
    return decoded.withColumn(CORRUPT, F.col(WHY).isNotNull())


def _age() -> Column:
    """Milliseconds from a record's Kafka timestamp until now, of one record in so many."""
    return F.when(F.col("offset") % _LATENCY_SAMPLE == 0, _now() - F.unix_millis("timestamp"))


def _tell(group: str) -> Column:
    """Leave the same, and where a record is corrupt, where the driver finds it while the batch is open, if it is in this JVM."""
    sample = F.floor(F.col("offset") / _LATENCY_SAMPLE)
    age = (_now() - F.unix_millis("timestamp")).cast("string")
    place = F.concat_ws("/", "partition", "offset")
    told = F.when(F.col(CORRUPT), _set_property(F.lit(f"{CORRUPT_PROPERTY}{group}"), place))
    key = F.concat(F.lit(f"{AGE_PROPERTY}{group}."), (sample % AGE_SLOTS).cast("string"))
    return told.when(F.col("offset") % _LATENCY_SAMPLE == 0, _set_property(key, age))


def _set_property(key: Column, value: Column) -> Column:
    now = F.concat(_now().cast("string"), F.lit(":"), value)
    return F.reflect(F.lit("java.lang.System"), F.lit("setProperty"), key, now)


def _now() -> Column:
    """Epoch milliseconds; `now()` stands still for a whole batch, the JVM's clock does not."""
    return F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("long")


def _from_avro(topic: Topic, versions: Versions) -> Column:
    schema = avro_schema(topic.value)
    type_ = row_type(topic)
    if _needs_marker(topic):
        schema = {
            **schema,
            "fields": [*schema["fields"], {"name": DECODED, "type": "boolean", "default": True}],
        }
        type_ = StructType([*type_.fields, StructField(DECODED, BooleanType())])
    payload = F.expr("substring(value, 6)")
    chosen: Column | None = None
    for id_, writer in versions.writers.items():
        options = {"mode": "PERMISSIVE"}
        if json.loads(writer) != schema:
            options["avroSchema"] = json.dumps(schema)
        chosen = _when(chosen, _starts_with([id_]), from_avro(payload, writer, options))
    return _otherwise(chosen, type_, versions)


def _needs_marker(topic: Topic) -> bool:
    """Whether a row of nulls can be a value.

    Spark gives such a row for bytes it cannot decode. Where every field is optional, a field that only
    the reader has, with a default, tells the two apart; it costs a sixth of the throughput.
    """
    return all(field.nullable for field in row_type(topic).fields)


def _from_json(topic: Topic, versions: Versions) -> Column:
    schema = StructType([*row_type(topic).fields, StructField(CORRUPT, StringType())])
    for field in schema.fields:
        field.nullable = True
    text = F.expr("try_validate_utf8(cast(substring(value, 6) AS string))")  # `decode` would stop the query
    decoded = F.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})
    chosen = _when(None, _starts_with(versions.writers), decoded) if versions.writers else None
    return _otherwise(chosen, schema, versions)


def _starts_with(ids: Iterable[int], column: str = "value") -> Column:
    heads = (F.startswith(F.col(column), F.lit(head(id_))) for id_ in ids)
    return reduce(lambda one, other: one | other, heads)


def _when(chosen: Column | None, condition: Column, value: Column) -> Column:
    return F.when(condition, value) if chosen is None else chosen.when(condition, value)


def _otherwise(chosen: Column | None, type_: StructType, versions: Versions, column: str = "value") -> Column:
    """A schema registered while the query runs must not make dead letters: the query stops and starts with it.

    Registries count ids upwards over all subjects, and give the id of another subject to the same schema: so any id
    up to a little above the highest known can be such a one.
    """
    nothing = F.lit(None).cast(type_)
    if not versions.asks:
        return nothing if chosen is None else chosen.otherwise(nothing)
    known = versions.writers if column == "value" else versions.keys
    id_ = F.expr(f"cast(conv(hex(substring({column}, 2, 4)), 16, 10) as bigint)")
    may_be_new = (
        F.expr(f"substring({column}, 1, 1) = X'00'")
        & (F.expr(f"length({column})") > 5)
        & id_.between(1, max(known, default=0) + _REGISTERED_SOON)
    )
    if versions.refused:
        may_be_new = may_be_new & ~id_.isin(*sorted(versions.refused))
    if versions.asked_until:
        ends = (f"{versions.asked_until.get(p, 0)}L" for p in range(max(versions.asked_until) + 1))
        may_be_new = may_be_new & F.expr(
            f"offset >= coalesce(try_element_at(array({', '.join(ends)}), partition + 1), 0L)"
        )
    stop = F.raise_error(F.concat(F.lit(f"{UNKNOWN_SCHEMA}="), id_.cast("string"), F.lit(";")))
    # Cast to the type itself: a branch that gives null anyway is optimised away with all it would have raised.
    return _when(chosen, may_be_new, stop.cast(type_)).otherwise(nothing)
