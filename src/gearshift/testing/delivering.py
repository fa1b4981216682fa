"""Runs a delivery on its real consumer, with a topic and a consumer group of its own, until everything is committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from gearshift.app import App
from gearshift.connection import Connection
from gearshift.definitions import Delivery, Graph, Topic
from gearshift.delivery.worker import Worker
from gearshift.errors import DefinitionError, DeliveryError
from gearshift.record import Destination
from gearshift.runner.registering import make_topics
from gearshift.schemas import Registry
from gearshift.testing.destination import FakeDestination
from gearshift.testing.frames import as_list, require_values
from gearshift.testing.namespace import delivery_named, unique_prefix
from gearshift.testing.written import reasons_on, values_on
from gearshift.topics import Admin, Producer

_WITHIN = timedelta(minutes=1)
_LOOK_EVERY = 0.05  # seconds; a group's offsets are asked for, since nobody reports them
_ENDS_WITHIN = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What a delivery left."""

    values: list[Any]
    """What the destination holds, or what was written to the target topic."""
    dead_letters: list[str]
    """The reasons of the dead letters."""
    writes: int
    """How often a fake destination was called; 0 for another target."""


class Deliver:
    """Runs deliveries on their real consumers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(
        self,
        app: App,
        delivery: Callable[..., Any] | str,
        values: Sequence[Any],
        *,
        destination: Destination | None = None,
        within: timedelta = _WITHIN,
    ) -> Delivered:
        """Deliver values; returns when the offset of every record is committed.

        Without a `destination`, that of the delivery is replaced by a `FakeDestination`.
        """
        __tracebackhide__ = True
        declared = delivery_named(app, delivery)
        chosen = _isolated(declared, unique_prefix(), destination)
        topic = chosen.topic
        found = as_list(values, declared.topic.name)
        require_values([value for value in found if not isinstance(value, bytes)], topic.name, topic.value)
        with ExitStack() as opened:
            admin = opened.enter_context(Admin(self._connection))
            registry = opened.enter_context(Registry(self._connection))
            topics = [each for each in (topic, chosen.target) if isinstance(each, Topic)]
            make_topics(Graph(app=app.name, timezone=app.timezone), topics, admin, registry)
            with Producer(self._connection, registry) as producer:
                for value in found:
                    if isinstance(value, bytes):
                        producer.send_bytes(topic.name, value)
                    else:
                        producer.send(topic, value)
            with _Consumer(chosen, app.name, self._connection) as consumer:
                consumer.await_commits(admin, within)
            letters = reasons_on(self._connection, admin, [topic.dead_letters])
            if isinstance(chosen.target, Topic):
                written = values_on(self._connection, registry, chosen.target)
                return Delivered(values=written, dead_letters=letters, writes=0)
        if isinstance(chosen.target, FakeDestination):
            return Delivered(values=chosen.target.values, dead_letters=letters, writes=chosen.target.writes)
        return Delivered(values=[], dead_letters=letters, writes=0)


class _Consumer:
    """One consumer in a thread of this process; leaving the context stops it."""

    def __init__(self, delivery: Delivery, app: str, connection: Connection) -> None:
        self._delivery = delivery
        self._worker = Worker(delivery, app, connection)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"delivery {delivery.name}", daemon=True)

    def __enter__(self) -> _Consumer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()
        self._thread.join(_ENDS_WITHIN)

    def await_commits(self, admin: Admin, within: timedelta) -> None:
        """Wait until the group has committed the end of the topic; raises the consumer's failure."""
        topic, group_id = self._delivery.topic.name, self._delivery.group_id
        ends = admin.end_offsets([topic])
        deadline = time.monotonic() + within.total_seconds()
        while True:
            committed = admin.group_offsets(group_id, [topic])
            if all(committed.get(partition, 0) >= end for partition, end in ends.items()):
                return
            if not self._thread.is_alive():
                raise self._failure or DeliveryError(
                    "the consumer ended by itself", delivery=self._delivery.name
                )
            if time.monotonic() > deadline:
                done, total = sum(committed.values()), sum(ends.values())
                raise DeliveryError(
                    f"not delivered within {within.total_seconds():g} s: {max(0, done)} of {total} records were "
                    f"committed; {self._worker.error or 'no error was reported'}",
                    hint="give it more time with within=, or a shorter retry= in the test's app",
                    delivery=self._delivery.name,
                )
            self._thread.join(_LOOK_EVERY)

    def _run(self) -> None:
        try:
            self._worker.run()
        except BaseException as error:
            self._failure = error


def _isolated(delivery: Delivery, prefix: str, destination: Destination | None) -> Delivery:
    """The delivery with a topic and a group of its own, and a destination that a test can read."""
    topic, target = delivery.topic, delivery.target
    if topic.envelope is not None:
        raise DefinitionError(
            f"the topic {topic.name} holds the changes of a database",
            hint="call the function with a gs.Record of a gs.Change",
            delivery=delivery.name,
        )
    if destination is not None and (target is None or isinstance(target, Topic)):
        raise DefinitionError(
            "destination= has no effect: the delivery does not write to a destination",
            hint="remove it, or declare the delivery with to=",
            delivery=delivery.name,
        )
    if isinstance(target, Topic):
        target = replace(target, name=f"{prefix}.{target.name}", external=False, partitions=1, replicas=None)
    elif target is not None:
        target = destination or FakeDestination(batch_size=target.batch_size)
    return replace(
        delivery,
        topic=replace(topic, name=f"{prefix}.{topic.name}", external=False, max_lag=None, replicas=None),
        group_id=f"{prefix}.{delivery.group_id}",
        start="earliest",
        target=target,
    )
