"""Deliveries on a real broker, through their own consumers and through the runner."""

from __future__ import annotations

import json
import os
import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

import gearshift as gs
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.console.metrics import render
from gearshift.delivery.worker import Worker
from gearshift.destinations import Sms, SmsMessage, Webhook
from gearshift.errors import DeliveryError
from gearshift.runner.deliveries.standalone import Deliveries
from gearshift.runner.loading import load_app
from gearshift.schemas import Decoder, Registry
from gearshift.settings import Settings, load
from gearshift.stack.processes.service import Pid
from gearshift.topics import Admin, ConsumedRecord, Marks, Producer, read
from gearshift.topics.dead_letters.replay import replay
from tests.command import Command
from tests.gateways import HttpGateway
from tests.support import eventually, librdkafka


@dataclass
class Event:
    key: str
    n: int


@dataclass
class World:
    """An app with one topic, its producer, and what its handlers saw."""

    app: gs.App
    events: gs.Topic
    connection: Connection

    def send(self, numbers: range, keys: int = 5) -> None:
        with Producer(self.connection) as producer:
            for n in numbers:
                producer.send(self.events, self.events.value(f"k{n % keys}", n))

    @contextmanager
    def running(self, *names: str, **options: Any) -> Iterator[list[Worker]]:
        """Consumers of these deliveries, one each; they end in order."""
        workers = [
            Worker(self.app.graph.deliveries[name], self.app.name, self.connection, **options)
            for name in names
        ]
        failures: list[BaseException] = []

        def run(worker: Worker) -> None:
            try:
                worker.run()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        try:
            yield workers
        finally:
            for worker in workers:
                worker.stop()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()
        if failures:
            raise failures[0]


@pytest.fixture
def world(connection: Connection, unique: str) -> World:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=3)
    _create(connection, events)
    return World(app, events, connection)


def _create(connection: Connection, *topics: gs.Topic) -> None:
    with Admin(connection) as admin, Registry(connection) as registry:
        admin.ensure(topics)
        for topic in topics:
            registry.register(topic)


def _committed(world: World, group_id: str) -> int:
    with Admin(world.connection) as admin:
        return sum(admin.group_offsets(group_id, [world.events.name]).values())


def _in_order(seen: list[tuple[str, int]]) -> bool:
    last: dict[str, int] = {}
    for key, n in seen:
        if n <= last.get(key, -1):
            return False
        last[key] = n
    return True


def _numbers(world: World, topic: gs.Topic) -> list[int]:
    with Registry(world.connection) as registry:
        decode = Decoder(topic, registry)
        return [decode(record.value).n for record in read(world.connection, topic.name)]


def _decoded(world: World) -> list[tuple[ConsumedRecord, Event]]:
    with Registry(world.connection) as registry:
        decode = Decoder(world.events, registry)
        return [(record, decode(record.value)) for record in read(world.connection, world.events.name)]


@pytest.mark.parametrize("commit", ["sync", "async"])
def test_every_record_reaches_plain_list_and_async_handlers_in_order(world: World, commit: str) -> None:
    seen: dict[str, list[tuple[str, int]]] = {"one": [], "many": [], "later": []}

    @world.app.delivery(world.events, group_id=f"{world.app.name}-1", commit=commit)
    def one(record: gs.Record[Event]) -> None:
        seen["one"].append((record.value.key, record.value.n))

    @world.app.delivery(world.events, group_id=f"{world.app.name}-2", commit=commit, batch_size=7)
    def many(records: list[gs.Record[Event]]) -> None:
        assert 0 < len(records) <= 7
        assert len({record.partition for record in records}) == 1
        seen["many"].extend((record.value.key, record.value.n) for record in records)

    @world.app.delivery(world.events, group_id=f"{world.app.name}-3", commit=commit, parallelism=4)
    async def later(record: gs.Record[Event]) -> None:
        seen["later"].append((record.value.key, record.value.n))

    world.send(range(200))
    with world.running("one", "many", "later"):
        eventually(lambda: all(len(got) == 200 for got in seen.values()))
    assert all(_in_order(got) for got in seen.values())
    assert all(_committed(world, f"{world.app.name}-{number}") == 200 for number in (1, 2, 3))
    assert all(sorted(n for _, n in got) == list(range(200)) for got in seen.values())


def test_two_consumers_share_a_group_and_a_stopped_one_leaves_nothing_undone(world: World) -> None:
    seen: list[int] = []

    @world.app.delivery(world.events)
    def one(record: gs.Record[Event]) -> None:
        seen.append(record.value.n)

    with world.running("one") as [first]:
        eventually(lambda: len(first.assignment.items()) == 3)
        with world.running("one") as [second]:
            eventually(lambda: first.assignment.items() and second.assignment.items())
            assert not set(first.assignment) & set(second.assignment)
            world.send(range(300))
            eventually(lambda: len(seen) >= 300)
            assert first.counts.delivered
            assert second.counts.delivered
        eventually(lambda: len(first.assignment.items()) == 3)
        world.send(range(300, 400))
        eventually(lambda: len(seen) >= 400)
    assert sorted(seen) == list(range(400))


def test_a_consumer_waits_for_a_broker_that_answers_late(stack: local.Stack, world: World) -> None:
    seen: list[int] = []

    @world.app.delivery(world.events, group_id=world.app.name)
    def late(record: gs.Record[Event]) -> None:
        seen.append(record.value.n)

    world.send(range(10))
    brokers = [service.pid for service in stack.services if service.name.startswith("kafka")]
    assert brokers
    for pid in brokers:
        pid.send(signal.SIGSTOP)
    wakes = [threading.Timer(5, pid.send, [signal.SIGCONT]) for pid in brokers]  # a command waits for 3 s
    for timer in wakes:
        timer.start()
    try:
        with world.running("late"):
            eventually(lambda: len(seen) == 10)
    finally:
        for timer in wakes:
            timer.join()


def test_a_transaction_brings_results_and_offsets_together(world: World, unique: str) -> None:
    doubled = world.app.topic(f"{unique}-doubled", value=Event, key="key", partitions=3)
    _create(world.connection, doubled)

    @world.app.delivery(world.events, to=doubled)
    def double(record: gs.Record[Event]) -> list[Event] | None:
        if record.value.n == 13:
            raise ValueError("unlucky with postgresql://ann:c4n4ry@db and token=c4n4ry")
        return [Event(record.value.key, record.value.n * 2)] if record.value.n % 2 else None

    world.send(range(100))
    with world.running("double") as [worker]:
        eventually(lambda: worker.counts.delivered == 99)
    with Admin(world.connection) as admin:
        admin.await_stable([doubled.name, world.events.dead_letters])
    assert sorted(_numbers(world, doubled)) == [2 * n for n in range(100) if n % 2 and n != 13]
    [letter] = read(world.connection, world.events.dead_letters)
    assert letter.header("__connect.errors.exception.class.name") == b"builtins.ValueError"
    assert b"unlucky" in (letter.header("__connect.errors.exception.stacktrace") or b"")
    assert b"c4n4ry" not in repr(letter.headers).encode()


@dataclass
class Padded:
    key: str
    n: int
    padding: str


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_result_that_its_topic_never_takes_is_set_aside_and_all_others_arrive_once(
    world: World, unique: str, parallelism: int
) -> None:
    copies = world.app.topic(f"{unique}-copies", value=Padded, key="key", partitions=3)
    _create(world.connection, copies)
    limit = ConfigResource(
        ConfigResource.Type.TOPIC,
        copies.name,
        incremental_configs=[
            ConfigEntry("max.message.bytes", "20000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    kafka = AdminClient(librdkafka(world.connection))
    kafka.incremental_alter_configs([limit])[limit].result(30)

    @world.app.delivery(world.events, to=copies, parallelism=parallelism)
    def copy(record: gs.Record[Event]) -> list[Padded]:
        n = record.value.n
        first = Padded(record.value.key, n, "")
        huge = {13: 40_000, 27: 12 << 20}.get(n)
        return [first] if huge is None else [first, Padded(first.key, n, os.urandom(huge // 2).hex())]

    world.send(range(40))
    with world.running("copy") as [worker]:
        eventually(
            lambda: worker.failed or worker.counts.delivered + worker.counts.dead_letters >= 40, within=60
        )
        eventually(lambda: worker.failed or _committed(world, f"{unique}.copy") == 40, within=60)
    with Admin(world.connection) as admin:
        admin.await_stable([copies.name, world.events.dead_letters])
    assert sorted(_numbers(world, copies)) == [n for n in range(40) if n not in (13, 27)]
    letters = list(read(world.connection, world.events.dead_letters))
    assert len(letters) == 2
    assert all(b"max.message.bytes" in (letter.header("gearshift.reason") or b"") for letter in letters)


def test_a_failure_that_passes_is_tried_again_and_one_that_does_not_is_set_aside(world: World) -> None:
    failures = {3: 2, 4: 99}
    seen: list[int] = []

    @world.app.delivery(world.events, retry=gs.Retry(timeout=timedelta(seconds=1)))
    def one(record: gs.Record[Event]) -> None:
        if failures.get(record.value.n, 0) > 0:
            failures[record.value.n] -= 1
            raise ConnectionError("away")
        seen.append(record.value.n)

    world.send(range(10))
    with world.running("one") as [worker]:
        eventually(lambda: worker.counts.delivered == 9 and worker.counts.dead_letters == 1)
    assert sorted(seen) == [n for n in range(10) if n != 4]
    assert worker.counts.retries > 2


def test_a_dead_letter_goes_back_to_the_delivery_that_failed_and_to_no_other(world: World) -> None:
    healed = threading.Event()
    seen: dict[str, list[int]] = {"failing": [], "fine": []}

    @world.app.delivery(world.events, group_id=f"{world.app.name}-failing")
    def failing(record: gs.Record[Event]) -> None:
        if record.value.n % 10 == 0 and not healed.is_set():
            raise ValueError("not yet")
        seen["failing"].append(record.value.n)

    @world.app.delivery(world.events, group_id=f"{world.app.name}-fine")
    def fine(record: gs.Record[Event]) -> None:
        seen["fine"].append(record.value.n)

    world.send(range(50))
    with world.running("failing", "fine") as [first, second]:
        eventually(lambda: first.counts.dead_letters == 5 and len(seen["fine"]) == 50)
        healed.set()
        replayed = [replay(world.connection, world.events.name).letters for _ in range(2)]
        assert replayed == [5, 0]
        eventually(lambda: len(seen["failing"]) == 50)
        eventually(lambda: second.in_flight.records == 0)
    assert Counter(seen["failing"]) == Counter(range(50))
    assert Counter(seen["fine"]) == Counter(range(50))


def test_a_replayed_dead_letter_does_not_come_again_with_a_recreated_topic(world: World) -> None:
    healed = threading.Event()
    seen: list[int] = []

    @world.app.delivery(world.events, commit="async")
    def failing(record: gs.Record[Event]) -> None:
        if record.value.n == 7 and not healed.is_set():
            raise ValueError("not yet")
        seen.append(record.value.n)

    world.send(range(20))
    with world.running("failing") as [worker]:
        eventually(lambda: len(seen) == 19 and worker.counts.dead_letters == 1)
        healed.set()
        assert replay(world.connection, world.events.name).letters == 1
        eventually(lambda: len(seen) == 20)
        with Admin(world.connection) as admin:
            admin.delete([world.events.name])
            admin.ensure([world.events])
        world.send(range(20, 100))
        eventually(lambda: len(seen) >= 100)
    world.send(range(100, 110))
    with world.running("failing"):
        eventually(lambda: len(seen) >= 110)
    assert sorted(seen) == [*range(110)]


def test_an_idempotency_key_is_of_one_delivery_and_the_same_after_a_replay(world: World) -> None:
    with HttpGateway(deduplicate=True) as receiver:
        hook = Webhook(receiver.url)

        @world.app.delivery(world.events, group_id=f"{world.app.name}-first", to=hook)
        def first(record: gs.Record[Event]) -> dict[str, object]:
            return {"by": "first", "n": record.value.n}

        @world.app.delivery(
            world.events, group_id=f"{world.app.name}-second", to=Webhook(receiver.url), once_by="key"
        )
        def second(record: gs.Record[Event]) -> dict[str, object]:
            return {"by": "second", "n": record.value.n}

        @world.app.delivery(
            world.events, group_id=f"{world.app.name}-third", to=Webhook(receiver.url), once_by="key"
        )
        def third(record: gs.Record[Event]) -> dict[str, object]:
            return {"by": "third", "n": record.value.n}

        world.send(range(10), keys=10)
        receiver.fail(status=400)  # whichever comes first is set aside, and replayed
        with world.running("first", "second", "third") as workers:
            eventually(lambda: sum(w.counts.delivered + w.counts.dead_letters for w in workers) == 30)
            assert replay(world.connection, world.events.name).letters == 1
            eventually(lambda: sum(w.counts.delivered for w in workers) == 30)
        assert sorted((request.json["by"], request.json["n"]) for request in receiver.accepted) == [
            (by, n) for by in ("first", "second", "third") for n in range(10)
        ]
        [refused] = [request for request in receiver.requests if request.status == 400]
        [again] = [request for request in receiver.accepted if request.body == refused.body]
        assert again.key == refused.key


def test_a_text_without_an_answer_is_not_sent_for_five_minutes(world: World) -> None:
    """The provider took each of them: where it ignores the key every try is a text."""
    with HttpGateway(accounts={"AC1": "t"}) as provider, HttpGateway(accounts={"AC1": "t"}) as careful:

        def sms(gateway: HttpGateway, *, idempotent: bool) -> Sms:
            return Sms(
                account="AC1",
                token="t",
                sender="+15005550006",
                url=gateway.url,
                timeout=timedelta(seconds=0.3),
                idempotent=idempotent,
            )

        def texts(record: gs.Record[Event]) -> list[SmsMessage]:
            return [SmsMessage("+31612345678", "one"), SmsMessage("+31612345678", "two")]

        @world.app.delivery(
            world.events, group_id=f"{world.app.name}-plain", to=sms(provider, idempotent=False)
        )
        def plain(record: gs.Record[Event]) -> list[SmsMessage]:
            return texts(record)

        @world.app.delivery(world.events, group_id=f"{world.app.name}-safe", to=sms(careful, idempotent=True))
        def safe(record: gs.Record[Event]) -> list[SmsMessage]:
            return texts(record)

        provider.be_slow(timedelta(seconds=1), after=1)
        careful.be_slow(timedelta(seconds=1), after=1)
        world.send(range(1))
        with world.running("plain", "safe") as [first, second]:
            eventually(lambda: first.counts.dead_letters == 1 and second.counts.retries >= 4)
            careful.be_slow(timedelta(0))
            eventually(lambda: second.counts.delivered == 1)
        assert [request.form["Body"] for request in provider.requests].count("one") == 1
        assert [request.form["Body"] for request in provider.requests].count("two") <= 3
        assert [request.form["Body"] for request in careful.requests].count("one") == 1
        [letter] = read(world.connection, world.events.dead_letters)
        assert b"it may have been delivered" in (letter.header("__connect.errors.exception.message") or b"")


def test_a_partition_waits_for_its_marks_and_no_other_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    @world.app.delivery(world.events, group_id=world.app.name, once_by=("key", "n"))
    def once(record: gs.Record[Event]) -> None:
        seen.append((record.partition, record.value.n))

    world.send(range(30))
    with world.running("once") as [worker]:
        eventually(lambda: worker.counts.delivered == 30)
    are_read, read_marks = threading.Event(), Marks.read

    def slowly(marks: Marks, partition: int, *rest: Any, **more: Any) -> Any:
        if partition == 0:
            are_read.wait(60)
        yield from read_marks(marks, partition, *rest, **more)

    monkeypatch.setattr(Marks, "read", slowly)
    world.send(range(60))
    expected = {(record.partition, decoded.n) for record, decoded in _decoded(world) if decoded.n >= 30}
    elsewhere = {place for place in expected if place[0] != 0}
    assert elsewhere != expected
    with world.running("once") as [worker]:
        eventually(lambda: len(seen) == 30 + len(elsewhere), within=20)
        assert set(seen[30:]) == elsewhere
        are_read.set()
        eventually(lambda: len(seen) == 60 and worker.counts.duplicates == 30)
    assert set(seen[30:]) == expected


def test_a_group_without_offsets_starts_where_it_says(world: World) -> None:
    seen: list[int] = []

    @world.app.delivery(world.events, group_id=f"{world.app.name}-late", start="latest")
    def late(record: gs.Record[Event]) -> None:
        seen.append(record.value.n)

    @world.app.delivery(world.events, group_id=f"{world.app.name}-strict", start="error")
    def strict(record: gs.Record[Event]) -> None: ...

    world.send(range(10))
    with world.running("late") as [worker]:
        eventually(lambda: len(worker.assignment.items()) == 3)
        world.send(range(10, 20))
        eventually(lambda: len(seen) >= 10)
    assert sorted(seen) == list(range(10, 20))
    with pytest.raises(DeliveryError, match="has no committed offset"), world.running("strict") as [it]:
        eventually(lambda: it.failed)


def test_an_older_broker_gets_the_classic_protocol(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gearshift.stack.services import kafka

    properties = kafka.Kafka._properties  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        kafka.Kafka,
        "_properties",
        lambda *args: properties(*args) + "group.coordinator.rebalance.protocols=classic\n",
    )
    seen: list[int] = []
    with local.up(load({"home": tmp_path / "classic"}, environ={})) as stack:
        app = gs.App(unique)
        events = app.topic("events", value=Event, key="key", partitions=3)
        _create(stack.connection, events)
        world = World(app, events, stack.connection)

        @app.delivery(events, commit="async")
        def one(record: gs.Record[Event]) -> None:
            seen.append(record.value.n)

        world.send(range(50))
        with world.running("one") as [first]:
            eventually(lambda: len(seen) == 50)
            with world.running("one") as [second]:
                eventually(lambda: first.assignment.items() and second.assignment.items())
                world.send(range(50, 100))
                eventually(lambda: len(seen) >= 100)
                # This protocol knows topics by their names only: it does not say that one was created again.
                with Admin(stack.connection) as admin:
                    admin.delete(["events"])
                    admin.ensure([events])
                world.send(range(100, 600))
                eventually(lambda: len(seen) >= 600)
    assert sorted(seen) == list(range(600))


def test_a_log_that_lost_its_end_is_read_on_from_there_and_not_from_the_beginning(
    tmp_path: Path, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As after an unclean leader election, made by cutting the broker's file while it is down."""
    seen: dict[str, list[int]] = {"stays": [], "returns": []}
    with local.up(load({"home": tmp_path / "cut"}, environ={})) as stack:
        app = gs.App(unique)
        events = app.topic(unique, value=Event, key="key", partitions=1)
        _create(stack.connection, events)
        world = World(app, events, stack.connection)

        @app.delivery(events, group_id=f"{unique}-stays", commit="async")
        def stays(record: gs.Record[Event]) -> None:
            seen["stays"].append(record.value.n)

        @app.delivery(events, group_id=f"{unique}-returns")
        def returns(record: gs.Record[Event]) -> None:
            seen["returns"].append(record.value.n)

        world.send(range(95))
        [log] = (tmp_path / "cut").rglob(f"{unique}-0/00000000000000000000.log")
        kept = log.stat().st_size
        world.send(range(95, 100))
        with world.running("returns"):
            eventually(lambda: len(seen["returns"]) == 100)
        with world.running("stays"):
            eventually(lambda: _committed(world, f"{unique}-stays") == 100)
            broker = next(service for service in stack.services if service.name.startswith("kafka"))
            broker.pid.send(signal.SIGKILL)
            eventually(stack.dead)
            os.truncate(log, kept)
            stack.start_service(broker.name)
            with world.running("returns"):
                eventually(lambda: caplog.text.count("was truncated to offset 95") == 2)
                world.send(range(200, 210))
                eventually(lambda: all(got[-1] == 209 for got in seen.values()))
    assert all(got == [*range(100), *range(200, 210)] for got in seen.values()), seen


APP = """
from dataclasses import dataclass
import os
import time

import gearshift as gs


@dataclass
class Event:
    key: str
    n: int


app = gs.App("{name}")
events = app.topic("{name}-events", value=Event, key="key", partitions=3)


@app.delivery(events, group_id="{name}-writer", commit="async", consumers=(1, 3))
def write(record: gs.Record[Event]) -> None:
    with open("{out}", "a") as out:
        out.write(f"{{os.getpid()}},{{record.value.n}}\\n")
    time.sleep(0.02)
"""


def test_processes_are_added_by_lag_and_one_that_is_killed_is_replaced(
    settings: Settings, connection: Connection, unique: str, tmp_path: Path
) -> None:
    out, file = tmp_path / "out.csv", tmp_path / "app.py"
    file.write_text(APP.format(name=unique, out=out), encoding="utf-8")
    app = load_app(file)
    world = World(app, app.graph.topics[f"{unique}-events"], connection)
    _create(connection, world.events)
    world.send(range(3000), keys=50)

    def lines() -> list[list[str]]:
        return [line.split(",") for line in out.read_text().splitlines()] if out.exists() else []

    said: list[str] = []
    with Deliveries(app, settings, file=file, progress=said.append) as running:
        group = running.consumer_groups["write"]
        eventually(lambda: len(lines()) > 20)
        eventually(lambda: len(group.status()["pids"]) >= 2)
        os.kill(group.status()["pids"][0], signal.SIGKILL)
        eventually(lambda: group.status()["restarts"] == 1)
        eventually(lambda: {n for _, n in lines()} == {str(n) for n in range(3000)})
        eventually(lambda: sum(group.status()["lag"].values()) == 0)
        assert "kafka_consumergroup_lag" in render(running.status())
        assert f'consumergroup="{unique}-writer"' in render(running.status())
        pids = [Pid.of(each) for each in group.status()["pids"]]
    assert not any(each and each.alive for each in pids)
    again = len(lines()) - 3000
    assert again <= 600  # what the killed one had done since its last commit, half a second before
    assert len({pid for pid, _ in lines()}) >= 3


def test_a_runner_shows_its_deliveries_and_serves_their_metrics(
    connection: Connection, unique: str, tmp_path: Path
) -> None:
    out, file = tmp_path / "out.csv", tmp_path / "app.py"
    file.write_text(APP.format(name=unique, out=out), encoding="utf-8")
    command = Command(connection, tmp_path)
    process = command.start("run", str(file))
    try:
        runner = eventually(lambda: command.data("status")["runner"], every=0.5)
        app = load_app(file)
        World(app, app.graph.topics[f"{unique}-events"], connection).send(range(50))

        def delivered() -> bool:
            [entry] = command.data("status")["runner"]["deliveries"]
            return entry["delivered"] == 50 and sum(entry["lag"].values()) == 0

        eventually(delivered, every=0.5)
        assert "write" in command("status").stdout
        with urllib.request.urlopen(runner["metrics"], timeout=10) as answer:
            text = answer.read().decode()
        assert (
            f'gearshift_delivery_records_total{{app="{unique}"' in text
            or "gearshift_delivery_records" in text
        )
        assert json.dumps(50)[:2] in text
    finally:
        process.terminate()
        said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, said + errors
    assert "Traceback" not in errors


def test_bad_use_fails_at_check_with_its_line(connection: Connection, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    text = APP.format(name="bad", out="x").replace("consumers=(1, 3)", 'once_by=("key", "when")')
    file.write_text(text, encoding="utf-8")
    said = Command(connection, tmp_path).refusal("check", str(file), code=2)
    line = next(n for n, words in enumerate(text.splitlines(), 1) if words.startswith("@app.delivery"))
    assert "once_by='when'" in said
    assert f"app.py:{line}" in said


def test_only_the_deliveries_run_without_spark(connection: Connection, unique: str, tmp_path: Path) -> None:
    out, file = tmp_path / "out.csv", tmp_path / "app.py"
    file.write_text(APP.format(name=unique, out=out), encoding="utf-8")
    command = Command(connection, tmp_path)
    process = command.start("run", str(file), "--deliveries-only")
    try:
        app = load_app(file)
        world = World(app, app.graph.topics[f"{unique}-events"], connection)
        _create(connection, world.events)
        world.send(range(20))
        eventually(lambda: out.exists() and len(out.read_text().splitlines()) == 20)
        assert not (tmp_path / ".gearshift" / "logs" / "spark.log").exists()
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
