"""The verdict on a topic's load, without a broker."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.topics.partitioner import partition_of
from gearshift.topics.skew.hot_keys import HotKeys
from gearshift.topics.skew.verdict import GroupLag, HotKey, Kind, PartitionLoad, Skew, Verdict, judge


def loads(*records: int) -> list[PartitionLoad]:
    return [PartitionLoad(partition, count) for partition, count in enumerate(records)]


def looked_at(keys: list[bytes], partitions: int, groups: tuple[GroupLag, ...] = ()) -> Skew:
    """A topic with these keys, as Kafka's partitioner spreads them."""
    places = [partition_of(key, partitions) for key in keys]
    counts, hot = Counter(places), HotKeys()
    for place, key in zip(places, keys, strict=True):
        hot.add(place, key)
    return Skew(
        "readings",
        tuple(PartitionLoad(number, counts[number]) for number in range(partitions)),
        hot.hottest(10, of=len(keys)),
        hot.distinct,
        len(keys),
        groups,
    )


def test_a_key_with_most_of_the_records_is_a_hot_key() -> None:
    chance = Random(1)
    keys = [
        b"meter-7" if chance.random() < 0.9 else b"meter-%d" % chance.randrange(1000) for _ in range(20_000)
    ]
    verdict = looked_at(keys, 6).verdict
    assert verdict.kind is Kind.HOT_KEY
    assert verdict.what.startswith("key meter-7 has 90% of the records")
    assert any("salt" in advice for advice in verdict.advice)


def test_keys_that_fall_on_one_partition_are_a_hot_partition() -> None:
    unlucky = [key for key in (b"k%d" % n for n in range(2000)) if partition_of(key, 4) == 2][:100]
    others = [b"other-%d" % n for n in range(100)]
    verdict = looked_at([*unlucky * 100, *others * 10], 4).verdict
    assert verdict.kind is Kind.HOT_PARTITION
    assert "partition 2 has" in verdict.what and "hash unevenly" in verdict.what
    assert any("another number of partitions" in advice for advice in verdict.advice)


def test_a_handful_of_keys_is_too_few_to_spread() -> None:
    same = [key for key in (b"k%d" % n for n in range(200)) if partition_of(key, 3) == 0][:4]
    verdict = looked_at([*same * 500, b"k-else"], 3).verdict
    assert verdict.kind is Kind.HOT_PARTITION
    assert "5 keys are too few to spread over 3 partitions" in verdict.what


def test_many_equally_frequent_keys_are_not_skewed() -> None:
    chance = Random(2)
    verdict = looked_at([b"meter-%d" % chance.randrange(5000) for _ in range(50_000)], 12).verdict
    assert verdict == Verdict(Kind.NONE, verdict.what)
    assert verdict.what.startswith("no partition has far more than its share")


@pytest.mark.parametrize(
    ("lag", "kind"),
    [
        ({0: 40_000, 1: 41_000, 2: 39_000}, Kind.SLOW_DESTINATION),
        ({0: 10, 1: 50_000, 2: 20}, Kind.SLOW_PARTITION),
        ({0: 5, 1: 7, 2: 3}, Kind.NONE),
    ],
)
def test_the_distribution_of_lag_distinguishes_a_slow_destination_from_a_slow_partition(
    lag: dict[int, int], kind: Kind
) -> None:
    verdict = judge(loads(100_000, 99_000, 101_000), [], [GroupLag("sms", lag, lag)])
    assert verdict.kind is kind
    assert ("group sms" in verdict.what) == (kind is not Kind.NONE)


def test_a_group_that_catches_up_is_not_called_slow() -> None:
    lag, before = {0: 5000, 1: 5000}, {0: 9000, 1: 9000}
    assert judge(loads(50_000, 50_000), [], [GroupLag("sms", lag, before)]).kind is Kind.NONE
    assert judge(loads(50_000, 50_000), [], [GroupLag("sms", before, lag)]).kind is Kind.SLOW_DESTINATION


def test_lag_behind_a_hot_key_is_blamed_on_the_key() -> None:
    group = GroupLag("sms", {0: 90_000, 1: 0}, {0: 80_000, 1: 0})
    verdict = judge(loads(100_000, 9_000), [HotKey("meter-7", 0, 91_000, 0.83)], [group])
    assert verdict.kind is Kind.HOT_KEY


def test_one_partition_cannot_be_uneven_but_can_have_a_hot_key() -> None:
    assert judge(loads(10_000), [HotKey("a", 0, 9000, 0.9)], distinct_keys=20).kind is Kind.HOT_KEY
    assert judge(loads(10_000), [HotKey("a", 0, 10_000, 1.0)], distinct_keys=1).kind is Kind.NONE


def test_an_empty_topic_has_no_skew() -> None:
    assert judge(loads(0, 0, 0), []).what == "the topic is empty"


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=24), st.data())
def test_every_load_gets_a_verdict_that_matches_the_numbers(counts: list[int], data: st.DataObject) -> None:
    total = sum(counts)
    partition = data.draw(st.integers(0, len(counts) - 1))
    records = data.draw(st.integers(0, counts[partition]))
    keys = [HotKey("k", partition, records, records / total)] if total and records else []
    verdict = judge(loads(*counts), keys)
    assert verdict.what
    assert bool(verdict.advice) == (verdict.kind is not Kind.NONE)
    if verdict.kind is Kind.HOT_PARTITION:
        assert max(counts) >= 1.5 * total / len(counts)
    if verdict.kind is Kind.HOT_KEY:
        assert keys and (keys[0].share >= 0.5 or counts[partition] == max(counts))
    if len(set(counts)) == 1 and not (keys and keys[0].share >= 0.5):
        assert verdict.kind is Kind.NONE


def test_memory_stays_bounded_over_many_and_long_keys() -> None:
    keys = HotKeys()
    for number in range(60_000):
        keys.add(0, b"%d-" % number + b"x" * 1000)
        if number % 10 == 0:
            keys.add(0, b"hot")
    [top] = keys.hottest(1, of=66_000)
    assert top.key == "hot"
    assert abs(top.records - 6000) <= 66  # a tenth of a percent
    assert keys.distinct is None
    assert len(keys._sketch.serialize()) < 1_000_000  # pyright: ignore[reportPrivateUsage]
