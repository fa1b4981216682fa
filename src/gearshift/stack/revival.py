"""Starts a store or Connect of the local stack again when it has ended by itself."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gearshift.errors import GearshiftError
from gearshift.settings import KNOWN_SERVICES
from gearshift.stack.stack import Stack

log = logging.getLogger(__name__)

_LOOKS_EVERY = 0.5
_LONGEST_WAIT = 30.0
_STABLE_AFTER = 60.0


class Revival:
    """Watches the optional services that this process started: whoever uses them waits for their return.

    Kafka and the registry are not among them: three brokers go on with two, and a test may want it so.
    """

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
            dead = [service for service in self._stack.dead() if service.name in KNOWN_SERVICES]
            if self._stack.stopping:  # asked after it: who takes a stack down says so before
                return
            for service in dead:
                if self._is_due(service.name):
                    self._revive(service.name, service.log)

    def _is_due(self, name: str) -> bool:
        tries, last = self._tries.get(name, (0, 0.0))
        quiet = time.monotonic() - last
        if quiet > _STABLE_AFTER:
            self._tries.pop(name, None)
            return True
        return quiet >= min(2.0**tries, _LONGEST_WAIT)

    def _revive(self, name: str, log_file: str) -> None:
        tries = self._tries.get(name, (0, 0.0))[0]
        self._said(f"{name} ended; starting it again (its log is {log_file})")
        try:
            self._stack.start_service(name)
        except GearshiftError as error:
            log.error("%s does not start again: %s", name, error)
        self._tries[name] = (tries + 1, time.monotonic())
