"""After a process died: one record at a time for a while, and whoever looks after it knows which."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from gearshift.errors import ProcessDiedError

Spot = tuple[str, int, int]
"""Topic, partition and offset of a record."""
Message = Any  # confluent_kafka.Message, of which the library types nothing
_ON_FOR = 30.0  # seconds: what was under way at the death is at the beginning of what comes again


class Care:
    """Tells which records are in the handler's hands, so that a death of the process tells whose it was.

    `killers` are the records that have killed so often that they are set aside, with the number of deaths.
    """

    def __init__(self, tell: Callable[[list[Spot]], None], killers: Mapping[Spot, int]) -> None:
        self._tell = tell
        self._killers = dict(killers)
        self._until = time.monotonic() + _ON_FOR
        self._one_at_a_time = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether records are still handled one at a time."""
        return time.monotonic() < self._until

    @property
    def is_needed(self) -> bool:
        """Whether a record may have to be set aside, or told of."""
        return bool(self._killers) or self.is_on

    def deaths_of(self, message: Message) -> int:
        """How often this record has killed, if it is to be set aside for that."""
        return self._killers.get((message.topic(), message.partition(), message.offset()), 0)

    def watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, told of before and after."""

        def calling(argument: Any) -> Any:
            if not self.is_on:
                return call(argument)
            records = cast("list[Any]", argument) if isinstance(argument, list) else [argument]
            with self._one_at_a_time:
                self._tell([(record.topic, record.partition, record.offset) for record in records])
                try:
                    return call(argument)
                finally:
                    self._tell([])

        return calling


def killer(deaths: int) -> ProcessDiedError:
    """Why a record is set aside that nobody survived."""
    return ProcessDiedError(
        f"the process died {deaths} times while the handler had this record",
        hint="see the delivery's log for its last words, mend the handler, then replay it",
    )
