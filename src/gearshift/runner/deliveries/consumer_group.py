"""Run the consumers of one delivery: scale them with the lag, and restart them with backoff."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gearshift.delivery.assignment import RecordId
from gearshift.errors import GearshiftError
from gearshift.runner.deliveries.consumer import Consumer, ProcessConsumer, ThreadConsumer
from gearshift.runner.deliveries.scaling import Scaling
from gearshift.topics import Admin

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery, Graph
    from gearshift.settings import Settings

log = logging.getLogger(__name__)
_CHECK_EVERY = 1.0
_SPEED_SAMPLES = 11  # ten seconds
_ENDS_WITHIN = 40.0
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0
_MAX_CRASHES = 3  # of the process while handling the same record, which is then set aside
_STABLE_AFTER = 30.0


class ConsumerGroup:
    """Keeps the consumers of a delivery running; their number follows the lag."""

    def __init__(
        self,
        delivery: Delivery,
        app: str,
        connection: Connection,
        settings: Settings,
        *,
        name: str,
        file: Path | None,
    ) -> None:
        """`name` identifies these consumers among those of the same delivery on other machines."""
        self.delivery = delivery
        self._app = app
        self._connection = connection
        self._settings = settings
        self._name = name
        self._file = file
        self._consumers: dict[int, Consumer] = {}
        self._leaving: list[Consumer] = []
        self._past: dict[str, int] = {}
        self._lag: dict[int, int] = {}
        self._error: str | None = None
        self._restarts = 0
        self._speed: deque[tuple[float, int]] = deque(maxlen=_SPEED_SAMPLES)
        self._backoff = _FIRST_BACKOFF
        self._not_before = 0.0
        self._crashes: Counter[RecordId] = Counter()
        self._guarded = False
        self._stopping = threading.Event()
        self._admin = Admin(connection)
        partitions = self._admin.require([delivery.topic.name])[delivery.topic.name].partitions
        self._scaling = Scaling(low=delivery.consumers[0], high=delivery.consumers[1], partitions=partitions)
        self._thread = threading.Thread(target=self._supervise, name=f"group {delivery.name}", daemon=True)

    def open(self) -> None:
        """Start the consumers."""
        self._start_missing()
        self._thread.start()

    def await_assignment(self, seconds: float) -> bool:
        """Wait until a consumer has a partition; False on timeout or failure."""
        until = time.monotonic() + seconds
        while not any(consumer.status.get("partitions") for consumer in self._consumers.values()):
            if time.monotonic() > until or self._error is not None or self._stopping.wait(0.05):
                return False
        return True

    def close(self) -> None:
        """Stop all consumers; each finishes and commits its records in flight."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_ENDS_WITHIN)
        for consumer in self._consumers.values():
            consumer.stop()
        for consumer in [*self._consumers.values(), *self._leaving]:
            consumer.await_end(_ENDS_WITHIN)
        self._admin.close()

    def status(self) -> dict[str, Any]:
        """The status of the delivery as plain data."""
        statuses = [consumer.status for consumer in self._consumers.values()]
        errors = [error for status in statuses if (error := status.get("error"))]
        return {
            "name": self.delivery.name,
            "group_id": self.delivery.group_id,
            "topic": self.delivery.topic.name,
            "consumers": len(self._consumers),
            "wanted": self._scaling.wanted,
            **{name: self._sum(name) for name in ("delivered", "duplicates", "dead_letters", "retries")},
            **{name: self._sum(name) for name in ("skipped", "failed_commits")},
            "in_flight": sum(status.get("in_flight", 0) for status in statuses),
            "in_flight_bytes": sum(status.get("in_flight_bytes", 0) for status in statuses),
            "delivered_per_second": self._delivered_per_second(),
            "lag": dict(self._lag),
            "paused": any(status.get("paused", False) for status in statuses),
            "state": "failed" if self._error else "running",
            "error": self._error or next(iter(errors), None),
            "retrying": next((why for status in statuses if (why := status.get("retrying"))), None),
            "restarts": self._restarts,
            "advice": self._scaling.advice,
            "pids": [each.pid for each in self._consumers.values() if isinstance(each, ProcessConsumer)],
        }

    def _delivered_per_second(self) -> float | None:
        if len(self._speed) < 2:
            return None
        (first, before), (last, after) = self._speed[0], self._speed[-1]
        return round((after - before) / (last - first), 1)

    def _sum(self, name: str) -> int:
        now = sum(consumer.status.get(name, 0) for consumer in [*self._consumers.values(), *self._leaving])
        return now + self._past.get(name, 0)

    def _supervise(self) -> None:
        while not self._stopping.wait(_CHECK_EVERY):
            try:
                self._replace_ended()
                self._measure()
                self._speed.append((time.monotonic(), self._sum("delivered")))
                self._scaling.decide(time.monotonic(), sum(self._lag.values()), self._sum("delivered"))
                self._start_missing()
                self._stop_surplus()
            except GearshiftError as error:
                log.info("%s: %s", self.delivery.name, error)

    def _measure(self) -> None:
        topic = self.delivery.topic.name
        ends = self._admin.end_offsets([topic])
        begins = self._admin.begin_offsets([topic])
        done = self._admin.group_offsets(self.delivery.group_id, [topic])
        self._scaling.partitions = len(ends)
        self._lag = {
            partition: max(0, end - max(done.get((topic, partition), 0), begins[topic, partition]))
            for (_, partition), end in ends.items()
        }

    def _replace_ended(self) -> None:
        for slot, consumer in list(self._consumers.items()):
            reason = consumer.ended
            if reason is None:
                if self._error is not None and time.monotonic() - consumer.began > 5.0:
                    self._error = None
                if time.monotonic() - consumer.began > _STABLE_AFTER:
                    self._backoff = _FIRST_BACKOFF
                    self._guarded = False
                continue
            if (records := consumer.crashed_with) is not None:
                self._guarded = True
                self._crashes.update(records)
                if records:  # the record that caused it is known: no reason for a longer backoff
                    self._backoff = _FIRST_BACKOFF
            self._add_to_past(consumer)
            del self._consumers[slot]
            self._restarts += 1
            self._error = reason
            if consumer.is_final:
                self._not_before = math.inf
                log.error("delivery %s stopped: %s", self.delivery.name, reason)
                continue
            self._not_before = time.monotonic() + self._backoff
            log.error("delivery %s: %s; restarting in %.0f s", self.delivery.name, reason, self._backoff)
            self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF)
        for consumer in list(self._leaving):
            if consumer.ended is not None:
                self._add_to_past(consumer)
                self._leaving.remove(consumer)

    def _add_to_past(self, consumer: Consumer) -> None:
        consumer.await_end(1.0)
        for name, value in consumer.status.items():
            if isinstance(value, int) and not isinstance(value, bool) and not name.startswith("in_flight"):
                self._past[name] = self._past.get(name, 0) + value

    def _start_missing(self) -> None:
        if time.monotonic() < self._not_before:
            return
        for slot in range(self._scaling.wanted):
            if slot not in self._consumers:
                self._consumers[slot] = self._start(f"{self._name}.{slot}")

    def _stop_surplus(self) -> None:
        for slot in sorted(self._consumers, reverse=True)[
            : max(0, len(self._consumers) - self._scaling.wanted)
        ]:
            consumer = self._consumers.pop(slot)
            consumer.stop()
            self._leaving.append(consumer)

    def _start(self, member: str) -> Consumer:
        if self._file is None:
            return ThreadConsumer(self.delivery, self._app, self._connection, self._settings, member)
        crashes = [(record, count) for record, count in self._crashes.items() if count >= _MAX_CRASHES]
        return ProcessConsumer(
            self.delivery,
            self._connection,
            self._settings,
            member,
            self._file,
            crashes if crashes or self._guarded else None,
        )


def start_consumer_groups(
    graph: Graph,
    connection: Connection,
    settings: Settings,
    *,
    file: Path | None,
    progress: Callable[[str], None],
    at_exit: Callable[[Callable[[], None]], None],
    extra: str = "",
) -> dict[str, ConsumerGroup]:
    """Start every delivery of an app; `extra` distinguishes a second runner in the same folder."""
    groups: dict[str, ConsumerGroup] = {}
    for delivery in graph.deliveries.values():
        progress(f"starting delivery {delivery.name}")
        group = groups[delivery.name] = ConsumerGroup(
            delivery,
            graph.app,
            connection,
            settings,
            name=_name(settings.home) + extra,
            file=file,
        )
        at_exit(group.close)
        group.open()
    return groups


def _name(home: Path) -> str:
    """A name that is stable for this folder on this machine, and unique to it."""
    machine = os.uname().nodename
    digest = hashlib.blake2b(f"{machine}:{home.absolute()}".encode(), digest_size=4).hexdigest()
    return f"{machine}.{digest}"
