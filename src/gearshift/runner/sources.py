"""Keeps sources running: one that fails is recreated with backoff, and its counts are kept."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from gearshift.backoff import Backoff
from gearshift.connection import Connection
from gearshift.definitions import Graph
from gearshift.redaction import redact
from gearshift.sources import Files, Http, Simulator

log = logging.getLogger(__name__)

_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(seconds=30)
_STABLE_AFTER = 30.0
_CHECK_INTERVAL = 0.25


class Source(Protocol):
    """What a runner needs of a source."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    @property
    def running(self) -> bool: ...

    def status(self) -> dict[str, Any]: ...


class SupervisedSource:
    """Keeps one source running until it is closed or has sent everything."""

    def __init__(
        self, name: str, make: Callable[[], Source], *, first_backoff: timedelta = _FIRST_BACKOFF
    ) -> None:
        self._name = name
        self._make = make
        self._source = make()
        self._error: str | None = None
        """Why the last instance ended, until the next one runs."""
        self._restarts = 0
        self._past: Counter[str] = Counter()
        """The counts of earlier instances."""
        self._backoff = Backoff(first=first_backoff, longest=_LONGEST_BACKOFF)
        self._began = time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name=f"source supervisor {name}", daemon=True)

    def open(self) -> None:
        """Start it; an error here, such as a wrong declaration, is not retried."""
        self._source.open()
        self._thread.start()

    def close(self) -> None:
        """Stop it."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._source.close()

    @property
    def running(self) -> bool:
        """Whether it is running."""
        return self._source.running

    def status(self) -> dict[str, Any]:
        """Its status as plain data, including the counts of earlier instances."""
        now = self._source.status()
        counted = {name: value + self._past[name] for name, value in now.items() if type(value) is int}
        return {**now, **counted, "error": self._error or now["error"], "restarts": self._restarts}

    def _supervise(self) -> None:
        while not self._closing.wait(_CHECK_INTERVAL):
            if self._source.running:
                if time.monotonic() - self._began > _STABLE_AFTER:
                    self._backoff.reset()
                continue
            status = self._source.status()
            if status["error"] is None and status["kind"] == "simulator":
                return  # its generator has ended
            self._restart(status)

    def _restart(self, status: dict[str, Any]) -> None:
        self._error = status["error"] or "it ended"
        while True:
            delay = self._backoff.next().total_seconds()
            log.error("source %s: %s; restarting in %.0f s", self._name, self._error, delay)
            if self._closing.wait(delay):
                return
            try:
                self._source.close()
                source = self._make()
            except Exception as error:
                self._error = redact(str(error))
                continue
            try:
                source.open()
            except Exception as error:
                self._error = redact(str(error))
                source.close()
                continue
            self._past.update({name: value for name, value in status.items() if type(value) is int})
            self._source, self._error, self._began = source, None, time.monotonic()
            self._restarts += 1
            return


def sources_of(graph: Graph, connection: Connection) -> dict[str, Callable[[], Source]]:
    """What creates each source of an app, by name."""
    return {
        **{
            name: lambda source=source: Simulator(source, connection)
            for name, source in graph.sources.items()
        },
        **{
            name: lambda source=source: Files(source, connection)
            for name, source in graph.file_sources.items()
        },
        **{
            name: lambda source=source: Http(source, connection)
            for name, source in graph.http_sources.items()
        },
    }
