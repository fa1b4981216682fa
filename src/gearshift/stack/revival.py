"""Starts a service of the local stack again when it has ended by itself."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from gearshift.errors import GearshiftError
from gearshift.settings import KNOWN_SERVICES
from gearshift.stack.kafka import failed_storage
from gearshift.stack.stack import Stack
from gearshift.stack.state import Running

log = logging.getLogger(__name__)

_LOOKS_EVERY = 0.5
_LONGEST_WAIT = 30.0
_STABLE_AFTER = 60.0
_ROOM = 16 << 20  # bytes; a broker that starts with less would end again at once


class Revival:
    """Watches the services that this process started: whoever uses them waits for their return.

    A broker is started again where it has ended itself because it could not write, once its disk has room. One that was
    killed is not, nor is the registry: three brokers go on with two, and a test may want it so.
    """

    problem: str | None = None
    """Why no broker answers, where that is known."""

    def __init__(self, stack: Stack, *, said: Callable[[str], None]) -> None:
        self._stack = stack
        self._said = said
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="revival", daemon=True)
        self._tries: dict[str, tuple[int, float]] = {}

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
        while not self._stopping.wait(_LOOKS_EVERY):
            dead = [(service, self._why(service)) for service in self._stack.dead()]
            if self._stack.stopping:  # asked after it: who takes a stack down says so before
                return
            for service, why in dead:
                if why is not None and self._is_due(service.name) and self._has_room(service, why):
                    self._revive(service.name, why, service.log)
            if not any(service.name.startswith("kafka-") for service in self._stack.dead()):
                self.problem = None

    def _why(self, service: Running) -> str | None:
        """Why a service that has ended is to start again; None if it is not."""
        if service.name in KNOWN_SERVICES:
            return "it ended"
        if not (service.name.startswith("kafka-") and self._stack.ended_itself(service.name)):
            return None
        # On a full disk its log may have ended before the reason.
        return failed_storage(Path(service.log)) or "it could not go on"

    def _has_room(self, service: Running, why: str) -> bool:
        """Whether a broker that could not write can now; if not, say so once."""
        if not service.name.startswith("kafka-"):
            return True
        data = self._stack.folder / "kafka" / service.name
        free = shutil.disk_usage(data).free
        reason = f"its disk is full ({data}); make room there, and it" if free < _ROOM else f"{why}; it"
        problem = f"broker {service.name} has ended: {reason} starts again (its log is {service.log})"
        if problem != self.problem:
            self.problem = problem
            log.error("%s", problem)
        return free >= _ROOM

    def _is_due(self, name: str) -> bool:
        tries, last = self._tries.get(name, (0, 0.0))
        quiet = time.monotonic() - last
        if quiet > _STABLE_AFTER:
            self._tries.pop(name, None)
            return True
        return quiet >= min(2.0**tries, _LONGEST_WAIT)

    def _revive(self, name: str, why: str, log_file: str) -> None:
        tries = self._tries.get(name, (0, 0.0))[0]
        self._said(f"{name} is started again: {why} (its log is {log_file})")
        try:
            self._stack.start_service(name)
        except GearshiftError as error:
            log.error("%s does not start again: %s", name, error)
        self._tries[name] = (tries + 1, time.monotonic())
