"""Sources that go on: one that fails is made again, with backoff, and what it had counted stays counted."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from gearshift.redaction import redact

log = logging.getLogger(__name__)

_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(seconds=30)
_STABLE_AFTER = 30.0
_LOOKS_EVERY = 0.25


class Source(Protocol):
    """What a runner knows of a source."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    @property
    def running(self) -> bool: ...

    def status(self) -> dict[str, Any]: ...


class KeptSource:
    """Keeps one source running until it is closed, or has no more to send."""

    def __init__(
        self, name: str, make: Callable[[], Source], *, first_backoff: timedelta = _FIRST_BACKOFF
    ) -> None:
        self._name = name
        self._make = make
        self._source = make()
        self._error: str | None = None
        """Why the last one ended, until the next one runs."""
        self._restarts = 0
        self._past: Counter[str] = Counter()
        self._first_backoff = first_backoff
        self._backoff = first_backoff
        self._began = time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name=f"source keeper {name}", daemon=True)

    def open(self) -> None:
        """Start it; what fails here fails for good, as a wrong declaration does."""
        self._source.open()
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._source.close()

    @property
    def running(self) -> bool:
        """Whether it sends."""
        return self._source.running

    def status(self) -> dict[str, Any]:
        """How it is, as plain data, with the counts of those before it."""
        now = self._source.status()
        counted = {name: value + self._past[name] for name, value in now.items() if type(value) is int}
        return {**now, **counted, "error": self._error or now["error"], "restarts": self._restarts}

    def _look_after(self) -> None:
        while not self._closing.wait(_LOOKS_EVERY):
            if self._source.running:
                if time.monotonic() - self._began > _STABLE_AFTER:
                    self._backoff = self._first_backoff
                continue
            status = self._source.status()
            if status["error"] is None and status["kind"] == "simulator":
                return  # its generator has ended
            self._restart(status)

    def _restart(self, status: dict[str, Any]) -> None:
        self._error = status["error"] or "it ended"
        while True:
            log.error(
                "source %s: %s; starting again in %.0f s",
                self._name,
                self._error,
                self._backoff.total_seconds(),
            )
            if self._closing.wait(self._backoff.total_seconds()):
                return
            self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF)
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
