"""The set of digests that are remembered for a day."""

from __future__ import annotations

import random
from collections import deque

from gearshift.topics.marks.remembered import SIZE, Remembered

DAY = 86_400.0


def test_digests_are_remembered_for_a_day_and_then_free_their_memory() -> None:
    now = 0.0
    remembered = Remembered(clock=lambda: now)
    chance, a_day = random.Random(7), 20_000
    lately: deque[tuple[float, bytes]] = deque()
    held: list[int] = []
    for day in range(4):
        for n in range(a_day):
            now = DAY * (day + n / a_day)
            digest = chance.randbytes(SIZE)
            remembered.add(digest)
            lately.append((now, digest))
            while lately[0][0] < now - DAY:
                lately.popleft()
        assert all(digest in remembered for _, digest in lately)
        assert not any(chance.randbytes(SIZE) in remembered for _ in range(1000))
        held.append(len(remembered))
    assert held[-1] < 1.4 * a_day
    forgotten = [digest for _, digest in lately]
    now += DAY + 901
    assert not any(digest in remembered for digest in forgotten)


def test_a_repeated_digest_is_stored_once_and_kept_for_longer() -> None:
    now = 0.0
    remembered = Remembered(clock=lambda: now)
    remembered.add(b"twelve bytes")
    now = DAY / 2
    remembered.add(b"twelve bytes")
    assert len(remembered) == 1
    now = 1.4 * DAY
    assert b"twelve bytes" in remembered


def test_a_discarded_digest_is_unknown_and_the_others_are_known() -> None:
    remembered = Remembered()
    digests = [random.Random(n).randbytes(SIZE) for n in range(5000)]
    for digest in digests:
        remembered.add(digest)
    for digest in digests[::3]:
        remembered.discard(digest)
    assert [digest in remembered for digest in digests] == [n % 3 != 0 for n in range(5000)]


def test_digests_that_overlap_in_memory_are_distinguished() -> None:
    remembered = Remembered(clock=lambda: 0.0)
    remembered.add(bytes(range(SIZE)))
    remembered.add(bytes(SIZE))
    assert bytes(range(1, SIZE)) + b"\0" not in remembered
    assert bytes(SIZE) in remembered


def test_a_mark_of_a_clock_ahead_of_ours_is_known_and_one_of_two_days_ago_is_not() -> None:
    remembered = Remembered(clock=lambda: 10 * DAY)
    remembered.add(b"a" * SIZE, 10.1 * DAY)
    remembered.add(b"b" * SIZE, 8 * DAY)
    assert b"a" * SIZE in remembered
    assert b"b" * SIZE not in remembered
