"""Sets aside the records a batch could not decode, from the ranges that are known to hold some."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from pyspark.sql import functions as F

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import DecodeError, TopicMissingError
from gearshift.pipelines import reading
from gearshift.pipelines.changes import WHY
from gearshift.pipelines.checkpoint import Offsets
from gearshift.pipelines.engine import Engine, Versions
from gearshift.pipelines.listener import Corrupt
from gearshift.schemas.wire import unpack
from gearshift.topics import DeadLetter, DeadLetters, read
from gearshift.topics.letters import Letter

log = logging.getLogger(__name__)

_WRITTEN_AT_ONCE = 1000
_MOST_UNKNOWN_IDS = 1000


@dataclass(frozen=True, slots=True)
class SetAside:
    """What a batch's range held."""

    count: int = 0
    unknown_ids: frozenset[int] = frozenset()
    """Schema ids of records that no registered version has."""


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
) -> SetAside:
    """Write the corrupt records between the offsets to their topics' dead letters.

    `versions` are those that the batch was read with. `corrupt` narrows the ranges to what a batch observed; None looks
    through all of them. After a crash, `written_since_ms` names the time from which dead letters may have been
    written already.
    """
    total = 0
    unknown: set[int] = set()
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
        written, first_reason = 0, ""
        while piece := list(islice(found, _WRITTEN_AT_ONCE)):
            fresh = [letter for letter in piece if (letter.partition, letter.offset) not in seen]
            written += letters.write(fresh)
            total += len(piece)
            if fresh and not first_reason:
                first_reason = fresh[0].reason
            known = versions[topic.name].writers
            unknown.update(
                letter.schema_id
                for letter in islice(fresh, _MOST_UNKNOWN_IDS)
                if letter.schema_id is not None and letter.schema_id not in known
            )
        if written:
            log.warning(
                '%s: %s of %s set aside in %s: %s; see "gearshift dlq list"',
                pipeline.name,
                "1 record" if written == 1 else f"{written} records",
                topic.name,
                topic.dead_letters,
                first_reason,
            )
    return SetAside(total, frozenset(islice(unknown, _MOST_UNKNOWN_IDS)))


def _written_already(engine: Engine, pipeline: Pipeline, topic: Topic, since_ms: int) -> set[tuple[int, int]]:
    """Where the records were that this pipeline has set aside since an instant."""
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    try:
        offsets = engine.admin.offsets_at([topic.dead_letters], since)
    except TopicMissingError:
        return set()
    starts = {place[1]: offset for place, offset in offsets.items()}
    found = map(Letter.of, read(engine.connection, topic.dead_letters, start=starts))
    ours = engine.query_name(pipeline)
    return {letter.origin for letter in found if letter.failed_in == ours and letter.origin is not None}


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
) -> Iterator[DeadLetter]:
    """The same decoding that the query does, so that both call the same records corrupt."""
    # Spark wants every partition named; the others get an empty range.
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for (_, partition), earliest in engine.admin.begin_offsets([topic.name]).items():
        first, end = ranges.get(partition, (earliest, earliest))
        if first < earliest:
            log.error(
                "%s: %s/%d: retention removed offsets %d to %d before the corrupt records among them were set aside",
                pipeline.name,
                topic.name,
                partition,
                first,
                min(end, earliest) - 1,
            )
        starts[partition], ends[partition] = max(first, earliest), max(end, earliest)
    if starts == ends:
        return
    raw = reading.read_range(engine.spark, engine.connection, topic.name, starts, ends)
    bad = reading.decode(raw, topic, replace(versions, asks=False)).where(F.col(reading.CORRUPT))
    columns = ["key", "value", "headers", "partition", "offset", "timestamp", WHY]
    for row in bad.select(*columns).toLocalIterator():
        yield _letter(engine, pipeline, row, topic, versions)


def _letter(
    engine: Engine, pipeline: Pipeline, row: Any, topic: Topic, versions: reading.Versions
) -> DeadLetter:
    value = bytes(row.value) if row.value is not None else None
    schema_id, reason = _reason(value, topic, versions) if topic.envelope is None else (None, "")
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
        reason=row[WHY] or reason,
    )


def _reason(value: bytes | None, topic: Topic, versions: reading.Versions) -> tuple[int | None, str]:
    try:
        schema_id, payload = unpack(value)
    except DecodeError as error:
        return None, error.what
    if schema_id not in versions.writers:
        return schema_id, f"schema id {schema_id} was not registered for {topic.subject}"
    return schema_id, f"{len(payload)} bytes do not fit schema id {schema_id} of {topic.subject}"
