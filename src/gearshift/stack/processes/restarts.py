"""Restarts services of the local stack that have ended."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from gearshift.backoff import Backoff
from gearshift.errors import GearshiftError
from gearshift.settings import OPTIONAL_PROCESSES
from gearshift.stack.processes.state import Running
from gearshift.stack.services.kafka import failed_storage
from gearshift.stack.stack import Stack

log = logging.getLogger(__name__)

_CHECK_INTERVAL = 0.5
_FIRST_BACKOFF = timedelta(seconds=2)
_LONGEST_BACKOFF = timedelta(seconds=30)
_STABLE_AFTER = 60.0
_MIN_FREE_DISK = 16 << 20  # bytes; a broker that starts with less would end again at once


class ServiceSupervisor:
    """Restarts the services that this process started; their clients wait until they are back.

    A broker is restarted if it exited because it could not write, once its disk has free space. A broker that was
    killed is not restarted, nor is the registry: three brokers keep working with two, and a test may want that.
    """

    problem: str | None = None
    """Why no broker is available, if known."""

    def __init__(self, stack: Stack, *, progress: Callable[[str], None]) -> None:
        self._stack = stack
        self._progress = progress
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="service supervisor", daemon=True)
        self._restarts: dict[str, _Restarts] = {}

    def __enter__(self) -> Self:
        if self._stack.owned:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(_CHECK_INTERVAL):
            dead = [(service, self._reason(service)) for service in self._stack.dead()]
            if (
                self._stack.stopping
            ):  # read after `dead`: a stack is marked as stopping before its services end
                return
            for service, reason in dead:
                if reason is not None and self._is_due(service.name) and self._has_disk(service, reason):
                    self._restart(service.name, reason, service.log)
            if not any(service.name.startswith("kafka-") for service in self._stack.dead()):
                self.problem = None

    def _reason(self, service: Running) -> str | None:
        """Why a service that has ended should be restarted; None if it should not."""
        if service.name in OPTIONAL_PROCESSES:
            return "it ended"
        if not (service.name.startswith("kafka-") and self._stack.exited_with_error(service.name)):
            return None
        # On a full disk the log may end before the reason.
        return failed_storage(Path(service.log)) or "it exited with an error"

    def _has_disk(self, service: Running, reason: str) -> bool:
        """Whether a broker that could not write can write now; if not, log it once."""
        if not service.name.startswith("kafka-"):
            return True
        data = self._stack.folder / "kafka" / service.name
        free = shutil.disk_usage(data).free
        cause = (
            f"its disk is full ({data}); free space there, and it"
            if free < _MIN_FREE_DISK
            else f"{reason}; it"
        )
        problem = f"broker {service.name} has ended: {cause} will be restarted (its log is {service.log})"
        if problem != self.problem:
            self.problem = problem
            log.error("%s", problem)
        return free >= _MIN_FREE_DISK

    def _is_due(self, name: str) -> bool:
        restarts = self._restarts.get(name)
        if restarts is None:
            return True
        since = time.monotonic() - restarts.last
        if since > _STABLE_AFTER:
            del self._restarts[name]
            return True
        return since >= restarts.delay

    def _restart(self, name: str, reason: str, log_file: str) -> None:
        self._progress(f"restarting {name}: {reason} (its log is {log_file})")
        try:
            self._stack.start_service(name)
        except GearshiftError as error:
            log.error("%s does not restart: %s", name, error)
        self._restarts.setdefault(name, _Restarts()).count()


class _Restarts:
    """When a service was last restarted, and how long to wait before the next restart."""

    def __init__(self) -> None:
        self.last = 0.0
        self.delay = 0.0
        self._backoff = Backoff(first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF)

    def count(self) -> None:
        """Note a restart."""
        self.last = time.monotonic()
        self.delay = self._backoff.next().total_seconds()
