"""Sends each alert of a running app once to every notification's destination."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from gearshift.alert import Alert
from gearshift.backoff import Backoff
from gearshift.definitions import Graph, Notification
from gearshift.record import Record, Row
from gearshift.redaction import redact
from gearshift.storage.shared_files import write_whole

log = logging.getLogger(__name__)

FILE = "notified.json"
_FORGOTTEN_AFTER = 60.0
"""Seconds that a trouble must be over before it counts as a new one."""
_FIRST_RETRY = timedelta(seconds=1)
_LONGEST_RETRY = timedelta(seconds=60)


class Notifier:
    """One thread per notification; an alert that was sent is not sent again while it lasts, also by a later run."""

    def __init__(self, graph: Graph, home: Path) -> None:
        self._senders = [Sender(each, graph.app, home) for each in graph.notifications.values()]

    def take(self, alerts: Sequence[Alert]) -> None:
        """Take the present alerts."""
        for sender in self._senders:
            sender.take(alerts)

    def open(self) -> None:
        """Start sending."""
        for sender in self._senders:
            sender.open()

    def close(self) -> None:
        """Stop sending; what could not be sent is sent by the next run if it still lasts."""
        for sender in self._senders:
            sender.close()


class Sender:
    """Sends the alerts of one notification."""

    def __init__(self, notification: Notification, app: str, home: Path) -> None:
        self._notification = notification
        self._app = app
        self._file = home / f"{notification.name}.{FILE}"
        self._sent = _read(self._file)
        """The alerts that were sent and last, with the time since when."""
        self._over: dict[str, float] = {}
        self._present: dict[str, Alert] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(
            target=self._run, name=f"notification {notification.name}", daemon=True
        )

    def open(self) -> None:
        """Connect when the first alert is sent."""
        self._thread.start()

    def take(self, alerts: Iterable[Alert]) -> None:
        """Take the present alerts."""
        now = time.monotonic()
        with self._changed:
            self._present = {each.id: each for each in alerts if each.level in self._notification.levels}
            for name in list(self._sent):
                if name in self._present:
                    self._over.pop(name, None)
                elif now - self._over.setdefault(name, now) > _FORGOTTEN_AFTER:
                    del self._sent[name], self._over[name]
                    self._write()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=20)

    def _run(self) -> None:
        target, backoff = self._notification.target, Backoff(first=_FIRST_RETRY, longest=_LONGEST_RETRY)
        is_open = False
        while (alert := self._next()) is not None:
            try:
                if not is_open:
                    target.open(f"{self._app}.{self._notification.name}")
                    is_open = True
                self._send(alert)
                backoff.reset()
            except Exception as error:
                if getattr(error, "retriable", False):
                    wait = backoff.next()
                    log.warning(
                        "notification %s: %s; retrying in %.0f s",
                        self._notification.name,
                        redact(str(error)),
                        wait.total_seconds(),
                    )
                    self._pause(wait)
                    continue
                log.error("notification %s: %s", self._notification.name, redact(f"{error}"))
            self._note(alert)
        if is_open:
            target.close()

    def _send(self, alert: Alert) -> None:
        found: Any = self._notification.handler(alert)
        values = cast("list[Any]", found if isinstance(found, list) else [found])
        # The key stays the same when it is sent again: a receiver drops what it has.
        record = Record(
            value=alert,
            key=None,
            topic="alerts",
            partition=0,
            offset=0,
            timestamp=datetime.now(UTC),
            identity=f"{alert.id} {alert.since.isoformat()}".encode(),
            scope=f"{self._app}/{self._notification.name}",
        )
        rows = [Row(value, record, index) for index, value in enumerate(values) if value is not None]
        for row in rows:
            self._notification.target.write([row])
        if rows:
            self._notification.target.flush()

    def _next(self) -> Alert | None:
        """The next alert to send; None when it is time to stop."""
        with self._changed:
            while not self._closing:
                waiting = [alert for name, alert in self._present.items() if name not in self._sent]
                if waiting:
                    return min(waiting, key=lambda alert: alert.since)
                self._changed.wait()
        return None

    def _pause(self, wait: timedelta) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing, wait.total_seconds())

    def _note(self, alert: Alert) -> None:
        with self._changed:
            self._sent[alert.id] = alert.since.isoformat()
            self._write()

    def _write(self) -> None:
        write_whole(self._file, json.dumps(self._sent))


def _read(file: Path) -> dict[str, str]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
