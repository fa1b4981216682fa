"""The state of a running app once a second, and the last ten minutes of it, shared by all open pages."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

from gearshift.alert import Alert

log = logging.getLogger(__name__)

_INTERVAL = 1.0
_KEPT = 600
"""Points of each pipeline and delivery."""

Point = dict[str, Any]


class Live:
    """Takes a snapshot every second while it is open; pages wait for the next one."""

    def __init__(
        self,
        status: Callable[[], dict[str, Any]],
        alerts: Callable[[dict[str, Any]], list[Alert]] = lambda _: [],
        notify: Callable[[list[Alert]], None] = lambda _: None,
    ) -> None:
        """`notify` is called with the alerts of each snapshot."""
        self._status = status
        self._alerts = alerts
        self._notify = notify
        self._latest = "{}"
        self._number = 0
        self._history: dict[str, dict[str, deque[Point]]] = {"pipelines": {}, "deliveries": {}}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)

    def open(self) -> None:
        """Start."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and end what pages wait for."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    @property
    def closing(self) -> bool:
        """Whether the server ends."""
        return self._closing.is_set()

    def history(self) -> str:
        """The last ten minutes, as JSON."""
        with self._lock:
            kept = {
                kind: {name: list(points) for name, points in named.items()}
                for kind, named in self._history.items()
            }
        return json.dumps(kept)

    async def snapshots(self) -> AsyncIterator[str]:
        """Each snapshot from now on, as JSON."""
        seen = -1
        while not self.closing:
            if self._number != seen:
                seen = self._number
                yield self._latest
            await asyncio.sleep(_INTERVAL / 4)

    def _run(self) -> None:
        while True:
            try:
                self._take()
            except Exception:
                log.warning("the console could not take a snapshot", exc_info=True)
            if self._closing.wait(_INTERVAL):
                return

    def _take(self) -> None:
        status, at = self._status(), datetime.now(UTC).isoformat(timespec="milliseconds")
        alerts = self._alerts(status)
        for kind, points in (
            ("pipelines", {each["name"]: _of_pipeline(at, each) for each in status.get("pipelines", ())}),
            ("deliveries", {each["name"]: _of_delivery(at, each) for each in status.get("deliveries", ())}),
        ):
            with self._lock:
                for name, point in points.items():
                    self._history[kind].setdefault(name, deque(maxlen=_KEPT)).append(point)
        self._latest = json.dumps(
            {"at": at, "status": status, "alerts": [alert.as_json() for alert in alerts]}
        )
        self._number += 1
        self._notify(alerts)


def _of_pipeline(at: str, status: dict[str, Any]) -> Point:
    return {
        "at": at,
        "in": status.get("records_per_second"),
        "out": status.get("written_per_second"),
        "lag": status.get("lag"),
        "p50": status.get("latency_p50_ms"),
        "p99": status.get("latency_p99_ms"),
    }


def _of_delivery(at: str, status: dict[str, Any]) -> Point:
    lag: dict[Any, int | None] = status.get("lag") or {}
    known = [behind for behind in lag.values() if behind is not None]
    return {
        "at": at,
        "in": None,
        "out": status.get("delivered_per_second"),
        "lag": sum(known) if known else None,
        "p50": None,
        "p99": None,
    }
