"""What is committed, and when."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gearshift.delivery.holdings import Holdings
from gearshift.errors import RetriableError

PLACE = ("readings", 0)


class Group:
    """Takes commits, or not."""

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
def holdings() -> Holdings:
    holdings = Holdings()
    holdings.add(PLACE, 0, None)
    holdings.get(PLACE).begin(range(10))  # pyright: ignore[reportOptionalMemberAccess]
    return holdings


def finish(holdings: Holdings, *offsets: int) -> None:
    progress = holdings.get(PLACE)
    assert progress is not None
    progress.finish(*offsets)


def test_what_was_finished_after_it_was_due_waits_for_the_next_commit(
    holdings: Holdings, group: Group
) -> None:
    finish(holdings, 0, 1)
    due = holdings.due()
    finish(holdings, 2)  # written after the flush that makes what was due safe
    holdings.commit(group, due)
    assert group.commits == [{PLACE: 2}]
    holdings.commit(group, holdings.due())
    assert group.commits[-1] == {PLACE: 3}
    assert not holdings.due()


def test_a_commit_that_was_overtaken_is_left_out(holdings: Holdings, group: Group) -> None:
    finish(holdings, 0)
    slow = holdings.due()
    finish(holdings, 1)
    holdings.commit(group, holdings.due())
    holdings.commit(group, slow)
    assert group.commits == [{PLACE: 2}]


def test_a_commit_of_a_former_assignment_is_left_out(holdings: Holdings, group: Group) -> None:
    finish(holdings, 0, 1)
    due = holdings.due()
    holdings.drop([PLACE])
    holdings.commit(group, due)
    holdings.add(PLACE, 7, 7)
    holdings.commit(group, due)
    assert not group.commits


def test_what_could_not_be_committed_is_committed_with_what_comes_next(
    holdings: Holdings, group: Group
) -> None:
    finish(holdings, 0)
    group.fails = True
    with pytest.raises(RetriableError):
        holdings.commit(group, holdings.due())
    group.fails = False
    holdings.commit(group, holdings.due())
    assert group.commits == [{PLACE: 1}]


def test_after_a_commit_that_nobody_waited_for_has_failed_it_is_made_again(
    holdings: Holdings, group: Group
) -> None:
    finish(holdings, 0)
    holdings.commit(group, holdings.due())
    holdings.doubt()
    holdings.commit(group, holdings.due())
    assert group.commits == [{PLACE: 1}, {PLACE: 1}]
    assert not holdings.due()
