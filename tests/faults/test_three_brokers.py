"""Three brokers, one of them killed under load: the pipelines go on in the same query, and nothing is lost."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from gearshift import stack as local
from gearshift.errors import BrokerUnreachableError
from gearshift.freshness import Gear
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner.runner import Runner
from gearshift.settings import load
from gearshift.topics import Admin
from tests.faults.apps import CopyAndCount, copy_and_count
from tests.flow import Flow, highest_counts, seen_twice, values
from tests.support import cluster, eventually, librdkafka

BATCH, NEAR, REAL = Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME


@pytest.fixture
def three(tmp_path: Path) -> Iterator[local.Stack]:
    """A stack of its own with three brokers."""
    with local.up(load({"home": tmp_path / "three", "brokers": 3}, environ={})) as running:
        yield running


def test_the_death_of_a_leader_stops_no_query_and_loses_nothing(
    three: local.Stack, tmp_path: Path, unique: str
) -> None:
    declared = copy_and_count(unique, copy_in="near-real-time", count_in="near-real-time", replicas=3)
    settings = load(
        {
            "home": tmp_path / "home",
            **cluster(three.connection),
            "checkpoint_interval": "5 seconds",
        },
        environ={},
    )
    with Runner(declared.app, settings) as runner, ExitStack() as flowing:
        flow = flowing.enter_context(Flow(three.connection, declared.events, rate=200))
        for gear in (NEAR, REAL):
            for name in ("copy", "count"):
                runner.shift(name, gear)
            _wait_for_commits(runner, 1)
            before = _run_ids(runner)
            broker = _leader_of_all(three, declared)
            os.kill(next(s.pid.number for s in three.services if s.name == broker), signal.SIGKILL)
            _wait_for_new_leaders(three, declared, broker)
            _wait_for_copies(three, declared, flow.sent + 200)
            _wait_for_commits(runner, 2)
            assert _run_ids(runner) == before, f"a query was restarted in {gear}"
            three.start_service(broker)
            _wait_for_all_replicas(three, declared)
        assert all(supervisor.condition.restarts == 0 for supervisor in runner.supervisors.values())
        flowing.close()
        for name in ("copy", "count"):
            runner.shift(name, BATCH)
        copied = values(three.connection, declared.copies)
        assert {event.n for event in copied} == set(range(flow.sent))
        assert sum(highest_counts(values(three.connection, declared.counts)).values()) == flow.sent
        ledgers = {name: supervisor.ledger for name, supervisor in runner.supervisors.items()}
        assert seen_twice(copied) == ledgers["copy"].replayed
        for ledger in ledgers.values():
            assert ledger.gap == 0
            assert sum(run.records for run in ledger.runs) == flow.sent


def _run_ids(runner: Runner) -> dict[str, str]:
    return {
        name: str(supervisor.query.runId)
        for name, supervisor in runner.supervisors.items()
        if supervisor.query
    }


def _wait_for_commits(runner: Runner, count: int) -> None:
    """Wait until each query has reported so many more batches."""
    for supervisor in runner.supervisors.values():
        latest = supervisor.condition.progress
        after = latest.batch_id if latest else -1

        def reported(supervisor: Supervisor = supervisor, after: int = after) -> bool:
            assert supervisor.query is not None and supervisor.query.isActive, supervisor.condition.error
            latest = supervisor.condition.progress
            return latest is not None and latest.batch_id >= after + count

        eventually(reported)


def _wait_for_copies(stack: local.Stack, declared: CopyAndCount, count: int) -> None:
    def copied() -> bool:
        try:
            with Admin(stack.connection) as admin:
                return sum(admin.end_offsets([declared.copies.name]).values()) >= count
        except BrokerUnreachableError:  # the brokers have yet to find a new leader
            return False

    eventually(copied, every=0.5)


def _leader_of_all(stack: local.Stack, declared: CopyAndCount) -> str:
    """A broker that leads a partition of the source and of each target."""
    leaders = eventually(lambda: _partitions(stack, declared), every=0.5)
    shared = set[int].intersection(*({each.leader.id for each in partitions} for partitions in leaders))
    assert shared, leaders
    return f"kafka-{min(shared)}"


def _wait_for_new_leaders(stack: local.Stack, declared: CopyAndCount, dead: str) -> None:
    gone = {int(dead.removeprefix("kafka-")), -1}

    def moved() -> bool:
        topics = _partitions(stack, declared)
        return bool(topics) and all(
            each.leader and each.leader.id not in gone for partitions in topics for each in partitions
        )

    eventually(moved, every=0.5)


def _wait_for_all_replicas(stack: local.Stack, declared: CopyAndCount) -> None:
    def whole() -> bool:
        topics = _partitions(stack, declared)
        return bool(topics) and all(len(each.isr) == 3 for partitions in topics for each in partitions)

    eventually(whole, every=0.5)


def _partitions(stack: local.Stack, declared: CopyAndCount) -> list[list[Any]]:
    """The partitions of each topic; none while no broker can tell."""
    names = [topic.name for topic in (declared.events, declared.copies, declared.counts)]
    silent = logging.getLogger("tests.brokers")
    admin = AdminClient(librdkafka(stack.connection), logger=silent)
    try:
        asked = admin.describe_topics(TopicCollection(names), request_timeout=5)
        return [asked[name].result().partitions for name in names]
    except KafkaException:
        return []
