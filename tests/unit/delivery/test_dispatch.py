"""Rounds of records through the lanes, and their commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gearshift as gs
from gearshift.delivery.assignment import OffsetTracker, Piece
from gearshift.delivery.dispatch import Dispatcher, Plan
from gearshift.delivery.in_flight import InFlight
from tests.support import eventually


@dataclass
class Number:
    n: int


class Message:
    """A polled message without a key."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def __len__(self) -> int:
        return 10

    def topic(self) -> str:
        return "numbers"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None


class Consumer:
    """A dispatcher with a handler that finishes every record except those to drop once, and the commits it makes."""

    def __init__(self, *, drops: Iterable[int] = (), **options: Any) -> None:
        app = gs.App("numbers")
        numbers = app.topic("numbers", value=Number, key="n")

        @app.delivery(numbers, commit="sync", **options)
        def handle(record: gs.Record[Number]) -> None: ...

        delivery = app.graph.deliveries["handle"]
        self.tracker = OffsetTracker(0)
        self.in_flight = InFlight(1000, 100_000)
        self.handled: list[int] = []
        self.commits: list[int] = []
        self.failures: list[BaseException] = []
        self._drops = set(drops)
        parts: dict[str, Any] = {
            "membership": SimpleNamespace(fail=self.failures.append),
            "consumer": None,
            "commits": SimpleNamespace(commit=self._commit, join=self._commit),
        }
        handling: Any = SimpleNamespace(run=self._run, batch_size=1)
        plan = Plan(delivery, 1, in_transactions=False, in_flight=1000)
        self.dispatcher = Dispatcher(
            delivery, plan, handling, in_flight=self.in_flight, transactions=None, **parts
        )

    def poll(self, count: int) -> None:
        first = self.tracker.next
        messages: list[Any] = [Message(offset) for offset in range(first, first + count)]
        self.tracker.begin(range(first, first + count))
        self.in_flight.add(count, 10 * count)
        self.dispatcher.dispatch([Piece(self.tracker, messages)])

    def _run(self, tracker: OffsetTracker, messages: list[Any], _until: float) -> tuple[list[Any], list[Any]]:
        for number, message in enumerate(messages):
            if message.offset() in self._drops:
                self._drops.discard(message.offset())
                return [], messages[number:]
            self.handled.append(message.offset())
            tracker.finish(message.offset())
            self.in_flight.remove(1, 10)
        return [], []

    def _commit(self) -> None:
        self.commits.append(self.tracker.position)


@contextmanager
def running(consumer: Consumer) -> Iterator[Consumer]:
    consumer.dispatcher.open()
    try:
        yield consumer
    finally:
        consumer.dispatcher.close(10)
    assert not consumer.failures


def test_a_round_is_committed_when_all_its_records_are_finished() -> None:
    with running(Consumer()) as consumer:
        consumer.poll(5)
        eventually(lambda: consumer.commits == [5])
        consumer.poll(3)
        eventually(lambda: consumer.commits == [5, 8])
        assert consumer.handled == list(range(8))
        assert consumer.in_flight.records == 0


def test_dropped_records_of_an_owned_partition_are_handled_again_in_order() -> None:
    with running(Consumer(drops={2})) as consumer:
        consumer.poll(5)
        eventually(lambda: consumer.commits == [2, 5])
        assert consumer.handled == [0, 1, 2, 3, 4]
        assert (consumer.in_flight.records, consumer.in_flight.bytes) == (0, 0)


def test_records_of_a_released_partition_are_neither_handled_nor_repeated() -> None:
    consumer = Consumer()
    consumer.poll(5)
    consumer.tracker.release()
    with running(consumer):
        eventually(lambda: consumer.commits == [0])
        assert consumer.handled == []
        assert (consumer.in_flight.records, consumer.in_flight.bytes) == (0, 0)


def test_parallel_records_commit_after_each_turn_without_rounds() -> None:
    with running(Consumer(parallelism=4)) as consumer:
        consumer.poll(20)
        eventually(lambda: sorted(consumer.handled) == list(range(20)))
        eventually(lambda: bool(consumer.commits) and max(consumer.commits) == 20)
