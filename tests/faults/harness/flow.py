"""Numbered records at a steady rate, and which of them the brokers have acknowledged."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.errors import RegistryUnreachableError
from gearshift.topics import Producer
from tests.faults.harness.app import Numbered

KEYS = 20
_OVERSIZE = 12_000_000  # bytes: more than a topic of the local Kafka takes


class Flow:
    """Sends from a thread until it is left."""

    def __init__(self, connection: Connection, topic: Topic, *, rate: float, chance: random.Random) -> None:
        self.sent: Counter[str] = Counter()
        self.oversize: set[tuple[str, int]] = set()
        self.send_oversize = threading.Event()
        self._connection, self._topic, self._rate, self._chance = connection, topic, rate, chance
        self._closing = threading.Event()
        self._sending = threading.Lock()
        self._producer: Producer | None = None
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> Flow:
        self._producer = Producer(self._connection)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "the flow did not end"
        if self._producer is not None:
            self._producer.close()
        if self._error is not None:
            raise self._error

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is sent within the block, and all that was sent before it is on the brokers."""
        with self._sending:
            self._require().flush()
            yield

    @contextmanager
    def restarted(self) -> Iterator[None]:
        """Paused; afterwards another producer sends, which knows nothing of the topic as it was."""
        with self.paused():
            self._require().close()
            yield
            self._producer = Producer(self._connection)

    def send(self, count: int) -> None:
        """Send so many more, from within `paused`, and wait until they are on the brokers."""
        for _ in range(count):
            self._send()
        self._require().flush()

    def _run(self) -> None:
        try:
            while not self._closing.wait(1 / self._rate):
                with (
                    self._sending,
                    suppress(RegistryUnreachableError),
                ):  # a new producer asks it once, and again
                    self._send()
        except BaseException as error:
            self._error = error

    def _send(self) -> None:
        key = f"k{self._chance.randrange(KEYS)}"
        oversize = self.send_oversize.is_set()
        self._require().send(self._topic, Numbered(key, self.sent[key], _OVERSIZE if oversize else 0))
        if oversize:
            self.send_oversize.clear()
            self.oversize.add((key, self.sent[key]))
        self.sent[key] += 1

    def _require(self) -> Producer:
        assert self._producer is not None
        return self._producer
