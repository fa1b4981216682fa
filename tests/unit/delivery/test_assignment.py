"""Which offsets are committed, and when."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gearshift.delivery.assignment import Assignment
from gearshift.errors import RetriableError

PARTITION = ("readings", 0)


class Group:
    """Accepts commits, or fails."""

    def __init__(self) -> None:
        self.commits: list[Mapping[tuple[str, int], int]] = []
        self.fails = False

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        if self.fails:
            raise RetriableError("not now")
        if offsets:
            self.commits.append(offsets)


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def assignment() -> Assignment:
    assignment = Assignment()
    assignment.add(PARTITION, 0, None)
    assignment.get(PARTITION).begin(range(10))  # pyright: ignore[reportOptionalMemberAccess]
    return assignment


def finish(assignment: Assignment, *offsets: int) -> None:
    tracker = assignment.get(PARTITION)
    assert tracker is not None
    tracker.finish(*offsets)


def test_a_record_finished_after_due_waits_for_the_next_commit(assignment: Assignment, group: Group) -> None:
    finish(assignment, 0, 1)
    due = assignment.due()
    finish(assignment, 2)  # written after the flush that makes the due records durable
    assignment.commit(group, due)
    assert group.commits == [{PARTITION: 2}]
    assignment.commit(group, assignment.due())
    assert group.commits[-1] == {PARTITION: 3}
    assert not assignment.due()


def test_an_overtaken_commit_is_left_out(assignment: Assignment, group: Group) -> None:
    finish(assignment, 0)
    slow = assignment.due()
    finish(assignment, 1)
    assignment.commit(group, assignment.due())
    assignment.commit(group, slow)
    assert group.commits == [{PARTITION: 2}]


def test_a_commit_of_a_former_assignment_is_left_out(assignment: Assignment, group: Group) -> None:
    finish(assignment, 0, 1)
    due = assignment.due()
    assignment.drop([PARTITION])
    assignment.commit(group, due)
    assignment.add(PARTITION, 7, 7)
    assignment.commit(group, due)
    assert not group.commits


def test_a_failed_commit_is_repeated_with_the_next(assignment: Assignment, group: Group) -> None:
    finish(assignment, 0)
    group.fails = True
    with pytest.raises(RetriableError):
        assignment.commit(group, assignment.due())
    group.fails = False
    assignment.commit(group, assignment.due())
    assert group.commits == [{PARTITION: 1}]


def test_a_failed_asynchronous_commit_is_repeated(assignment: Assignment, group: Group) -> None:
    finish(assignment, 0)
    assignment.commit(group, assignment.due())
    assignment.doubt_commits()
    assignment.commit(group, assignment.due())
    assert group.commits == [{PARTITION: 1}, {PARTITION: 1}]
    assert not assignment.due()
