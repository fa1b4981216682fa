"""A simulated source: sends generated values at its declared rate, with its declared disorder and duplicates.

With a seed the sequence is the same in every run, and a restart resumes it: the records and the mark of their count
are written in one transaction.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from gearshift.connection import Connection
from gearshift.definitions import Source
from gearshift.errors import BrokerUnreachableError, FencedError, GearshiftError, RetriableError
from gearshift.redaction import redact
from gearshift.schemas import Registry
from gearshift.sources.record_encoder import RecordEncoder
from gearshift.sources.simulator.disorder import disordered
from gearshift.sources.simulator.pace import wait_for_next
from gearshift.topics import LatestMarks, MarkedTransactions, Pressure, Producer

log = logging.getLogger(__name__)

_COMMIT_INTERVAL = timedelta(milliseconds=50)
_COMMIT_BEFORE_PAUSE = 0.01  # seconds; a longer pause is worth a commit before it
_TRANSACTION_RECORDS = 1_000
_RETRY_DELAY = 1.0
# How long a source that was killed blocks its readers. If a generator takes longer for its next value, the last
# transaction is aborted and sent again.
_TRANSACTION_TIMEOUT = timedelta(seconds=15)


class Simulator:
    """Runs one simulated source until it is closed or its generator ends."""

    def __init__(self, source: Source, connection: Connection) -> None:
        self.source = source
        self.sent = 0
        self.failed = 0
        self.error: str | None = None
        self._connection = connection
        self._producer: Producer | None = None
        self._marks = LatestMarks()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source {source.name}", daemon=True)

    def open(self) -> None:
        """Start sending."""
        self._thread.start()

    def close(self) -> None:
        """Stop sending, and wait for records in flight."""
        self._closing.set()
        if self._producer is not None:
            self._producer.release()
        self._thread.join(timeout=30)

    @property
    def running(self) -> bool:
        """Whether it is sending."""
        return self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """Its status, as plain data."""
        return {
            "name": self.source.name,
            "kind": "simulator",
            "at": str(self.source.defined_at),
            "topic": self.source.topic.name,
            "sent": self.sent,
            "failed": self.failed,
            "running": self.running,
            "error": self.error,
        }

    def _run(self) -> None:
        try:
            if self.source.seed is None:
                with Producer(self._connection) as producer:
                    self._producer = producer
                    self._send(producer)
                    self.failed = len(producer.failures)
            else:
                self._resume(self.source.seed)
        except GearshiftError as error:
            self.error = str(error)
            log.error("source %s: %s", self.source.name, error)
        except Exception as error:
            self.error = redact(f"{type(error).__name__}: {error}")
            log.exception("source %s raised (%s)", self.source.name, self.source.defined_at)

    def _send(self, producer: Producer) -> None:
        for value in self._paced(self.source.generate()):
            producer.send(self.source.topic, value)
            self.sent += 1

    def _resume(self, seed: int) -> None:
        """Send the sequence of this seed from its last committed position, which is read again after an outage."""
        while not self._closing.is_set():
            try:
                with Registry(self._connection) as registry:
                    encoded = RecordEncoder(self.source.topic, registry)
                transactions = MarkedTransactions(
                    self._connection, self.source.marks, self._marks, within=_TRANSACTION_TIMEOUT
                )
                self.error = None
                self._send_marked(transactions, encoded, f"seed {seed}".encode())
                transactions.close()
                return
            except (BrokerUnreachableError, RetriableError, FencedError) as error:
                if str(error) != self.error:
                    log.error("source %s: %s", self.source.name, error)
                self.error = str(error)
                self._closing.wait(_RETRY_DELAY)

    def _send_marked(self, transactions: MarkedTransactions, encoded: RecordEncoder, mark: bytes) -> None:
        done = int(self._marks.get(mark, b"0"))
        topic, pending, began = self.source.topic, 0, 0.0

        def commit() -> None:
            nonlocal done, pending
            if pending:
                transactions.note(mark, b"%d" % (done + pending))
                transactions.commit()
                done, self.sent, pending = done + pending, self.sent + pending, 0

        with Pressure(self._connection) as pressure:
            rest = islice(sequence(self.source), done, None)
            for value in self._paced(rest, before_waiting=commit):
                while pressure.presses(topic) and not self._closing.is_set():
                    commit()
                    self._closing.wait(0.05)
                if not pending:
                    transactions.begin()
                    began = time.monotonic()
                key, data = encoded.record(value)
                transactions.send_bytes(topic.name, data, key=key)
                pending += 1
                if (
                    pending >= _TRANSACTION_RECORDS
                    or time.monotonic() - began > _COMMIT_INTERVAL.total_seconds()
                ):
                    commit()
            commit()

    def _paced(
        self, values: Iterable[Any], before_waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Any]:
        """The values, each when it is due, until the source is closing."""
        source = self.source
        began, zone = time.monotonic(), ZoneInfo(source.timezone)
        opened = datetime.now(zone)
        due = began
        for value in values:
            yield value
            now = time.monotonic()
            clock = opened + timedelta(seconds=(now - began) * source.time_factor) if source.day else opened
            # After a delay it continues at its rate: catching up would flood the topic.
            due = max(due, now - 1.0) + wait_for_next(source.rate, source.day, clock, source.time_factor)
            if due - now > _COMMIT_BEFORE_PAUSE:
                before_waiting()
            if self._closing.wait(max(0.0, due - time.monotonic())):
                return


def sequence(source: Source) -> Iterator[Any]:
    """The values of a source with a seed, in the order in which they are sent."""
    takes_chance = bool(inspect.signature(source.generate).parameters)
    # Two generators: how many numbers the user's function draws must not change which values come late.
    values = source.generate(Random(source.seed)) if takes_chance else source.generate()
    if not source.out_of_order and not source.duplicates:
        return iter(values)
    reach = max(1, round(source.max_delay.total_seconds() / source.time_factor * source.rate))
    chance = Random(f"disorder {source.seed}")
    return disordered(
        values, chance, out_of_order=source.out_of_order, duplicates=source.duplicates, reach=reach
    )
