"""After a crash of the process, report which record is being handled, so that another crash shows which one caused it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from gearshift.delivery.assignment import RecordId
from gearshift.errors import ProcessDiedError

Message = Any  # confluent_kafka.Message, which has no type hints
_ACTIVE_FOR = 30.0  # seconds: the records in flight at the crash are the first to be delivered again


class CrashGuard:
    """Handles one record at a time for a while, and reports each before it is handled.

    `crashes` counts the crashes of the records that crashed the process so often that they become dead letters.
    """

    def __init__(self, report: Callable[[list[RecordId]], None], crashes: Mapping[RecordId, int]) -> None:
        self._report = report
        self._crashes = dict(crashes)
        self._until = time.monotonic() + _ACTIVE_FOR
        self._one_at_a_time = threading.Lock()

    @property
    def is_active(self) -> bool:
        """Whether records are still handled one at a time."""
        return time.monotonic() < self._until

    @property
    def is_needed(self) -> bool:
        """Whether records have to be reported or looked up in `crashes`."""
        return bool(self._crashes) or self.is_active

    def crashes_of(self, message: Message) -> int:
        """How often this record crashed the process; 0 if it may be handled."""
        return self._crashes.get((message.topic(), message.partition(), message.offset()), 0)

    def guard(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a call so that its records are reported before it and cleared after it."""

        def guarded(argument: Any) -> Any:
            if not self.is_active:
                return call(argument)
            records = cast("list[Any]", argument) if isinstance(argument, list) else [argument]
            with self._one_at_a_time:
                self._report([(record.topic, record.partition, record.offset) for record in records])
                try:
                    return call(argument)
                finally:
                    self._report([])

        return guarded


def crash_error(crashes: int) -> ProcessDiedError:
    """The error of a record that crashed the process."""
    return ProcessDiedError(
        f"the process crashed {crashes} times while handling this record",
        hint="check the delivery's log, fix the handler, then replay the record",
    )
