"""Measures how a topic's load is distributed, from its newest records and the lag of its groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from gearshift.topics.admin import Admin
from gearshift.topics.groups.tools import Groups
from gearshift.topics.reader import read
from gearshift.topics.skew.hot_keys import HotKeys
from gearshift.topics.skew.verdict import GroupLag, PartitionLoad, Skew

if TYPE_CHECKING:
    from gearshift.connection import Connection

SAMPLE = 100_000


def measure(
    connection: Connection, topic: str, *, sample: int = SAMPLE, since: datetime | None = None, keys: int = 10
) -> Skew:
    """Measure a topic by its newest records, up to `sample` of them, or by all since a time.

    Each partition is sampled in proportion to its records. The keys are counted with a sketch in bounded memory.
    """
    with Admin(connection) as admin, Groups(connection) as groups:
        before = _lags(groups, topic)
        ends = {partition: offset for (_, partition), offset in admin.stable_offsets([topic]).items()}
        first = admin.begin_offsets([topic]) if since is None else admin.offsets_at([topic], since)
        begins = {partition: min(offset, ends[partition]) for (_, partition), offset in first.items()}
        records = {partition: ends[partition] - begins[partition] for partition in ends}
        starts = begins if since is not None else _starts(ends, records, sample)
        sampled, size = dict.fromkeys(ends, 0), dict.fromkeys(ends, 0)
        counted = HotKeys()
        for record in read(connection, topic, start=starts, end=ends):
            sampled[record.partition] += 1
            size[record.partition] += len(record.key or b"") + len(record.value or b"")
            if record.key is not None:
                counted.add(record.partition, record.key)
        after = _lags(groups, topic)
    count = sum(sampled.values())
    return Skew(
        topic=topic,
        partitions=tuple(
            PartitionLoad(partition, records[partition], sampled[partition], size[partition])
            for partition in sorted(ends)
        ),
        keys=counted.hottest(keys, of=count),
        distinct_keys=counted.distinct,
        sampled=count,
        groups=tuple(GroupLag(group, lag, before.get(group, lag)) for group, lag in after.items()),
    )


def _starts(ends: Mapping[int, int], records: Mapping[int, int], sample: int) -> dict[int, int]:
    total = sum(records.values())
    if total <= sample:
        return {partition: ends[partition] - count for partition, count in records.items()}
    return {
        partition: ends[partition] - min(count, math.ceil(count * sample / total))
        for partition, count in records.items()
    }


def _lags(groups: Groups, topic: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for entry in groups.lag():
        if entry.topic == topic and entry.lag is not None:
            found.setdefault(entry.group_id, {})[entry.partition] = entry.lag
    return found
