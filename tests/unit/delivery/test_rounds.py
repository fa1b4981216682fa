"""One round after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gearshift.delivery.assignment import OffsetTracker, Piece
from gearshift.delivery.rounds import Rounds


class Driver:
    """Starts and ends rounds as the dispatcher does."""

    def __init__(
        self,
        start: Callable[[list[Piece]], None],
        end: Callable[[list[Piece]], list[Piece]],
        size: int,
        **options: Any,
    ) -> None:
        self.rounds = Rounds(size, **options)
        self._start = start
        self._end = end

    def take(self, pieces: list[Piece]) -> None:
        if (first := self.rounds.add(pieces)) is not None:
            self._start(first)
            self.done(1)

    def done(self, count: int) -> None:
        while self.rounds.finish(count):
            following = self.rounds.end(self._end(self.rounds.current))
            if following is None:
                return
            self._start(following)
            count = 1

    def drop(self, piece: Piece) -> None:
        self.rounds.drop(piece)
        self.done(len(piece.messages))


def sizes(pieces: list[Piece]) -> list[int]:
    return [len(messages) for _, messages in pieces]


def test_a_round_begins_when_the_previous_one_has_ended() -> None:
    started: list[list[Piece]] = []
    ended: list[list[Piece]] = []

    def end(pieces: list[Piece]) -> list[Piece]:
        ended.append(pieces)
        return []

    driver = Driver(started.append, end, size=3)
    first, second = OffsetTracker(0), OffsetTracker(0)
    driver.take([Piece(first, [1, 2])])
    driver.take([Piece(second, [3, 4, 5]), Piece(first, [6])])
    assert [sizes(each) for each in started] == [[2]]
    driver.done(1)
    assert not ended
    driver.done(1)
    assert [sizes(each) for each in started] == [[2], [3]]
    driver.done(3)
    assert [messages for _, messages in started[2]] == [[6]]
    assert len(ended) == 2
    assert not driver.rounds.await_end(0.01)
    driver.done(1)
    assert driver.rounds.await_end(0.01)


def test_a_round_takes_a_part_of_a_piece_and_leaves_the_rest() -> None:
    started: list[list[Piece]] = []
    driver = Driver(started.append, lambda _: [], size=4)
    tracker = OffsetTracker(0)
    driver.take([Piece(tracker, [1, 2, 3]), Piece(tracker, [4, 5, 6, 7, 8, 9])])
    driver.done(4)
    driver.done(4)
    assert [[m for _, messages in each for m in messages] for each in started] == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9],
    ]


def test_records_to_be_handled_again_come_first() -> None:
    started: list[list[int]] = []
    driver = Driver(
        lambda pieces: started.append([m for _, messages in pieces for m in messages]),
        lambda _: driver.rounds.dropped,
        size=2,
    )
    tracker = OffsetTracker(0)
    driver.take([Piece(tracker, [1, 2, 3])])
    driver.drop(Piece(tracker, [2]))
    driver.done(1)
    assert started == [[1, 2], [2, 3]]


def test_held_records_of_a_revoked_partition_are_dropped() -> None:
    started: list[list[Piece]] = []
    driver = Driver(started.append, lambda _: [], size=1)
    stays, goes = OffsetTracker(0), OffsetTracker(0)
    driver.take([Piece(stays, [1]), Piece(goes, [2, 3]), Piece(stays, [4])])
    assert driver.rounds.forget([goes]) == [2, 3]
    driver.done(1)
    assert [messages for _, messages in started[1]] == [[4]]


def test_rounds_that_complete_while_they_are_started_do_not_recurse() -> None:
    done: list[int] = []

    def start(pieces: list[Piece]) -> None:
        for _, messages in pieces:
            done.extend(messages)
            driver.done(len(messages))

    driver = Driver(start, lambda _: [], size=1)
    driver.take([Piece(OffsetTracker(0), list(range(5000)))])
    assert done == list(range(5000))


def test_rounds_grow_while_they_are_fast_and_shrink_when_they_are_slow() -> None:
    started: list[int] = []
    now = 0.0
    driver = Driver(
        lambda pieces: started.append(sum(sizes(pieces))),
        lambda _: [],
        size=10,
        least=5,
        most=100,
        clock=lambda: now,
    )
    driver.take([Piece(OffsetTracker(0), list(range(1000)))])
    for _ in range(4):
        now += 0.01
        driver.done(started[-1])
    assert started == [10, 20, 40, 80, 100]
    for _ in range(5):
        now += 0.25
        driver.done(started[-1])
    assert started[5:] == [50, 25, 10, 5, 5]


def test_rounds_grow_until_their_work_takes_as_long_as_their_commit() -> None:
    started: list[int] = []
    now = 0.0

    def end(_pieces: list[Piece]) -> list[Piece]:
        nonlocal now
        now += 1.0  # a commit that takes a second
        assert driver.rounds.ending_for > 0.9
        return []

    driver = Driver(
        lambda pieces: started.append(sum(sizes(pieces))),
        end,
        size=10,
        least=1,
        most=1000,
        clock=lambda: now,
    )
    driver.take([Piece(OffsetTracker(0), list(range(5000)))])
    for _ in range(6):
        now += started[-1] * 0.01
        driver.done(started[-1])
    assert started == [10, 20, 40, 80, 160, 160, 160]
    assert driver.rounds.ending_for == 0.0


def test_suspect_records_get_a_round_each_and_then_rounds_are_as_before() -> None:
    started: list[list[int]] = []

    def end(pieces: list[Piece]) -> list[Piece]:
        if len(started) > 1:
            return []
        driver.rounds.one_by_one(3)
        return pieces

    driver = Driver(
        lambda pieces: started.append([m for _, messages in pieces for m in messages]), end, size=3
    )
    driver.take([Piece(OffsetTracker(0), [1, 2, 3, 4, 5, 6])])
    driver.done(3)
    for count in (1, 1, 1, 3):
        driver.done(count)
    assert started == [[1, 2, 3], [1], [2], [3], [4, 5, 6]]
