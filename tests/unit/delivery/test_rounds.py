"""One round after the other."""

from __future__ import annotations

from gearshift.delivery.progress import Progress
from gearshift.delivery.rounds import Piece, Rounds


def sizes(pieces: list[Piece]) -> list[int]:
    return [len(messages) for _, messages in pieces]


def test_a_round_begins_when_the_one_before_has_ended() -> None:
    started: list[list[Piece]] = []
    ended: list[list[Piece]] = []

    def end(pieces: list[Piece]) -> list[Piece]:
        ended.append(pieces)
        return []

    rounds = Rounds(started.append, end, size=3)
    first, second = Progress(0), Progress(0)
    rounds.take([Piece(first, [1, 2])])
    rounds.take([Piece(second, [3, 4, 5]), Piece(first, [6])])
    assert [sizes(each) for each in started] == [[2]]
    rounds.done(1)
    assert not ended
    rounds.done(1)
    assert [sizes(each) for each in started] == [[2], [3]]
    rounds.done(3)
    assert [messages for _, messages in started[2]] == [[6]]
    assert len(ended) == 2
    assert not rounds.await_end(0.01)
    rounds.done(1)
    assert rounds.await_end(0.01)


def test_a_round_takes_a_part_of_a_piece_and_leaves_the_rest() -> None:
    started: list[list[Piece]] = []
    rounds = Rounds(started.append, lambda _: [], size=4)
    progress = Progress(0)
    rounds.take([Piece(progress, [1, 2, 3]), Piece(progress, [4, 5, 6, 7, 8, 9])])
    rounds.done(4)
    rounds.done(4)
    assert [[m for _, messages in each for m in messages] for each in started] == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9],
    ]


def test_what_is_to_be_done_again_comes_first() -> None:
    started: list[list[int]] = []
    rounds = Rounds(
        lambda pieces: started.append([m for _, messages in pieces for m in messages]),
        lambda _: rounds.dropped,
        size=2,
    )
    progress = Progress(0)
    rounds.take([Piece(progress, [1, 2, 3])])
    rounds.drop(Piece(progress, [2]))
    rounds.done(1)
    assert started == [[1, 2], [2, 3]]


def test_the_waiting_records_of_a_partition_that_goes_are_forgotten() -> None:
    started: list[list[Piece]] = []
    rounds = Rounds(started.append, lambda _: [], size=1)
    stays, goes = Progress(0), Progress(0)
    rounds.take([Piece(stays, [1]), Piece(goes, [2, 3]), Piece(stays, [4])])
    assert rounds.forget([goes]) == [2, 3]
    rounds.done(1)
    assert [messages for _, messages in started[1]] == [[4]]


def test_rounds_that_end_while_they_are_handed_over_follow_each_other_without_end() -> None:
    done: list[int] = []

    def start(pieces: list[Piece]) -> None:
        for _, messages in pieces:
            done.extend(messages)
            rounds.done(len(messages))

    rounds = Rounds(start, lambda _: [], size=1)
    rounds.take([Piece(Progress(0), list(range(5000)))])
    assert done == list(range(5000))


def test_rounds_grow_while_they_are_quick_and_shrink_when_they_are_slow() -> None:
    started: list[int] = []
    now = 0.0
    rounds = Rounds(
        lambda pieces: started.append(sum(sizes(pieces))),
        lambda _: [],
        size=10,
        least=5,
        most=100,
        clock=lambda: now,
    )
    rounds.take([Piece(Progress(0), list(range(1000)))])
    for _ in range(4):
        now += 0.01
        rounds.done(started[-1])
    assert started == [10, 20, 40, 80, 100]
    for _ in range(5):
        now += 0.25
        rounds.done(started[-1])
    assert started[5:] == [50, 25, 10, 5, 5]


def test_rounds_grow_until_their_work_takes_as_long_as_their_commit() -> None:
    started: list[int] = []
    now = 0.0

    def end(_pieces: list[Piece]) -> list[Piece]:
        nonlocal now
        now += 1.0  # a commit that takes a second
        assert rounds.ending_for > 0.9
        return []

    rounds = Rounds(
        lambda pieces: started.append(sum(sizes(pieces))),
        end,
        size=10,
        least=1,
        most=1000,
        clock=lambda: now,
    )
    rounds.take([Piece(Progress(0), list(range(5000)))])
    for _ in range(6):
        now += started[-1] * 0.01
        rounds.done(started[-1])
    assert started == [10, 20, 40, 80, 160, 160, 160]
    assert rounds.ending_for == 0.0


def test_records_under_suspicion_get_a_round_each_and_then_rounds_are_as_before() -> None:
    started: list[list[int]] = []

    def end(pieces: list[Piece]) -> list[Piece]:
        if len(started) > 1:
            return []
        rounds.one_by_one(3)
        return pieces

    rounds = Rounds(
        lambda pieces: started.append([m for _, messages in pieces for m in messages]), end, size=3
    )
    rounds.take([Piece(Progress(0), [1, 2, 3, 4, 5, 6])])
    rounds.done(3)
    for count in (1, 1, 1, 3):
        rounds.done(count)
    assert started == [[1, 2, 3], [1], [2], [3], [4, 5, 6]]
