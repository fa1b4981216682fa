"""The one way tests wait."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

T = TypeVar("T")

# Brokers delete what was written a week ago, by the time that the record says, and look every five minutes.
LATELY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=4)
"""A midnight whose records a broker keeps for as long as tests take."""


def eventually(check: Callable[[], T], *, within: timedelta | float = 240, every: float = 0.05) -> T:
    """The first truthy answer of `check`; fails with the last one when the time is over.

    The time is long, since other tests run beside this one: it ends what stands still, and measures nothing. For the
    same reason a check that takes long is made less often.

    >>> eventually(lambda: 7)
    7
    """
    seconds = within.total_seconds() if isinstance(within, timedelta) else within
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if found := check():
            return found
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"not within {seconds:g} s; the last answer was {found!r}")
        time.sleep(max(every, 3 * (now - began)))


def closed_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    """Whether somebody on this machine takes connections on a port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
