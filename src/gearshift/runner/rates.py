"""How fast records arrive and come out, and how far each pipeline is behind."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

log = logging.getLogger(__name__)


class Rates:
    """Arrivals, output and lag of each pipeline, measured every second over the last ten."""

    def __init__(self) -> None:
        self.arriving: dict[str, float] = {}
        self.written: dict[str, float] = {}
        self.lag: dict[str, int] = {}
        self._seen: dict[str, list[tuple[float, int, int]]] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, measure: Callable[[], None]) -> None:
        """Measure every second until closed."""

        def loop() -> None:
            while not self._closing.wait(1.0):
                try:
                    measure()
                except Exception as error:
                    log.warning("not measured: %s", error)

        self._thread = threading.Thread(target=loop, name="rates", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Measure no more."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def note(self, name: str, arrived: int, written: int, lag: int) -> None:
        """Take one measurement."""
        now = time.monotonic()
        seen = [
            entry
            for entry in self._seen.get(name, [])
            if now - entry[0] < timedelta(seconds=10).total_seconds()
        ]
        self._seen[name] = [*seen, (now, arrived, written)]
        first = self._seen[name][0]
        passed = now - first[0]
        if passed > 0:
            self.arriving[name] = round((arrived - first[1]) / passed, 1)
            self.written[name] = round((written - first[2]) / passed, 1)
        self.lag[name] = lag
