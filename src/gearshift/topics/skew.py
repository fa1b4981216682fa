"""Says what is wrong with how a topic's load lies on its partitions and keys, and what to do about it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

_UNEVEN = 1.5
"""A partition with this many times its fair share is hot."""
_HALF = 0.5
_MUCH_LAG = 1000


class Kind(StrEnum):
    """What is wrong."""

    HOT_KEY = "hot key"
    HOT_PARTITION = "hot partition"
    SLOW_DESTINATION = "slow destination"
    SLOW_PARTITION = "slow partition"
    NONE = "no skew"


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """What one partition holds; bytes are told from the sample."""

    partition: int
    records: int
    sampled: int = 0
    sampled_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of keys and values, if the rest is as large as the sample."""
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
    """How far a group is behind on each partition, now and at the look before."""

    group_id: str
    lag: Mapping[int, int]
    before: Mapping[int, int]

    @property
    def total(self) -> int:
        """The records behind, on all partitions."""
        return sum(self.lag.values())

    @property
    def shrinks(self) -> bool:
        """Whether the group is catching up."""
        return self.total < sum(self.before.values())


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, in words, and what to do about it."""

    kind: Kind
    what: str
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skew:
    """The load of a topic, looked at once."""

    topic: str
    partitions: tuple[PartitionLoad, ...]
    keys: tuple[HotKey, ...]
    distinct_keys: int | None
    """How many keys the sample has; None if too many to count."""
    sampled: int
    groups: tuple[GroupLag, ...]

    @property
    def verdict(self) -> Verdict:
        """What is wrong with it."""
        return judge(self.partitions, self.keys, self.groups, distinct_keys=self.distinct_keys)


def judge(
    partitions: Sequence[PartitionLoad],
    keys: Sequence[HotKey],
    groups: Sequence[GroupLag] = (),
    *,
    distinct_keys: int | None = None,
) -> Verdict:
    """The verdict on a topic: a hot key before a hot partition before whoever reads it too slowly.

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
        # The key explains its partition if it is most of what the partition has over the others.
        if hottest is not None and hottest.share * total >= _HALF * (hot.records - others):
            return _hot_key(hottest, f"partition {hot.partition} has {share:.0%} of the records")
        return _hot(hot, share, len(partitions), distinct_keys)
    if top is not None and top.share >= _HALF and (distinct_keys is None or distinct_keys > 1):
        return _hot_key(top, "the partitions are even now, but more of them would not share its load")
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
    # A few records fall unevenly by chance: four standard deviations are more than chance.
    return hottest if hottest.records >= max(_UNEVEN * fair, fair + 4 * math.sqrt(fair)) else None


def _hot_key(key: HotKey, where: str) -> Verdict:
    return Verdict(
        Kind.HOT_KEY,
        f"key {key.key} has {key.share:.0%} of the records; {where}",
        (
            f"salt it: write key {key.key} as {key.key}#0 to {key.key}#7 and bring the parts together afterwards",
            "or key the topic by a field with more values, if the order within this key is not needed",
            "with parallelism=N a delivery keeps the other keys moving beside it",
        ),
    )


def _hot(hot: PartitionLoad, share: float, count: int, distinct_keys: int | None) -> Verdict:
    few = distinct_keys is not None and distinct_keys < 10 * count
    why = (
        f"{distinct_keys} keys are too few to spread over {count} partitions"
        if few
        else "no single key explains it: the keys hash unluckily, or a producer chooses the partition itself"
    )
    return Verdict(
        Kind.HOT_PARTITION,
        f"partition {hot.partition} has {share:.0%} of the records, where {1 / count:.0%} would be fair; {why}",
        (
            "key the topic by a field with more values"
            if few
            else "look at how its producers choose partitions",
            "or make a new topic with another number of partitions: keys then fall differently",
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
                f"see who holds it: gearshift group lag {group.group_id}",
                "a record that is tried again and again holds it up: see its log and gearshift dlq list",
            ),
        )
    grows = "" if group.total == sum(group.before.values()) else ", and more by the second"
    return Verdict(
        Kind.SLOW_DESTINATION,
        f"the partitions are even, and group {group.group_id} is {group.total:,} records behind on all of them{grows}",
        (
            "let it work on more keys at once: parallelism=16",
            f"or let it have more consumers: scale=(1, {count}) uses all {count} partitions"
            if count > 1
            else "or give the topic more partitions, so that more consumers can share it",
            "or make the destination faster: larger batches, a nearer server",
        ),
    )
