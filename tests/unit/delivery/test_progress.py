"""The offset that may be committed."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from gearshift.delivery.progress import Progress
from tests.support import eventually


@st.composite
def lives(draw: st.DrawFn) -> tuple[int, list[int], list[tuple[str, int]]]:
    """A start, offsets with gaps as compaction leaves them, and an order of taking in and finishing them."""
    start = draw(st.integers(0, 1000))
    gaps = draw(st.lists(st.integers(1, 3), max_size=30))
    offsets = [start + sum(gaps[: n + 1]) - 1 for n in range(len(gaps))]
    steps: list[tuple[str, int]] = []
    begun: list[int] = []
    waiting = list(offsets)
    while waiting or begun:
        if waiting and (not begun or draw(st.booleans())):
            begun.append(waiting.pop(0))
            steps.append(("begin", begun[-1]))
        else:
            steps.append(("finish", begun.pop(draw(st.integers(0, len(begun) - 1)))))
    return start, offsets, steps


@given(lives())
def test_the_position_is_the_lowest_unfinished_record_and_never_moves_back(
    life: tuple[int, list[int], list[tuple[str, int]]],
) -> None:
    start, offsets, steps = life
    progress = Progress(start)
    begun: set[int] = set()
    finished: set[int] = set()
    before = progress.position
    for step, offset in steps:
        if step == "begin":
            progress.begin([offset])
            begun.add(offset)
        else:
            progress.finish(offset)
            finished.add(offset)
        unfinished = begun - finished
        assert progress.unfinished == len(unfinished)
        assert all(progress.position <= each for each in unfinished)
        assert all(each < progress.position for each in finished if all(each < other for other in unfinished))
        assert before <= progress.position
        before = progress.position
    assert progress.position == (offsets[-1] + 1 if offsets else start)


@given(st.permutations(range(8)), st.integers(1, 5), st.integers(8, 20))
def test_records_that_are_gone_are_passed_when_those_before_them_are_finished(
    order: list[int], taken: int, oldest: int
) -> None:
    progress = Progress(0)
    progress.begin(range(8))
    finished: set[int] = set()
    for number, offset in enumerate(order):
        if number == taken:
            assert progress.skip_to(oldest) == oldest - 8
            progress.begin([oldest])
        before = progress.position
        progress.finish(offset)
        finished.add(offset)
        left = set(range(8)) - finished
        assert before <= progress.position <= min(left, default=oldest)
    assert progress.position == oldest
    progress.finish(oldest)
    assert progress.position == oldest + 1


def test_nothing_is_skipped_when_nothing_is_gone() -> None:
    progress = Progress(5)
    assert progress.skip_to(3) == 0
    assert progress.position == 5
    assert progress.skip_to(5) == 0
    assert progress.skip_to(9) == 4
    assert progress.position == 9
    progress.begin([9])
    progress.finish(9)
    assert progress.position == 10


def test_what_is_undone_is_finished_again() -> None:
    progress = Progress(0)
    progress.begin(range(5))
    progress.finish(0, 1, 3)
    progress.undo([1, 2, 3, 4])
    assert progress.position == 1
    progress.finish(4, 3, 2, 1)
    assert progress.position == 5
    assert progress.unfinished == 0


def test_nobody_begins_to_work_on_what_was_let_go_and_who_works_is_waited_for() -> None:
    progress = Progress(0)
    assert progress.enter()
    progress.let_go()
    assert not progress.enter()
    assert not progress.await_idle(0.01)
    threading.Timer(0.05, progress.leave).start()
    assert progress.await_idle(5)


def test_letting_go_ends_a_wait() -> None:
    progress = Progress(0)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(progress.wait(60)))
    waiting.start()
    progress.let_go()
    waiting.join(5)
    assert eventually(lambda: answers, within=1) == [False]
    assert Progress(0).wait(0.01)
