"""Decodes a topic's records to typed rows, in one projection that runs in every gear; corrupt records are counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as defaulting
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.pipelines.ledger.checkpoint import Offsets
from gearshift.pipelines.live_progress import AGE_PROPERTY, AGE_SLOTS, CORRUPT_PROPERTY
from gearshift.pipelines.records import debezium as changes
from gearshift.pipelines.records import debezium_avro as change_avro
from gearshift.pipelines.records.debezium import VALUE, WHY
from gearshift.schemas import spark_schema
from gearshift.schemas.debezium.avro import Written
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.specification import value_specification, writer_plans
from gearshift.schemas.wire import head
from gearshift.spark import functions
from gearshift.spark.leader_lookup import retry_options
from gearshift.topics import for_java

if TYPE_CHECKING:
    from collections.abc import Iterable

CORRUPT = "_corrupt"
AGE = "_age"
PUBLISHED = "_published"
DECODED = "_decoded"
UNKNOWN_SCHEMA = "GEARSHIFT_UNKNOWN_SCHEMA_ID"
_REGISTERED_SOON = 100_000  # ids a registry may assign while a query runs; higher ones are garbage
_RANGE_PIECE = 5000
_LATENCY_SAMPLE = 16  # the age of one record in 16: measuring all would be too slow


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The schemas a topic's records were written with, by registry id."""

    writers: Mapping[int, str]
    refused: frozenset[int] = frozenset()
    """Ids that occurred and that the registry does not know."""
    asked_until: Mapping[int, int] = defaulting(default_factory=dict[int, int])
    """By partition, the end offset when the registry was asked: an unknown id before that is garbage."""
    foreign: Mapping[int, str] = defaulting(default_factory=dict[int, str])
    """Ids of schemas that cannot be used for this topic, with the reason."""
    keys: Mapping[int, str] = defaulting(default_factory=dict[int, str])
    """For changes in Avro: the schemas of the records' keys."""
    asks: bool = True
    """Whether an id that may be new stops the query; if not, its record is corrupt."""
    since: int | None = None
    """For `as_of` topics: the position before which the table has forgotten all rows; None without such a table."""


def row_type(topic: Topic) -> StructType:
    """The Spark type of a topic's values."""
    return StructType.fromJson(spark_schema(topic.value))


def kafka_options(connection: Connection) -> dict[str, str]:
    """The options with which Spark's Kafka connector reaches the cluster."""
    return {
        "kafka.bootstrap.servers": connection.bootstrap_servers,
        **{f"kafka.{name}": value for name, value in for_java(connection.kafka).items()},
    }


TOPIC_ID = "gearshift.topic.id"
"""A consumer's property with the id of the topic that its checkpoint has read."""

# By default Spark also reads records of aborted transactions.
_COMMITTED = ("kafka.isolation.level", "read_committed")


def read_stream(
    spark: SparkSession,
    connection: Connection,
    topic: Topic,
    *,
    group: str,
    starts: Mapping[int, int] | None = None,
    topic_id: str | None = None,
) -> DataFrame:
    """The topic as a streaming frame of raw records, read by consumer groups with the prefix `group`.

    A new checkpoint begins at the offsets `starts`, or at the earliest. With a `topic_id`, a query in this process
    fails before it takes a record of a topic with another one.
    """
    options = kafka_options(connection) | ({f"kafka.{TOPIC_ID}": topic_id} if topic_id else {})
    return _stream(spark, options, topic, group=group, starts=starts)


def plan_stream(spark: SparkSession, topic: Topic) -> DataFrame:
    """The same frame for planning only, which needs no Kafka: Spark wants an address but does not connect."""
    return _stream(spark, {"kafka.bootstrap.servers": "127.0.0.1:9"}, topic, group="check", starts=None)


def _stream(
    spark: SparkSession,
    options: Mapping[str, str],
    topic: Topic,
    *,
    group: str,
    starts: Mapping[int, int] | None,
) -> DataFrame:
    # A replayed change has its original position in a header.
    headers = topic.envelope is not None
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", topic.name)
        .option("startingOffsets", json.dumps({topic.name: starts}) if starts else "earliest")
        .option(*_COMMITTED)
        .option("includeHeaders", str(headers).lower())
        .option("kafka.fetch.max.wait.ms", "20")
        .option("groupIdPrefix", group)
        .options(**retry_options())
        .load()
    )


def read_range(
    spark: SparkSession,
    connection: Connection,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
) -> DataFrame:
    """The records of a topic in a range of offsets, with headers, in pieces that fit in memory."""
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
    """Add the decoded value, and whether it is corrupt, to a topic's raw records."""
    if topic.envelope is not None:
        return _decode_changes(raw, topic, versions)
    specification = {
        "type": StructType([StructField(VALUE, row_type(topic)), StructField(WHY, StringType())]).jsonValue(),
        "subject": topic.subject,
        "shape": value_specification(topic),
        "writers": {
            **{str(id_): {"refuse": reason} for id_, reason in versions.foreign.items()},
            **writer_plans(topic, versions.writers),
        },
        "asks": versions.asks,
        "refused": sorted(versions.refused),
        "asked_until": [
            versions.asked_until.get(p, 0) for p in range(max(versions.asked_until, default=-1) + 1)
        ],
        "highest": max((*versions.writers, *versions.foreign), default=0) + _REGISTERED_SOON,
    }
    decoded = raw.withColumn(DECODED, functions.decode(raw.sparkSession, specification))
    found = F.col(DECODED)
    return decoded.withColumns({VALUE: found[VALUE], WHY: found[WHY], CORRUPT: found[WHY].isNotNull()}).drop(
        DECODED
    )


def rows(
    raw: DataFrame, topic: Topic, versions: Versions, *, name: str, group: str, aged: bool = True
) -> DataFrame:
    """The typed rows of a topic; corrupt records are counted under `decode_NAME` and left out.

    The counts come with each batch's progress, so that a healthy stream is read once and only ranges with a corrupt
    record are read again. With `aged`, the records' ages are measured too, which costs a tenth of a backlog's
    throughput; the latest ones are published under `group`.
    """
    # Only the needed columns: Spark copies all of them to where it counts.
    needed = [F.col(VALUE), F.col(CORRUPT), F.col("offset")]
    ages = [_age().alias(AGE), _publish(group).alias(PUBLISHED)] if aged else []
    decoded = decode(raw, topic, versions).select(*needed, *ages)
    counts = [
        F.count("*").alias("read"),
        F.count_if(CORRUPT).alias("corrupt"),
        F.min(F.when(F.col(CORRUPT), F.col("offset"))).alias("first"),
        F.max(F.when(F.col(CORRUPT), F.col("offset"))).alias("last"),
    ]
    if aged:
        counts.append(F.percentile_approx(AGE, [0.5, 0.99], 200).alias("age"))
        counts.append(F.count(PUBLISHED).alias("published"))  # or Spark would remove the unused column
    good = decoded.observe(f"decode_{name}", *counts).where(~F.col(CORRUPT))
    if topic.envelope is not None:
        value = F.col(VALUE)
        good = good.where(changes.wanted(value, versions.since))
        return good.select(*changes.columns(value, topic))
    return good.select(*(F.col(VALUE)[field.name].alias(field.name) for field in row_type(topic).fields))


def offsets_of(progress_source: Mapping[str, Any], which: str) -> Offsets | None:
    """A source's offsets in a progress report, which are JSON text or an object."""
    from gearshift.pipelines.ledger.checkpoint import parse_offsets

    found = progress_source.get(which)
    if not found:
        return None
    return parse_offsets(found if isinstance(found, str) else json.dumps(found))


def _decode_changes(raw: DataFrame, topic: Topic, versions: Versions) -> DataFrame:
    if topic.format == "avro":
        return _decode_avro_changes(raw, topic, versions)
    found = functions.texts(raw.sparkSession, changes.envelope_type(topic), "value")
    key = functions.texts(raw.sparkSession, changes.key_type(topic), "key")
    decoded = changes.decode(raw, topic, found, key)
    return decoded.withColumn(CORRUPT, F.col(WHY).isNotNull())


def _decode_avro_changes(raw: DataFrame, topic: Topic, versions: Versions) -> DataFrame:
    chosen: dict[str, Column | None] = {"value": None, "key": None}
    data: dict[str, Column] = {}
    types = {"value": changes.envelope_type(topic), "key": changes.key_type(topic)}
    for column, schemas, made in (
        ("value", versions.writers, change_avro.envelope),
        ("key", versions.keys, change_avro.key),
    ):
        for id_, writer in schemas.items():
            starts, name = _starts_with([id_], column), f"_{column}_{id_}"
            payload = F.expr(f"substring({column}, 6)")
            written = _usable(writer)
            if written is None:
                nothing = F.lit(None).cast(types[column])
                chosen[column] = _when(chosen[column], starts, nothing)
                continue
            whole = functions.whole(raw.sparkSession, written.plan, payload)
            data[name] = F.when(starts & whole, change_avro.datum(payload, writer))
            chosen[column] = _when(chosen[column], starts, made(topic, F.col(name), writer))
    found = _otherwise(chosen["value"], changes.envelope_type(topic), versions)
    key = F.lit(None).cast(changes.key_type(topic))
    if chosen["key"] is not None:
        key = _otherwise(chosen["key"], changes.key_type(topic), versions, "key")
    decoded = changes.decode(raw.withColumns(data) if data else raw, topic, found, key)
    return decoded.withColumn(CORRUPT, F.col(WHY).isNotNull())


def _usable(writer: str) -> Written | None:
    """A writer's schema of changes; None if its records cannot be read."""
    try:
        return Written.read(writer)
    except Misfit:
        return None


def _age() -> Column:
    """The age of sampled records: milliseconds since the Kafka timestamp."""
    return F.when(F.col("offset") % _LATENCY_SAMPLE == 0, _now() - F.unix_millis("timestamp"))


def _publish(group: str) -> Column:
    """Put sampled ages and corrupt records into system properties, where the driver finds them if it is in the same JVM."""
    sample = F.floor(F.col("offset") / _LATENCY_SAMPLE)
    age = (_now() - F.unix_millis("timestamp")).cast("string")
    record = F.concat_ws("/", "partition", "offset")
    published = F.when(F.col(CORRUPT), _set_property(F.lit(f"{CORRUPT_PROPERTY}{group}"), record))
    key = F.concat(F.lit(f"{AGE_PROPERTY}{group}."), (sample % AGE_SLOTS).cast("string"))
    return published.when(F.col("offset") % _LATENCY_SAMPLE == 0, _set_property(key, age))


def _set_property(key: Column, value: Column) -> Column:
    now = F.concat(_now().cast("string"), F.lit(":"), value)
    return F.reflect(F.lit("java.lang.System"), F.lit("setProperty"), key, now)


def _now() -> Column:
    """Epoch milliseconds of the JVM's clock; `now()` is constant within a batch."""
    return F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("long")


def _starts_with(ids: Iterable[int], column: str = "value") -> Column:
    heads = (F.startswith(F.col(column), F.lit(head(id_))) for id_ in ids)
    return reduce(lambda one, other: one | other, heads)


def _when(chosen: Column | None, condition: Column, value: Column) -> Column:
    return F.when(condition, value) if chosen is None else chosen.when(condition, value)


def _otherwise(chosen: Column | None, type_: StructType, versions: Versions, column: str = "value") -> Column:
    """Stop the query at an id that may be new: a schema registered while it runs must not make dead letters.

    Registries assign increasing ids over all subjects and reuse the id of an identical schema, so any id up to a little
    above the highest known one may be new.
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
    # Cast to the type: Spark removes a branch whose result is always null, together with its error.
    return _when(chosen, may_be_new, stop.cast(type_)).otherwise(nothing)
