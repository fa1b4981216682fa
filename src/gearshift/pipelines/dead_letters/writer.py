"""Writes the dead letters of the records that a batch could not decode.

Spark finds the records with the same decoding and schemas as the query; their bytes are copied from topic to topic in
pieces that fit in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import DecodeError, TopicMissingError
from gearshift.pipelines.context import Context
from gearshift.pipelines.dead_letters.pending import Pending, Ranges
from gearshift.pipelines.records import reading
from gearshift.pipelines.records.debezium import WHY
from gearshift.schemas.wire import unpack
from gearshift.topics import ConsumedRecord, DeadLetter, DeadLetters, read, read_at
from gearshift.topics.dead_letters.letters import Letter

log = logging.getLogger(__name__)

_PIECE = 100_000  # offsets per piece: all of them may be corrupt
_WRITTEN_AT_ONCE = 1000
_BYTES_AT_ONCE = 16 << 20
_MOST_UNKNOWN_IDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """The result for an entry."""

    entry: Pending
    unknown_ids: frozenset[int] = frozenset()
    """Unregistered schema ids of the records."""
    reason: str = ""
    """The reason of the first dead letter that was written."""
    fresh: int = 0
    """The number of dead letters that were not there before."""


class OffsetSet:
    """A set of (partition, offset) that takes one bit each, in blocks.

    >>> offsets = OffsetSet([(0, 5), (1, 70_000)])
    >>> (0, 5) in offsets, (0, 6) in offsets, (1, 70_000) in offsets
    (True, False, True)
    """

    def __init__(self, offsets: Iterable[tuple[int, int]] = ()) -> None:
        self._blocks: dict[tuple[int, int], bytearray] = {}
        for partition, offset in offsets:
            block = self._blocks.setdefault((partition, offset >> 12), bytearray(512))
            block[(offset & 4095) >> 3] |= 1 << (offset & 7)

    def __contains__(self, record: tuple[int, int]) -> bool:
        partition, offset = record
        block = self._blocks.get((partition, offset >> 12))
        return block is not None and bool(block[(offset & 4095) >> 3] & 1 << (offset & 7))


def set_aside(
    context: Context,
    pipeline: Pipeline,
    topic: Topic,
    versions: reading.Versions,
    entry: Pending,
    *,
    letters: DeadLetters,
    keep: Callable[[Pending], None],
) -> SetAside:
    """Write the dead letters of an entry piece by piece; `keep` is called with what is left after each.

    `versions` are those that the batch was read with.
    """
    there = OffsetSet() if entry.fresh else _written_already(context, pipeline, topic, entry)
    unknown: set[int] = set()
    first_reason, fresh = "", 0
    while entry.ranges:
        piece = _next_piece(entry)
        present, _ = _still_there(context, topic, piece)
        corrupt = _find_corrupt(context, topic, versions, present) if present else {}
        left = {
            partition: [offset for offset in sorted(of) if (partition, offset) not in there]
            for partition, of in corrupt.items()
        }
        written = sum(map(len, corrupt.values())) - sum(map(len, left.values()))
        records = read_at(context.connection, topic.name, {p: of for p, of in left.items() if of})
        made = (
            _letter(context, pipeline, record, topic, versions, corrupt[record.partition][record.offset])
            for record in records
        )
        for some in _chunks(made):
            first_reason = first_reason or some[0].reason
            if len(unknown) < _MOST_UNKNOWN_IDS:
                ids = (letter.schema_id for letter in some)
                unknown.update(id_ for id_ in ids if id_ is not None and id_ not in versions.writers)
            count = letters.write(some)
            written, fresh = written + count, fresh + count
        _, gone = _still_there(context, topic, piece)  # retention may have removed some meanwhile
        entry = entry.after(piece, written=written, gone=gone)
        keep(entry)
    return SetAside(entry=entry, unknown_ids=frozenset(unknown), reason=first_reason, fresh=fresh)


def _next_piece(entry: Pending) -> dict[int, tuple[int, int]]:
    """The ranges to search next: all of them if few records are corrupt."""
    if entry.observed is not None and entry.observed <= _PIECE:
        return dict(entry.ranges)
    share = max(1, _PIECE // len(entry.ranges))
    return {partition: (first, min(end, first + share)) for partition, (first, end) in entry.ranges.items()}


def _still_there(
    context: Context, topic: Topic, piece: Ranges
) -> tuple[dict[int, tuple[int, int]], list[tuple[int, int, int]]]:
    """The part of a piece that is still on the topic, and the part that retention removed."""
    begins = {
        partition: offset for (_, partition), offset in context.admin.begin_offsets([topic.name]).items()
    }
    ends = {partition: offset for (_, partition), offset in context.admin.end_offsets([topic.name]).items()}
    present: dict[int, tuple[int, int]] = {}
    gone: list[tuple[int, int, int]] = []
    for partition, (first, end) in piece.items():
        since, until = begins.get(partition, end), ends.get(partition, end)
        if first < since:
            gone.append((partition, first, min(end, since)))
        if until < end:
            gone.append((partition, max(first, until), end))
        if max(first, since) < min(end, until):
            present[partition] = max(first, since), min(end, until)
    return present, gone


def _find_corrupt(
    context: Context, topic: Topic, versions: reading.Versions, ranges: Ranges
) -> dict[int, dict[int, str | None]]:
    """Why each corrupt record is corrupt, by partition and offset; None if the decoding gives no reason.

    It decodes as the query does, so that both find the same records corrupt.
    """
    # Spark needs a range for every partition; the others get an empty one.
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for (_, partition), earliest in context.admin.begin_offsets([topic.name]).items():
        starts[partition], ends[partition] = ranges.get(partition, (earliest, earliest))
    raw = reading.read_range(context.spark, context.connection, topic.name, starts, ends)
    bad = reading.decode(raw, topic, replace(versions, asks=False)).where(F.col(reading.CORRUPT))
    found: dict[int, dict[int, str | None]] = {}
    rows: list[Any] = bad.select("partition", "offset", WHY).collect()
    for partition, offset, why in rows:
        found.setdefault(partition, {})[offset] = why
    return found


def _written_already(context: Context, pipeline: Pipeline, topic: Topic, entry: Pending) -> OffsetSet:
    """The records of the entry that this pipeline has already set aside since the batch."""
    since = datetime.fromtimestamp(entry.since_ms / 1000, UTC)
    try:
        offsets = context.admin.offsets_at([topic.dead_letters], since)
    except TopicMissingError:
        return OffsetSet()
    starts = {partition: offset for (_, partition), offset in offsets.items()}
    found = map(Letter.of, read(context.connection, topic.dead_letters, start=starts))
    ours = context.query_name(pipeline)
    return OffsetSet(
        letter.origin
        for letter in found
        if letter.failed_in == ours and letter.origin is not None and _is_in(letter.origin, entry.ranges)
    )


def _is_in(record: tuple[int, int], ranges: Ranges) -> bool:
    first, end = ranges.get(record[0], (0, 0))
    return first <= record[1] < end


def _chunks(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Dead letters in lists that fit in memory."""
    some: list[DeadLetter] = []
    size = 0
    for letter in letters:
        some.append(letter)
        size += len(letter.key or b"") + len(letter.value or b"")
        if len(some) >= _WRITTEN_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _letter(
    context: Context,
    pipeline: Pipeline,
    record: ConsumedRecord,
    topic: Topic,
    versions: reading.Versions,
    why: str | None,
) -> DeadLetter:
    known = _reason(record.value, topic, versions) if topic.envelope is None else (None, "")
    schema_id, reason = known
    return DeadLetter(
        topic=topic.name,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=record.headers,
        schema_id=schema_id,
        app=context.graph.app,
        pipeline=pipeline.name,
        reason=why or reason,
    )


def _reason(value: bytes | None, topic: Topic, versions: reading.Versions) -> tuple[int | None, str]:
    try:
        schema_id, payload = unpack(value)
    except DecodeError as error:
        return None, error.what
    if schema_id not in versions.writers:
        return schema_id, f"schema id {schema_id} was not registered for {topic.subject}"
    return schema_id, f"{len(payload)} bytes do not fit schema id {schema_id} of {topic.subject}"


def restricted(versions: reading.Versions, ids: Mapping[str, list[int]], topic: Topic) -> reading.Versions:
    """The versions without those registered after a run began, which knew these ids."""
    if topic.name not in ids:
        return versions
    known = set(ids[topic.name])
    return replace(
        versions,
        writers={id_: text for id_, text in versions.writers.items() if id_ in known},
        keys={id_: text for id_, text in versions.keys.items() if id_ in known},
    )


def ids_of(versions: Mapping[str, reading.Versions]) -> dict[str, list[int]]:
    """The known schema ids by topic."""
    return {topic: sorted({*known.writers, *known.keys}) for topic, known in versions.items()}
