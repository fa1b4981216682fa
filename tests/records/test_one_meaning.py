"""A record means one thing: Python's decoder in deliveries and Java's in Spark agree, and both are right."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from gearshift.definitions import Format, Location, Topic
from gearshift.pipelines.records import reading
from gearshift.pipelines.records.debezium import VALUE, WHY
from gearshift.schemas import codec, pack
from gearshift.schemas.encoding import Misfit
from tests.meanings import REFUSED, Maker, awkward, comparable, damaged, means

HERE = Location(__file__, 1)
TYPES = int(os.environ.get("GEARSHIFT_TEST_TYPES", "22"))
WRITERS = 3
RECORDS = 400  # of each writer
DAMAGED = 3  # of each record
RAW = pa.schema([("value", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64())])


Case = tuple[int, bytes, Any]
"""The id of the writer's schema, the payload, and what it means; ... where nobody knows."""


def in_spark(
    spark: SparkSession, topic: Topic, writers: dict[int, str], cases: list[Case]
) -> list[tuple[Any, str | None]]:
    raw = pa.table(
        [
            [pack(id_, payload) for id_, payload, _ in cases],
            [0] * len(cases),
            list(range(len(cases))),
        ],
        schema=RAW,
    )
    frame = spark.createDataFrame(raw)  # pyright: ignore[reportArgumentType]
    decoded = reading.decode(frame, topic, reading.Versions(writers=writers))
    # Arrow takes no null where a part of it could not be one.
    lax = StructType.fromJson(json.loads(reading.row_type(topic).json().replace("false", "true")))
    columns = ("offset", F.col(VALUE).cast(lax).alias(VALUE), WHY)
    found = decoded.select(*columns).toArrow().sort_by("offset").to_pylist()
    return [(row[VALUE], row[WHY]) for row in found]


def in_python(topic: Topic, writers: dict[int, str], cases: list[Case]) -> list[tuple[Any, str | None]]:
    readers: dict[int, Any] = {}
    found: list[tuple[Any, str | None]] = []
    for id_, schema in writers.items():
        try:
            readers[id_] = codec(topic.value, topic.format).reader_of(schema)
        except Misfit as misfit:
            readers[id_] = misfit
    for id_, payload, _ in cases:
        try:
            if isinstance(readers[id_], Misfit):
                raise readers[id_]
            found.append((readers[id_](payload), None))
        except Misfit as misfit:
            found.append((None, str(misfit)))
    return found


def agree(spark: SparkSession, topic: Topic, writers: dict[int, str], cases: list[Case]) -> int:
    """Compare both decoders and what was meant; how many records were read."""
    wrong: list[str] = []
    count = 0
    for case, (ours, why), (theirs, theirs_why) in zip(
        cases, in_python(topic, writers, cases), in_spark(spark, topic, writers, cases), strict=True
    ):
        id_, payload, meant = case
        same = (why is None) == (theirs_why is None) and comparable(ours) == comparable(theirs)
        right = meant is ... or (meant == REFUSED) == (why is not None)
        if right and meant is not ... and why is None:
            right = means(ours, meant)
        if not same or not right:
            wrong.append(
                f"{payload!r} of {writers[id_]}: Python {ours!r} ({why}), Spark {theirs!r} ({theirs_why}), meant {meant!r}"
            )
        count += why is None
    assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[0]}"
    return count


def of(value_type: type[Any], format: Format) -> Topic:  # noqa: A002 - the word users know
    return Topic(name="drawn", value=value_type, key=None, partitions=1, format=format, defined_at=HERE)


@pytest.mark.parametrize("seed", range(TYPES))
def test_avro_of_any_writer_means_the_same_everywhere(spark: SparkSession, seed: int) -> None:
    maker, chance = Maker(seed), random.Random(seed)
    made = {id_: maker.writer(maker.fields) for id_ in range(1, WRITERS + 1)}
    writers = {id_: json.dumps(schema) for id_, (schema, _) in made.items()}
    writers[9] = codec(maker.value_type, "avro").schema_text
    readable = set[int]()
    for id_, schema in writers.items():
        try:
            codec(maker.value_type, "avro").reader_of(schema)
            readable.add(id_)
        except Misfit as misfit:
            assert "take no bytes" in str(misfit), f"{misfit}: {schema}"
    cases: list[Case] = []
    for _ in range(RECORDS):
        for id_, (_, make) in made.items():
            payload, meant = make(chance)
            cases.append((id_, payload, meant if id_ in readable else REFUSED))
            cases.extend((chance.choice([id_, 9]), damaged(chance, payload), ...) for _ in range(DAMAGED))
    assert agree(spark, of(maker.value_type, "avro"), writers, cases) or not readable - {9}


@pytest.mark.parametrize("seed", range(TYPES))
def test_json_means_the_same_everywhere(spark: SparkSession, seed: int) -> None:
    maker, chance = Maker(seed), random.Random(seed)
    cases: list[Case] = []
    for _ in range(RECORDS * WRITERS):
        datum, meant = maker.json(maker.fields, chance)
        cases.append((1, json.dumps(datum, ensure_ascii=chance.random() < 0.5).encode(), meant))
        cases.extend((1, awkward(chance, datum), ...) for _ in range(DAMAGED))
    schema = codec(maker.value_type, "json").schema_text
    assert agree(spark, of(maker.value_type, "json"), {1: schema}, cases) > RECORDS
