"""An excerpt has the records nearest to a place, and takes a bounded amount of work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from gearshift.topics.browsing import all_records
from gearshift.topics.excerpt import Limits, Search
from gearshift.topics.reader import ConsumedRecord, RangeReader

START = datetime(2026, 1, 31, tzinfo=UTC)


def record(partition: int, offset: int, second: float, value: bytes = b"v") -> ConsumedRecord:
    at = START + timedelta(seconds=second)
    return ConsumedRecord("t", partition, offset, None, value, (), at)


class Topic:
    """A topic in memory, which counts what is read of it."""

    def __init__(self, *partitions: list[ConsumedRecord], slow: bool = False) -> None:
        self.partitions = partitions
        self.reads = 0
        self.slow = slow

    def read(self, ranges: Mapping[int, tuple[int, int]], deadline: float) -> Iterator[ConsumedRecord]:
        for partition, (start, end) in ranges.items():
            for each in self.partitions[partition]:
                if start <= each.offset < end:
                    self.reads += 1
                    yield each

    def search(
        self, most: int, forward: bool = False, wanted: Any = all_records, **limits: Any
    ) -> tuple[Any, bool]:
        search = Search(most, Limits(**limits), forward=forward)
        search.by_offset = len(self.partitions) == 1
        ends = {
            number: (0, of_partition[-1].offset + 1 if of_partition else 0)
            for number, of_partition in enumerate(self.partitions)
        }
        exhausted = search.run(cast("RangeReader", self), ends, wanted)
        return search, exhausted


def places(search: Search) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in search.records]


def test_the_last_records_of_all_partitions_are_merged_by_time() -> None:
    topic = Topic([record(0, n, 2 * n) for n in range(50)], [record(1, n, 2 * n + 1) for n in range(50)])
    search, exhausted = topic.search(5)
    assert places(search) == [(1, 47), (0, 48), (1, 48), (0, 49), (1, 49)]
    assert not exhausted
    assert topic.reads == 10


def test_the_first_records_are_those_of_all_partitions() -> None:
    topic = Topic([record(0, n, 2 * n) for n in range(50)], [record(1, n, 2 * n + 1) for n in range(50)])
    search, _ = topic.search(3, forward=True)
    assert places(search) == [(0, 0), (1, 0), (0, 1)]


def test_records_of_one_partition_stay_in_the_order_of_their_offsets() -> None:
    topic = Topic([record(0, n, -n) for n in range(10)])
    search, _ = topic.search(3)
    assert places(search) == [(0, 7), (0, 8), (0, 9)]


def test_gaps_of_a_compacted_topic_are_crossed() -> None:
    topic = Topic([record(0, 5, 0), record(0, 9_000_000, 1)])
    search, exhausted = topic.search(100)
    assert places(search) == [(0, 5), (0, 9_000_000)]
    assert exhausted
    assert topic.reads == 2


def test_a_filter_looks_further_back_until_there_are_enough() -> None:
    topic = Topic([record(0, n, n, b"%d" % (n % 1000)) for n in range(100_000)])
    search, exhausted = topic.search(20, wanted=lambda each: each.value == b"7")
    assert len(search.records) == 20
    assert places(search)[-1] == (0, 99_007)
    assert not exhausted
    assert topic.reads < 60_000


@pytest.mark.parametrize("forward", [False, True])
def test_a_filter_that_finds_nothing_ends_after_so_many_records(forward: bool) -> None:
    topic = Topic([record(0, n, n) for n in range(50_000)])
    search, exhausted = topic.search(1, forward, wanted=lambda _: False, scanned=20_000)
    assert (search.records, exhausted) == ([], False)
    assert topic.reads == 20_000


def test_a_search_ends_in_time() -> None:
    topic = Topic([record(0, n, n) for n in range(50_000)])
    search, exhausted = topic.search(1, wanted=lambda _: False, within=timedelta(0))
    assert (search.records, exhausted) == ([], False)
    assert topic.reads <= 10_000


def test_large_records_are_left_out_from_the_far_end_but_never_all_of_them() -> None:
    topic = Topic([record(0, n, n, bytes(1000)) for n in range(10)])
    search, _ = topic.search(10, kept=3500)
    assert places(search) == [(0, 7), (0, 8), (0, 9)]
    assert search.dropped
    search, _ = topic.search(10, kept=10)
    assert places(search) == [(0, 9)]
    search, _ = topic.search(10, forward=True, kept=2000)
    assert places(search) == [(0, 0), (0, 1)]


def test_an_empty_topic_has_no_excerpt() -> None:
    search, exhausted = Topic([], []).search(10)
    assert (search.records, exhausted) == ([], True)
