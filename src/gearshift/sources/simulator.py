"""A simulated source: a generator of values, sent at a steady rate."""

from __future__ import annotations

import logging
import threading
import time

from gearshift.connection import Connection
from gearshift.definitions import Source
from gearshift.errors import GearshiftError
from gearshift.topics import Producer

log = logging.getLogger(__name__)


class Simulator:
    """Runs one source until it is closed or its generator ends."""

    def __init__(self, source: Source, connection: Connection) -> None:
        self.source = source
        self.sent = 0
        self.failed = 0
        self.error: str | None = None
        self._connection = connection
        self._producer: Producer | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source {source.name}", daemon=True)

    def open(self) -> None:
        """Begin to send."""
        self._thread.start()

    def close(self) -> None:
        """Send no more, and wait for what is under way."""
        self._closing.set()
        if self._producer is not None:
            self._producer.release()
        self._thread.join(timeout=30)

    @property
    def running(self) -> bool:
        """Whether it sends still."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            with Producer(self._connection) as producer:
                self._producer = producer
                self._send(producer)
                self.failed = len(producer.failures)
        except GearshiftError as error:
            self.error = str(error)
            log.error("source %s: %s", self.source.name, error)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            log.exception("source %s raised (%s)", self.source.name, self.source.defined_at)

    def _send(self, producer: Producer) -> None:
        due = time.monotonic()
        for value in self.source.generate():
            producer.send(self.source.topic, value)
            self.sent += 1
            # One that was held up goes on at its rate: what it missed would only make a flood.
            due = max(due, time.monotonic() - 1.0) + 1 / self.source.rate
            if self._closing.wait(max(0.0, due - time.monotonic())):
                return
