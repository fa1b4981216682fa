"""The offset that may be committed."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from gearshift.delivery.assignment import OffsetTracker
from tests.support import eventually


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[int], list[tuple[str, int]]]:
    """A start, offsets with gaps as after compaction, and an order in which they begin and finish."""
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


@given(histories())
def test_the_position_is_the_lowest_unfinished_record_and_never_moves_back(
    history: tuple[int, list[int], list[tuple[str, int]]],
) -> None:
    start, offsets, steps = history
    tracker = OffsetTracker(start)
    begun: set[int] = set()
    finished: set[int] = set()
    before = tracker.position
    for step, offset in steps:
        if step == "begin":
            tracker.begin([offset])
            begun.add(offset)
        else:
            tracker.finish(offset)
            finished.add(offset)
        unfinished = begun - finished
        assert tracker.unfinished == len(unfinished)
        assert all(tracker.position <= each for each in unfinished)
        assert all(each < tracker.position for each in finished if all(each < other for other in unfinished))
        assert before <= tracker.position
        before = tracker.position
    assert tracker.position == (offsets[-1] + 1 if offsets else start)


@given(st.permutations(range(8)), st.integers(1, 5), st.integers(8, 20))
def test_deleted_records_are_passed_when_those_before_them_are_finished(
    order: list[int], taken: int, oldest: int
) -> None:
    tracker = OffsetTracker(0)
    tracker.begin(range(8))
    finished: set[int] = set()
    for number, offset in enumerate(order):
        if number == taken:
            assert tracker.skip_to(oldest) == oldest - 8
            tracker.begin([oldest])
        before = tracker.position
        tracker.finish(offset)
        finished.add(offset)
        left = set(range(8)) - finished
        assert before <= tracker.position <= min(left, default=oldest)
    assert tracker.position == oldest
    tracker.finish(oldest)
    assert tracker.position == oldest + 1


def test_nothing_is_skipped_when_nothing_was_deleted() -> None:
    tracker = OffsetTracker(5)
    assert tracker.skip_to(3) == 0
    assert tracker.position == 5
    assert tracker.skip_to(5) == 0
    assert tracker.skip_to(9) == 4
    assert tracker.position == 9
    tracker.begin([9])
    tracker.finish(9)
    assert tracker.position == 10


def test_undone_records_are_finished_again() -> None:
    tracker = OffsetTracker(0)
    tracker.begin(range(5))
    tracker.finish(0, 1, 3)
    tracker.undo([1, 2, 3, 4])
    assert tracker.position == 1
    tracker.finish(4, 3, 2, 1)
    assert tracker.position == 5
    assert tracker.unfinished == 0


def test_no_work_begins_after_release_and_running_work_is_awaited() -> None:
    tracker = OffsetTracker(0)
    assert tracker.enter()
    tracker.release()
    assert not tracker.enter()
    assert not tracker.await_idle(0.01)
    threading.Timer(0.05, tracker.leave).start()
    assert tracker.await_idle(5)


def test_release_ends_a_wait() -> None:
    tracker = OffsetTracker(0)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(tracker.wait(60)))
    waiting.start()
    tracker.release()
    waiting.join(5)
    assert eventually(lambda: answers, within=1) == [False]
    assert OffsetTracker(0).wait(0.01)
