"""The consumers of one delivery: as many as it needs, each in its place, started again when one ends."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gearshift.delivery.care import Spot
from gearshift.delivery.scaling import Scaling
from gearshift.errors import GearshiftError
from gearshift.runner.consumers import Consumer, OwnProcess, OwnThread
from gearshift.topics import Admin

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery, Graph
    from gearshift.settings import Settings

log = logging.getLogger(__name__)
_LOOK_EVERY = 1.0
_ENDS_WITHIN = 40.0
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0
_DEATHS = 3  # of a process with the same record in hand, after which that record is set aside
_STABLE_AFTER = 30.0


class Crew:
    """Keeps a delivery's consumers running, more or fewer of them as the lag asks for."""

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
        """`name` tells this crew from those of the same delivery elsewhere."""
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
        self._backoff = _FIRST_BACKOFF
        self._not_before = 0.0
        self._deaths: Counter[Spot] = Counter()
        self._careful = False
        self._stopping = threading.Event()
        self._admin = Admin(connection)
        partitions = self._admin.require([delivery.topic.name])[delivery.topic.name].partitions
        self._scaling = Scaling(low=delivery.scale[0], high=delivery.scale[1], partitions=partitions)
        self._thread = threading.Thread(target=self._look_after, name=f"crew {delivery.name}", daemon=True)

    def open(self) -> None:
        """Start the consumers."""
        self._fill_up()
        self._thread.start()

    def await_assignment(self, seconds: float) -> bool:
        """Wait until a consumer holds a partition; False if none does after this time."""
        until = time.monotonic() + seconds
        while not any(consumer.status.get("partitions") for consumer in self._consumers.values()):
            if time.monotonic() > until or self._error is not None or self._stopping.wait(0.05):
                return False
        return True

    def close(self) -> None:
        """End them all; each finishes and commits what it has in hand."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_ENDS_WITHIN)
        for consumer in self._consumers.values():
            consumer.stop()
        for consumer in [*self._consumers.values(), *self._leaving]:
            consumer.await_end(_ENDS_WITHIN)
        self._admin.close()

    def status(self) -> dict[str, Any]:
        """How the delivery is, as plain data."""
        told = [consumer.status for consumer in self._consumers.values()]
        errors = [error for status in told if (error := status.get("error"))]
        return {
            "name": self.delivery.name,
            "group_id": self.delivery.group_id,
            "topic": self.delivery.topic.name,
            "consumers": len(self._consumers),
            "wanted": self._scaling.wanted,
            **{name: self._sum(name) for name in ("delivered", "duplicates", "dead_letters", "retries")},
            **{name: self._sum(name) for name in ("skipped", "failed_commits")},
            "in_flight": sum(status.get("in_flight", 0) for status in told),
            "in_flight_bytes": sum(status.get("in_flight_bytes", 0) for status in told),
            "lag": dict(self._lag),
            "paused": any(status.get("paused", False) for status in told),
            "state": "failed" if self._error else "running",
            "error": self._error or next(iter(errors), None),
            "restarts": self._restarts,
            "advice": self._scaling.advice,
            "pids": [each.pid for each in self._consumers.values() if isinstance(each, OwnProcess)],
        }

    def _sum(self, name: str) -> int:
        now = sum(consumer.status.get(name, 0) for consumer in [*self._consumers.values(), *self._leaving])
        return now + self._past.get(name, 0)

    def _look_after(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY):
            try:
                self._replace_ended()
                self._measure()
                self._scaling.decide(time.monotonic(), sum(self._lag.values()), self._sum("delivered"))
                self._fill_up()
                self._thin_out()
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
            why = consumer.ended
            if why is None:
                if self._error is not None and time.monotonic() - consumer.began > 5.0:
                    self._error = None
                if time.monotonic() - consumer.began > _STABLE_AFTER:
                    self._backoff = _FIRST_BACKOFF
                    self._careful = False
                continue
            if (in_hand := consumer.crashed_with) is not None:
                self._careful = True
                self._deaths.update(in_hand)
                if in_hand:  # whose fault it was is known: no reason to wait longer each time
                    self._backoff = _FIRST_BACKOFF
            self._remember(consumer)
            del self._consumers[slot]
            self._restarts += 1
            self._error = why
            self._not_before = time.monotonic() + self._backoff
            log.error("delivery %s: %s; starting again in %.0f s", self.delivery.name, why, self._backoff)
            self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF)
        for consumer in list(self._leaving):
            if consumer.ended is not None:
                self._remember(consumer)
                self._leaving.remove(consumer)

    def _remember(self, consumer: Consumer) -> None:
        consumer.await_end(1.0)
        for name, value in consumer.status.items():
            if isinstance(value, int) and not isinstance(value, bool) and not name.startswith("in_flight"):
                self._past[name] = self._past.get(name, 0) + value

    def _fill_up(self) -> None:
        if time.monotonic() < self._not_before:
            return
        for slot in range(self._scaling.wanted):
            if slot not in self._consumers:
                self._consumers[slot] = self._consumer(f"{self._name}.{slot}")

    def _thin_out(self) -> None:
        for slot in sorted(self._consumers, reverse=True)[
            : max(0, len(self._consumers) - self._scaling.wanted)
        ]:
            consumer = self._consumers.pop(slot)
            consumer.stop()
            self._leaving.append(consumer)

    def _consumer(self, member: str) -> Consumer:
        if self._file is None:
            return OwnThread(self.delivery, self._app, self._connection, self._settings, member)
        killers = [(spot, deaths) for spot, deaths in self._deaths.items() if deaths >= _DEATHS]
        return OwnProcess(
            self.delivery,
            self._connection,
            self._settings,
            member,
            self._file,
            killers if killers or self._careful else None,
        )


def start_crews(
    graph: Graph,
    connection: Connection,
    settings: Settings,
    *,
    file: Path | None,
    said: Callable[[str], None],
    at_exit: Callable[[Callable[[], None]], None],
    extra: str = "",
) -> dict[str, Crew]:
    """Start every delivery of an app; `extra` tells a second runner of them in this folder from the first."""
    crews: dict[str, Crew] = {}
    for delivery in graph.deliveries.values():
        said(f"starting delivery {delivery.name}")
        crew = crews[delivery.name] = Crew(
            delivery,
            graph.app,
            connection,
            settings,
            name=_name(settings.home) + extra,
            file=file,
        )
        at_exit(crew.close)
        crew.open()
    return crews


def _name(home: Path) -> str:
    """The same for every run in this folder on this machine, and for no other."""
    machine = os.uname().nodename
    place = hashlib.blake2b(f"{machine}:{home.absolute()}".encode(), digest_size=4).hexdigest()
    return f"{machine}.{place}"
