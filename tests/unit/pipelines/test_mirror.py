"""Offsets in a pipeline's consumer group: committed after each batch, and again while Kafka does not answer."""

from __future__ import annotations

import logging

import pytest

from gearshift.errors import BrokerUnreachableError, SettingsError
from gearshift.pipelines.ledger.mirror import Mirror


class Group:
    """A consumer group whose coordinator answers when it is told to."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.commits = 0

    def commit(self) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.commits += 1


def absent() -> BrokerUnreachableError:
    return BrokerUnreachableError("no broker coordinates the group yet")


def test_the_first_commit_is_tried_again_until_the_coordinator_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = Group(absent(), absent())
    mirror = Mirror("alerts", group.commit, again_after=0)
    for commits in (0, 0, 1):
        assert mirror.is_due(7, closing=False)
        mirror.commit(7, closing=False)
        assert (group.commits, mirror.due is None) == (commits, commits == 1)
    assert mirror.is_due(8, closing=False) and not mirror.is_due(7, closing=True)
    assert not caplog.records


def test_it_waits_before_it_tries_again_unless_the_app_stops() -> None:
    mirror = Mirror("alerts", Group(absent()).commit, again_after=60)
    mirror.commit(7, closing=False)
    assert not mirror.is_due(7, closing=False) and mirror.is_due(7, closing=True)


def test_an_outage_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    mirror = Mirror("alerts", Group(*(absent() for _ in range(20))).commit)
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            mirror.commit(1, closing=False)
    assert caplog.messages == ["alerts: offsets not mirrored: no broker coordinates the group yet"]


def test_a_permanent_failure_and_the_last_try_are_reported_and_not_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mirror = Mirror("alerts", Group(SettingsError("access denied"), absent()).commit)
    for newest, closing in ((1, False), (2, True)):
        mirror.commit(newest, closing=closing)
        assert not mirror.is_due(newest, closing=closing)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
