"""Ctrl-C in a demo: the first one ends it, and none of them interrupts the end."""

from __future__ import annotations

import logging
import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Raises KeyboardInterrupt at the first signal; while the demo stops, signals wait until it has stopped."""

    def __init__(self) -> None:
        self._came = False
        self._held = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._came and kind is None:
            raise KeyboardInterrupt

    def hold(self) -> None:
        """Interrupt nothing from here on: what was started is being stopped."""
        self._held = True

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        if not self._held:
            self._held = True
            raise KeyboardInterrupt


def is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a line of the log is no Ctrl-C, which py4j logs with its traceback and raises again."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _print_no_interrupt(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


# A demo takes a second to import what it needs, which Ctrl-C should end without a traceback.
sys.excepthook = _print_no_interrupt
