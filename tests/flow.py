"""A steady flow of numbered records into a topic, and what a consumer of the target sees of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.schemas import Decoder, Registry
from gearshift.topics import Admin, ConsumedRecord, Producer, read


@dataclass
class Event:
    key: str
    n: int


@dataclass
class Count:
    key: str
    count: int


class Flow:
    """Sends events 0, 1, 2 … from a thread until it is left: some at once, the rest at a rate.

    Every `corrupt_every`th is garbage.
    """

    def __init__(
        self,
        connection: Connection,
        topic: Topic,
        *,
        rate: float = 500,
        at_once: int = 0,
        keys: int = 50,
        corrupt_every: int = 0,
    ) -> None:
        self.sent = 0
        self.corrupt = 0
        self._connection, self._topic, self._rate, self._keys = connection, topic, rate, keys
        self._at_once = at_once
        self._corrupt_every = corrupt_every
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the flow did not end"
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with Producer(self._connection) as producer:
                began, number = time.monotonic() - self._at_once / self._rate, 0
                while not self._closing.wait(max(0.0, began + number / self._rate - time.monotonic())):
                    number += 1
                    if self._corrupt_every and number % self._corrupt_every == 0:
                        producer.send_bytes(self._topic.name, garbage(self.corrupt), key=b"x")
                        self.corrupt += 1
                    else:
                        producer.send(self._topic, Event(key=f"k{self.sent % self._keys}", n=self.sent))
                        self.sent += 1
        except BaseException as error:
            self._error = error


def garbage(number: int) -> bytes | None:
    """Records that no decoder can read, of every kind we know."""
    kinds = (
        b"garbage",
        b"",
        b"\x00\x00",
        b"\x00\x7f\xff\xff\xffrest",  # a schema id nobody registered
        b"\x01\x00\x00\x00\x01rest",  # another magic byte
        None,
    )
    return kinds[number % len(kinds)]


def values(connection: Connection, topic: Topic) -> list[Any]:
    """Every value on a topic, decoded, in order within each partition."""
    with Registry(connection) as registry:
        decode = Decoder(topic, registry)
        return [decode(record.value) for record in read(connection, topic.name)]


def committed(connection: Connection, topic: str) -> list[ConsumedRecord]:
    """Every record, once the transactions of this moment are over: a commit is answered before its records are seen."""
    with Admin(connection) as admin:
        admin.await_stable([topic], within=timedelta(seconds=60))
    return list(read(connection, topic))


def committed_values(connection: Connection, topic: Topic) -> list[Any]:
    """The same, decoded."""
    with Registry(connection) as registry:
        decode = Decoder(topic, registry)
        return [decode(record.value) for record in committed(connection, topic.name)]


def seen_twice(events: list[Event]) -> int:
    """How many copies too many there are."""
    return sum(count - 1 for count in Counter(event.n for event in events).values())


def highest_counts(counts: list[Count]) -> dict[str, int]:
    """The last count of every key."""
    highest: dict[str, int] = {}
    for entry in counts:
        highest[entry.key] = max(entry.count, highest.get(entry.key, 0))
    return highest
