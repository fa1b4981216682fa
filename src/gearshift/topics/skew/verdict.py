"""The verdict on how a topic's load is distributed over partitions and keys, with advice. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

_UNEVEN = 1.5
"""A partition with this multiple of its fair share is hot."""
_HALF = 0.5
_MUCH_LAG = 1000


class Kind(StrEnum):
    """The kind of skew."""

    HOT_KEY = "hot key"
    HOT_PARTITION = "hot partition"
    SLOW_DESTINATION = "slow destination"
    SLOW_PARTITION = "slow partition"
    NONE = "no skew"


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """The load of one partition; its bytes are estimated from the sample."""

    partition: int
    records: int
    sampled: int = 0
    sampled_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of keys and values, extrapolated from the sample."""
        return round(self.records * self.sampled_bytes / self.sampled) if self.sampled else 0


@dataclass(frozen=True, slots=True)
class HotKey:
    """A frequent key and its share of the sampled records."""

    key: str
    partition: int
    records: int
    share: float


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group on each partition, now and at the measurement before."""

    group_id: str
    lag: Mapping[int, int]
    before: Mapping[int, int]

    @property
    def total(self) -> int:
        """The lag on all partitions."""
        return sum(self.lag.values())

    @property
    def shrinks(self) -> bool:
        """Whether the group is catching up."""
        return self.total < sum(self.before.values())


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kind of skew, a description, and advice."""

    kind: Kind
    what: str
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skew:
    """The load of a topic, measured once."""

    topic: str
    partitions: tuple[PartitionLoad, ...]
    keys: tuple[HotKey, ...]
    distinct_keys: int | None
    """The number of distinct keys in the sample; None if there were too many to count."""
    sampled: int
    groups: tuple[GroupLag, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the topic."""
        return judge(self.partitions, self.keys, self.groups, distinct_keys=self.distinct_keys)

    def as_data(self) -> dict[str, Any]:
        """The load and the verdict as plain data."""
        total = sum(load.records for load in self.partitions)
        verdict = self.verdict
        return {
            "topic": self.topic,
            "sampled": self.sampled,
            "partitions": [
                {
                    "partition": load.partition,
                    "records": load.records,
                    "share": load.records / total if total else 0.0,
                    "bytes": load.bytes,
                }
                for load in self.partitions
            ],
            "keys": [asdict(key) for key in self.keys],
            "distinct_keys": self.distinct_keys,
            "groups": [{"group": group.group_id, "lag": group.total} for group in self.groups],
            "verdict": {"kind": str(verdict.kind), "what": verdict.what, "advice": list(verdict.advice)},
        }


def judge(
    partitions: Sequence[PartitionLoad],
    keys: Sequence[HotKey],
    groups: Sequence[GroupLag] = (),
    *,
    distinct_keys: int | None = None,
) -> Verdict:
    """The verdict on a topic: a hot key before a hot partition before a slow consumer group.

    >>> loads = [PartitionLoad(0, 9_100), PartitionLoad(1, 450), PartitionLoad(2, 450)]
    >>> judge(loads, [HotKey("meter-7", 0, 8_700, 0.87)]).kind
    <Kind.HOT_KEY: 'hot key'>
    >>> judge(loads, [HotKey("meter-7", 0, 90, 0.009)]).kind
    <Kind.HOT_PARTITION: 'hot partition'>
    """
    total = sum(load.records for load in partitions)
    if not total:
        return Verdict(Kind.NONE, "the topic is empty")
    hot = _hot_partition(partitions)
    top = max(keys, key=lambda key: key.share, default=None)
    if hot is not None:
        share = hot.records / total
        of_hot = [key for key in keys if key.partition == hot.partition]
        hottest = max(of_hot, key=lambda key: key.share, default=None)
        others = (total - hot.records) / (len(partitions) - 1)
        # The key explains its partition if it accounts for most of the surplus over the others.
        if hottest is not None and hottest.share * total >= _HALF * (hot.records - others):
            return _hot_key(hottest, f"partition {hot.partition} has {share:.0%} of the records")
        return _hot(hot, share, len(partitions), distinct_keys)
    if top is not None and top.share >= _HALF and (distinct_keys is None or distinct_keys > 1):
        return _hot_key(top, "the partitions are even now, but more partitions would not spread its load")
    slow = max(
        (group for group in groups if _much(group, total)), key=lambda group: group.total, default=None
    )
    if slow is not None:
        return _slow(slow, len(partitions))
    most = f", and no key more than {top.share:.1%}" if top is not None else ""
    return Verdict(Kind.NONE, f"no partition has far more than its share{most}")


def _hot_partition(partitions: Sequence[PartitionLoad]) -> PartitionLoad | None:
    if len(partitions) < 2:
        return None
    hottest = max(partitions, key=lambda load: load.records)
    fair = sum(load.records for load in partitions) / len(partitions)
    # A few records are uneven by chance: four standard deviations are more than that.
    return hottest if hottest.records >= max(_UNEVEN * fair, fair + 4 * math.sqrt(fair)) else None


def _hot_key(key: HotKey, where: str) -> Verdict:
    return Verdict(
        Kind.HOT_KEY,
        f"key {key.key} has {key.share:.0%} of the records; {where}",
        (
            f"salt it: write key {key.key} as {key.key}#0 to {key.key}#7 and combine the parts afterwards",
            "or key the topic by a field with more values, if the order within this key is not needed",
            "set parallelism=N on a delivery, so that the other keys do not wait for it",
        ),
    )


def _hot(hot: PartitionLoad, share: float, count: int, distinct_keys: int | None) -> Verdict:
    few = distinct_keys is not None and distinct_keys < 10 * count
    why = (
        f"{distinct_keys} keys are too few to spread over {count} partitions"
        if few
        else "no single key explains it: the keys hash unevenly, or a producer chooses the partition"
    )
    return Verdict(
        Kind.HOT_PARTITION,
        f"partition {hot.partition} has {share:.0%} of the records, where {1 / count:.0%} would be fair; {why}",
        (
            "key the topic by a field with more values"
            if few
            else "check how its producers choose partitions",
            "or create a new topic with another number of partitions, which distributes the keys differently",
        ),
    )


def _much(group: GroupLag, total: int) -> bool:
    return group.total >= max(_MUCH_LAG, total // 100) and not group.shrinks


def _slow(group: GroupLag, count: int) -> Verdict:
    worst = max(group.lag, key=lambda partition: group.lag[partition])
    if count > 1 and group.lag[worst] >= 0.8 * group.total:
        return Verdict(
            Kind.SLOW_PARTITION,
            f"the partitions are even, but group {group.group_id} is {group.total:,} records behind, "
            f"nearly all of them on partition {worst}",
            (
                f"see which consumer has it: gearshift group lag {group.group_id}",
                "a record that is retried again and again may block it: see its log and gearshift dlq list",
            ),
        )
    grows = "" if group.total == sum(group.before.values()) else ", and the lag is growing"
    return Verdict(
        Kind.SLOW_DESTINATION,
        f"the partitions are even, and group {group.group_id} is {group.total:,} records behind on all of them{grows}",
        (
            "process more keys at once: parallelism=16",
            f"or add consumers: consumers=(1, {count}) uses all {count} partitions"
            if count > 1
            else "or add partitions to the topic, so that more consumers can share it",
            "or make the destination faster: larger batches, a closer server",
        ),
    )
