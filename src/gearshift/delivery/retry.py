"""Which failures may pass, and how long to wait before the next attempt. Pure."""

from __future__ import annotations

import random
from datetime import timedelta

from gearshift.definitions import Retry

# What a mistake in the data or in the code raises: the next attempt would raise it again.
_PERMANENT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
)


def is_retriable(error: BaseException) -> bool:
    """Whether the same call may succeed later: what the error says of itself, else what kind it is.

    >>> is_retriable(ConnectionRefusedError()), is_retriable(KeyError("meter_id"))
    (True, False)
    """
    said = getattr(error, "retriable", None)
    if isinstance(said, bool):
        return said
    return not isinstance(error, _PERMANENT)


def wait_before(attempt: int, retry: Retry, error: BaseException | None = None) -> timedelta:
    """How long to wait before an attempt (the second is 1): doubled each time, with jitter so that consumers spread.

    >>> wait_before(3, Retry(first=timedelta(seconds=1))) <= timedelta(seconds=4)
    True
    """
    asked = getattr(error, "retry_after", None)
    if isinstance(asked, timedelta):
        return min(max(asked, retry.first), max(retry.longest, retry.within))
    most = min(retry.first * 2 ** min(attempt - 1, 30), retry.longest)
    return most * random.uniform(0.5, 1.0)
