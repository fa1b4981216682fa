"""Sets aside the records a batch could not decode, from the ranges that are known to hold some."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import DecodeError
from gearshift.pipelines import reading
from gearshift.pipelines.changes import WHY
from gearshift.pipelines.checkpoint import Offsets
from gearshift.pipelines.engine import Engine, Versions
from gearshift.pipelines.listener import Corrupt
from gearshift.schemas.wire import unpack
from gearshift.topics import DeadLetter, DeadLetters, read
from gearshift.topics.dead_letters import CONNECT

log = logging.getLogger(__name__)


def set_aside(
    engine: Engine,
    pipeline: Pipeline,
    versions: Versions,
    *,
    starts: Offsets,
    ends: Offsets,
    corrupt: Mapping[str, Corrupt] | None,
    letters: DeadLetters,
    written_since_ms: int | None = None,
) -> int:
    """Write the corrupt records between the offsets to their topics' dead letters; how many there were.

    `corrupt` narrows the ranges to what a batch observed; None looks through all of them. After a
    crash, `written_since_ms` names the time from which dead letters may have been written already.
    """
    total = 0
    for name, topic in pipeline.topics.items():
        if corrupt is not None and name not in corrupt:
            continue
        narrowed = _narrow(
            starts.get(topic.name, {}),
            ends.get(topic.name, {}),
            corrupt[name] if corrupt is not None else None,
        )
        if not narrowed:
            continue
        seen: set[tuple[int, int]] = set()
        if written_since_ms is not None:
            seen = _written_already(engine, pipeline, topic, written_since_ms)
        found = _corrupt_records(engine, pipeline, topic, versions[topic.name], narrowed)
        fresh = [letter for letter in found if (letter.partition, letter.offset) not in seen]
        letters.write(fresh)
        total += len(found)
        if fresh:
            log.warning(
                "%s: %d records of %s set aside in %s",
                pipeline.name,
                len(fresh),
                topic.name,
                topic.dead_letters,
            )
    return total


def _written_already(engine: Engine, pipeline: Pipeline, topic: Topic, since_ms: int) -> set[tuple[int, int]]:
    """Where the records were that this pipeline has set aside since an instant."""
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    starts = {
        place[1]: offset for place, offset in engine.admin.offsets_at([topic.dead_letters], since).items()
    }
    ours = engine.query_name(pipeline).encode()
    return {
        (int(record.header(f"{CONNECT}partition") or b"-1"), int(record.header(f"{CONNECT}offset") or b"-1"))
        for record in read(engine.connection, topic.dead_letters, start=starts)
        if record.header(f"{CONNECT}connector.name") == ours
    }


def _narrow(
    starts: Mapping[int, int], ends: Mapping[int, int], corrupt: Corrupt | None
) -> dict[int, tuple[int, int]]:
    ranges: dict[int, tuple[int, int]] = {}
    for partition, end in ends.items():
        first = starts.get(partition, 0)
        if corrupt is not None:
            first, end = max(first, corrupt.first), min(end, corrupt.last + 1)
        if first < end:
            ranges[partition] = (first, end)
    return ranges


def _corrupt_records(
    engine: Engine,
    pipeline: Pipeline,
    topic: Topic,
    versions: reading.Versions,
    ranges: Mapping[int, tuple[int, int]],
) -> list[DeadLetter]:
    """The same decoding that the query does, so that both call the same records corrupt."""
    described = engine.admin.require([topic.name])[topic.name].partitions
    # Spark wants every partition named; the others get an empty range.
    starts = {partition: ranges.get(partition, (0, 0))[0] for partition in range(described)}
    ends = {partition: ranges.get(partition, (0, 0))[1] for partition in range(described)}
    raw = reading.read_range(engine.spark, engine.connection, topic.name, starts, ends)
    bad = reading.decode(raw, topic, versions).where(F.col(reading.CORRUPT))
    columns = ["key", "value", "headers", "partition", "offset", "timestamp"]
    if topic.envelope is not None:
        columns.append(WHY)
    found = bad.select(*columns).orderBy("partition", "offset").collect()
    return [_letter(engine, pipeline, row, topic, versions) for row in found]


def _letter(
    engine: Engine, pipeline: Pipeline, row: Any, topic: Topic, versions: reading.Versions
) -> DeadLetter:
    value = bytes(row.value) if row.value is not None else None
    schema_id, reason = _reason(value, topic, versions) if topic.envelope is None else (None, row[WHY])
    return DeadLetter(
        topic=topic.name,
        partition=row.partition,
        offset=row.offset,
        key=bytes(row.key) if row.key is not None else None,
        value=value,
        headers=tuple((header.key, header.value) for header in row.headers or ()),
        schema_id=schema_id,
        app=engine.graph.app,
        pipeline=pipeline.name,
        reason=reason,
    )


def _reason(value: bytes | None, topic: Topic, versions: reading.Versions) -> tuple[int | None, str]:
    try:
        schema_id, payload = unpack(value)
    except DecodeError as error:
        return None, error.what
    if schema_id not in versions.writers:
        return schema_id, f"schema id {schema_id} is not registered for {topic.subject}"
    return schema_id, f"{len(payload)} bytes do not fit schema id {schema_id} of {topic.subject}"
