"""Three brokers, of which one is killed under load: a leader of what is read, and coordinator of its group."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from gearshift import stack as local
from gearshift.settings import load
from gearshift.topics.client import LOG
from tests.faults.deliveries.bench import Bench
from tests.support import eventually, librdkafka


@pytest.fixture
def three(tmp_path: Path) -> Iterator[local.Stack]:
    """A stack of its own with three brokers."""
    with local.up(load({"home": tmp_path / "three", "brokers": 3}, environ={})) as running:
        yield running


def test_the_death_of_a_leader_and_of_a_coordinator_loses_nothing(
    three: local.Stack, tmp_path: Path, unique: str
) -> None:
    each = {"replicas": 3, "partitions": 3, "in_flight": 500}
    waits = Bench(three.connection, tmp_path, f"{unique}-sync", **each)
    goes_on = Bench(three.connection, tmp_path, f"{unique}-async", commit="async", parallelism=4, **each)
    copies = Bench(three.connection, tmp_path, f"{unique}-topic", to="topic", **each)
    with waits, goes_on, copies:
        benches = (waits, goes_on, copies)
        for bench in benches:
            bench.start()
        with waits.sending(100), goes_on.sending(100), copies.sending(100):
            for bench in benches:
                bench.await_delivered(100)
            # A transaction's offsets find their way to the coordinator by another path.
            _outlive(three, benches, coordinator_of=copies)
            _outlive(three, benches, coordinator_of=waits)
        for bench in benches:
            bench.await_all()
            bench.await_committed()
            assert len(bench.members) == 1 and bench.members[0].alive, "it was started once"
        verdicts = {
            "sync": waits.verdict(),
            "async": goes_on.verdict(),
            "to a topic": copies.verdict(copies.copies()),
        }
    for name, verdict in verdicts.items():
        print(f"leader and coordinator killed, {name}: {verdict}")
        assert (verdict.lost, verdict.out_of_order) == (0, 0), name
    assert verdicts["to a topic"].duplicated == 0


def _outlive(stack: local.Stack, benches: Sequence[Bench], coordinator_of: Bench) -> None:
    """Kill a group's coordinator, which leads partitions too, go on without it, and start it again."""
    broker = eventually(lambda: _coordinator(stack, coordinator_of.name), every=0.5)
    assert broker in {_leader(each) for bench in benches for each in _partitions(stack, bench.name)}
    os.kill(next(s.pid.number for s in stack.services if s.name == broker), signal.SIGKILL)
    _await_more(benches)
    stack.start_service(broker)
    eventually(lambda: _whole(stack, [bench.name for bench in benches]), every=0.5)
    _await_more(benches)


def _await_more(benches: Iterable[Bench]) -> None:
    """Wait until records were delivered that were sent after the kill, which a second's worth of them surely was."""
    for bench in benches:
        # A transaction that loses its coordinator may have to time out, which takes a minute.
        bench.await_delivered(bench.sent.total() + 100)


def _admin(stack: local.Stack) -> AdminClient:
    return AdminClient(librdkafka(stack.connection), logger=LOG)


def _leader(partition: Any) -> str | None:
    return f"kafka-{partition.leader.id}" if partition.leader else None


def _coordinator(stack: local.Stack, group_id: str) -> str | None:
    admin = _admin(stack)  # held until it has answered
    try:
        group = admin.describe_consumer_groups([group_id], request_timeout=5)[group_id].result()
    except KafkaException:
        return None
    return f"kafka-{group.coordinator.id}"


def _whole(stack: local.Stack, topics: list[str]) -> bool:
    found = [_partitions(stack, topic) for topic in topics]
    return all(found) and all(len(each.isr) == 3 for partitions in found for each in partitions)


def _partitions(stack: local.Stack, topic: str) -> list[Any]:
    """The partitions of a topic; none while no broker can tell."""
    admin = _admin(stack)
    try:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=5)
        return asked[topic].result().partitions
    except KafkaException:
        return []
