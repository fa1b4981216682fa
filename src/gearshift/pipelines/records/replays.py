"""Counts the records that a run wrote to its target without committing them, and that are written again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.pipelines.ledger.runs import Run
from gearshift.topics import Admin, ConsumedRecord, read

STAMP = "gearshift.batch"
EndOffsets = Mapping[tuple[str, int], int]


def count_replays(connection: Connection, admin: Admin, pipeline: str, target: Topic, run: Run) -> int:
    """The records of an ended run whose batch never committed; reads only the tail of the target."""
    if run.stamped:
        return _count_stamped(connection, admin, pipeline, target, run)
    return _count_pending(connection, admin, target, run)


def _count_stamped(connection: Connection, admin: Admin, pipeline: str, target: Topic, run: Run) -> int:
    """Count records stamped with a batch time after the run's last committed batch."""
    prefix = f"{pipeline}/{run.number}/".encode()
    since = run.last_timestamp_ms or _ms(run.began)
    stamps = (record.header(STAMP) for record in _from(connection, admin, target, since))
    times = (_time(stamp, prefix) for stamp in stamps)
    return sum(1 for time in times if time is not None and time > run.last_timestamp_ms)


def _count_pending(connection: Connection, admin: Admin, target: Topic, run: Run) -> int:
    """Count the records between the planning of an uncommitted micro-batch and the end of the run."""
    if run.pending_ms is None or run.ended is None:
        return 0
    first, last = max(run.pending_ms, _ms(run.began)), _ms(run.ended)
    return sum(
        1
        for record in _from(connection, admin, target, first)
        if record.header(STAMP) is None and record.timestamp and first <= _ms(record.timestamp) <= last
    )


def count_in_range(
    connection: Connection, pipeline: str, target: Topic, run: Run, before: EndOffsets, after: EndOffsets
) -> int:
    """The records that a run wrote between two positions of its target; other writers' records do not count."""
    prefix = f"{pipeline}/{run.number}/".encode()
    starts, ends = (
        {partition: offset for (_, partition), offset in each.items()} for each in (before, after)
    )
    stamps = (record.header(STAMP) for record in read(connection, target.name, start=starts, end=ends))
    return sum(1 for stamp in stamps if (_time(stamp, prefix) is not None if run.stamped else stamp is None))


def count_of_batch(
    connection: Connection,
    admin: Admin,
    pipeline: str,
    target: Topic,
    run: Run,
    first: int,
    last: int,
) -> int:
    """The records that the batch between two times, in milliseconds, wrote to the target, including its retries."""
    prefix = f"{pipeline}/{run.number}/".encode()
    found = 0
    for record in _from(connection, admin, target, first):
        stamp = record.header(STAMP)
        if run.stamped:
            time = _time(stamp, prefix)
        else:
            time = _ms(record.timestamp) if stamp is None and record.timestamp else None
        found += time is not None and first <= time <= last
    return found


def _time(stamp: bytes | None, prefix: bytes) -> int | None:
    """The batch time in a stamp with this prefix; None for a foreign or malformed one.

    >>> _time(b"copy/3/1700", b"copy/3/"), _time(b"copy/3/soon", b"copy/3/")
    (1700, None)
    """
    rest = stamp.removeprefix(prefix) if stamp is not None and stamp.startswith(prefix) else b""
    return int(rest) if rest.isdigit() and len(rest) < 20 else None


def _from(connection: Connection, admin: Admin, target: Topic, since_ms: int) -> Iterator[ConsumedRecord]:
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    starts = {partition: offset for (_, partition), offset in admin.offsets_at([target.name], since).items()}
    return read(connection, target.name, start=starts)


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
