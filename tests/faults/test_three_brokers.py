"""Three brokers, one of them killed under load: the pipelines go on in the same query, and nothing is lost."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from gearshift import stack as local
from gearshift.errors import BrokerUnreachableError
from gearshift.freshness import Gear
from gearshift.pipelines.driver import Driver
from gearshift.runner.runner import Runner
from gearshift.settings import load
from gearshift.topics import Admin
from tests.faults.apps import BATCH, EVERY_GEAR, Pipelines, copies_and_counts
from tests.flow import Flow, highest_counts, seen_twice, values
from tests.support import eventually

_WITHIN = 120


@pytest.fixture
def three(tmp_path: Path) -> Iterator[local.Stack]:
    """A stack of its own with three brokers."""
    with local.up(load({"home": tmp_path / "three", "brokers": 3}, environ={})) as running:
        yield running


@pytest.mark.timeout(480)
def test_the_death_of_a_leader_stops_no_query_in_any_gear_and_loses_nothing(
    three: local.Stack, tmp_path: Path, unique: str
) -> None:
    declared = copies_and_counts(unique, EVERY_GEAR, replicas=3)
    settings = load(
        {
            "home": tmp_path / "home",
            "bootstrap_servers": three.bootstrap_servers,
            "registry_url": three.registry_url,
            "checkpoint_interval": "5 seconds",
        },
        environ={},
    )
    with Runner(declared.app, settings) as runner, ExitStack() as flowing:
        flow = flowing.enter_context(Flow(three.connection, declared.events, rate=500))
        with batches_all_the_time(runner):
            wait_until_written(three, declared, dict.fromkeys(EVERY_GEAR, 1))
            running = run_ids(runner)
            broker = leader_of_all(three, declared)
            os.kill(next(s.pid.number for s in three.services if s.name == broker), signal.SIGKILL)
            wait_for_new_leaders(three, declared, broker)
            copies = {name: flow.sent + 500 for name in EVERY_GEAR if name.startswith("copy_")}
            wait_until_written(three, declared, copies)
            wait_for_reports(runner, 2)
        assert run_ids(runner) == running, "a query was restarted"
        assert all(driver.condition.restarts == 0 for driver in runner.drivers.values())
        flowing.close()
        with ThreadPoolExecutor(len(EVERY_GEAR)) as pool:
            list(pool.map(lambda name: runner.shift(name, Gear.BATCH), EVERY_GEAR))
        for name, driver in runner.drivers.items():
            ledger = driver.books.ledger
            assert [stretch.error for stretch in ledger.stretches if stretch.error] == [], name
            assert ledger.gap == 0, name
            assert sum(stretch.records for stretch in ledger.stretches) == flow.sent, name
            written = values(three.connection, declared.targets[name])
            if name.startswith("copy_"):
                assert {event.n for event in written} == set(range(flow.sent)), name
                assert seen_twice(written) == ledger.replayed, name
            else:
                assert sum(highest_counts(written).values()) == flow.sent, name


@contextmanager
def batches_all_the_time(runner: Runner) -> Iterator[None]:
    """Run the pipelines in batch again and again, so that a fault meets them at work."""
    stopping = threading.Event()

    def run(name: str) -> None:
        while not stopping.wait(0.2):
            with suppress(BrokerUnreachableError):  # it is refused before it begins
                runner.shift(name, Gear.BATCH)

    in_batch = [name for name, gear in EVERY_GEAR.items() if gear == BATCH]
    with ThreadPoolExecutor(len(in_batch)) as pool:
        running = [pool.submit(run, name) for name in in_batch]
        try:
            yield
        finally:
            stopping.set()
    for each in running:
        each.result()


def run_ids(runner: Runner) -> dict[str, str]:
    """What Spark calls the run of each query that does not end by itself."""
    return {
        name: str(driver.query.runId)
        for name, driver in runner.drivers.items()
        if driver.query is not None and driver.gear is not Gear.BATCH
    }


def wait_for_reports(runner: Runner, count: int) -> None:
    """Wait until each query has reported so many more batches."""
    for driver in runner.drivers.values():
        latest = driver.condition.progress
        after = latest.batch_id if latest else -1

        def reported(driver: Driver = driver, after: int = after) -> bool:
            latest = driver.condition.progress
            return latest is not None and latest.batch_id >= after + count

        eventually(reported, within=_WITHIN)


def wait_until_written(stack: local.Stack, declared: Pipelines, counts: Mapping[str, int]) -> None:
    """Wait until so many records of each pipeline are on its target."""
    wanted = {declared.targets[name].name: count for name, count in counts.items()}

    def written() -> bool:
        found = dict.fromkeys(wanted, 0)
        try:
            with Admin(stack.connection) as admin:
                for (topic, _), end in admin.end_offsets(wanted).items():
                    found[topic] += end
        except BrokerUnreachableError:  # the brokers have yet to find a new leader
            return False
        return all(found[topic] >= count for topic, count in wanted.items())

    eventually(written, within=_WITHIN)


def leader_of_all(stack: local.Stack, declared: Pipelines) -> str:
    """A broker that leads a partition of the source and of each target."""
    topics = eventually(lambda: partitions(stack, declared), within=_WITHIN)
    shared = set[int].intersection(*({each.leader.id for each in topic} for topic in topics))
    assert shared, topics
    return f"kafka-{min(shared)}"


def wait_for_new_leaders(stack: local.Stack, declared: Pipelines, dead: str) -> None:
    """Wait until every partition is led by a broker that lives."""
    gone = {int(dead.removeprefix("kafka-")), -1}

    def moved() -> bool:
        topics = partitions(stack, declared)
        return bool(topics) and all(
            each.leader and each.leader.id not in gone for topic in topics for each in topic
        )

    eventually(moved, within=_WITHIN)


def partitions(stack: local.Stack, declared: Pipelines) -> list[list[Any]]:
    """The partitions of each topic; none while no broker can tell."""
    names = [topic.name for topic in (declared.events, *declared.targets.values())]
    silent = logging.getLogger("tests.brokers")
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers}, logger=silent)
    try:
        asked = admin.describe_topics(TopicCollection(names), request_timeout=5)
        return [asked[name].result().partitions for name in names]
    except KafkaException:
        return []
