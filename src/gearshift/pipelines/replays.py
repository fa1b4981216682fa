"""Counts what a stretch wrote into its target without having it committed: the records a consumer sees again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.pipelines.stretches import Stretch
from gearshift.topics import Admin, ConsumedRecord, read

STAMP = "gearshift.batch"
Places = Mapping[tuple[str, int], int]


def count_replays(
    connection: Connection, admin: Admin, pipeline: str, target: Topic, stretch: Stretch
) -> int:
    """The records of an ended stretch whose batch never counted; only the tail of the target is read."""
    if stretch.stamped:
        return _count_stamped(connection, admin, pipeline, target, stretch)
    return _count_pending(connection, admin, target, stretch)


def _count_stamped(
    connection: Connection, admin: Admin, pipeline: str, target: Topic, stretch: Stretch
) -> int:
    """Each record carries its stretch and batch time, and a batch that counted is no later than the stretch's last."""
    prefix = f"{pipeline}/{stretch.number}/".encode()
    since = stretch.last_timestamp_ms or _ms(stretch.began)
    stamps = (record.header(STAMP) for record in _from(connection, admin, target, since))
    times = (_time(stamp, prefix) for stamp in stamps)
    return sum(1 for time in times if time is not None and time > stretch.last_timestamp_ms)


def _count_pending(connection: Connection, admin: Admin, target: Topic, stretch: Stretch) -> int:
    """A micro-batch that was planned and not committed has written what came from then until the stretch ended."""
    if stretch.pending_ms is None or stretch.ended is None:
        return 0
    first, last = max(stretch.pending_ms, _ms(stretch.began)), _ms(stretch.ended)
    return sum(
        1
        for record in _from(connection, admin, target, first)
        if record.header(STAMP) is None and record.timestamp and first <= _ms(record.timestamp) <= last
    )


def count_in_range(
    connection: Connection, pipeline: str, target: Topic, stretch: Stretch, before: Places, after: Places
) -> int:
    """The records that a stretch wrote between two positions of its target, whoever else writes there."""
    prefix = f"{pipeline}/{stretch.number}/".encode()
    starts, ends = (
        {partition: offset for (_, partition), offset in each.items()} for each in (before, after)
    )
    stamps = (record.header(STAMP) for record in read(connection, target.name, start=starts, end=ends))
    return sum(
        1 for stamp in stamps if (_time(stamp, prefix) is not None if stretch.stamped else stamp is None)
    )


def count_of_batch(
    connection: Connection,
    admin: Admin,
    pipeline: str,
    target: Topic,
    stretch: Stretch,
    first: int,
    last: int,
) -> int:
    """The records that the batch between two times, in milliseconds, wrote into the target, with those of its retries."""
    prefix = f"{pipeline}/{stretch.number}/".encode()
    found = 0
    for record in _from(connection, admin, target, first):
        stamp = record.header(STAMP)
        if stretch.stamped:
            time = _time(stamp, prefix)
        else:
            time = _ms(record.timestamp) if stamp is None and record.timestamp else None
        found += time is not None and first <= time <= last
    return found


def _time(stamp: bytes | None, prefix: bytes) -> int | None:
    """The batch time in a stamp of ours; anybody may write a header of that name.

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
