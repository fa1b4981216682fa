"""The hash of Kafka's Java client."""

from __future__ import annotations

import pytest

from gearshift.topics.partitioner import murmur2, partition_of


# The vectors of Kafka's own UtilsTest.testMurmur2.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_the_java_client(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected % 2**32


def test_a_partition_is_never_negative() -> None:
    assert {partition_of(b"%d" % n, 3) for n in range(100)} == {0, 1, 2}
