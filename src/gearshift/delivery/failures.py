"""Failures of a record: whether and when to retry, when to stop the delivery, and the dead letter."""

from __future__ import annotations

import random
import traceback
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gearshift.definitions import Retry
from gearshift.delivery.assignment import NotOwned
from gearshift.delivery.targets import TransactionAborted
from gearshift.errors import (
    DecodeError,
    DeliveryError,
    FencedError,
    GearshiftError,
    PermanentError,
    RetriableError,
)
from gearshift.redaction import redact
from gearshift.topics import DeadLetter, replayed_place

if TYPE_CHECKING:
    from gearshift.definitions import Delivery
    from gearshift.delivery.decoding import PolledRecord

# Raised by mistakes in the data or the code: the next attempt would raise it again.
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
    """Whether the same call may succeed later: its `retriable` attribute, else decided by its class.

    >>> is_retriable(ConnectionRefusedError()), is_retriable(KeyError("meter_id"))
    (True, False)
    """
    declared = getattr(error, "retriable", None)
    if isinstance(declared, bool):
        return declared
    return not isinstance(error, _PERMANENT)


def backoff(attempt: int, retry: Retry, error: BaseException | None = None) -> timedelta:
    """The wait before a retry (the first retry is 1): doubled each time, with jitter.

    >>> backoff(3, Retry(backoff=timedelta(seconds=1))) <= timedelta(seconds=4)
    True
    """
    retry_after = getattr(error, "retry_after", None)
    if isinstance(retry_after, timedelta):
        return min(max(retry_after, retry.backoff), max(retry.max_backoff, retry.timeout))
    longest = min(retry.backoff * 2 ** min(attempt - 1, 30), retry.max_backoff)
    return longest * random.uniform(0.5, 1.0)


def stops_delivery(error: Exception) -> bool:
    """Whether it is not about this record: the transaction or its producer is gone, or the destination is unusable.

    A dropped table or a changed password must stop the delivery, not move the whole topic to the dead letters.
    """
    if isinstance(error, TransactionAborted | NotOwned | FencedError):
        return True
    return isinstance(error, DeliveryError) and not isinstance(error, RetriableError | PermanentError)


def describe(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, GearshiftError):
        return str(error)
    return redact(f"{type(error).__name__}: {error}")


def dead_letter(
    record: PolledRecord, error: Exception, stage: str, *, delivery: Delivery, app: str
) -> DeadLetter:
    """The dead letter of a failed record."""
    message = record.message
    headers = tuple(message.headers() or ())
    partition, offset = replayed_place(headers) or (message.partition(), message.offset())
    value = message.value()
    return DeadLetter(
        topic=delivery.topic.name,
        partition=partition,
        offset=offset,
        key=message.key(),
        value=value,
        headers=headers,
        app=app,
        delivery=delivery.name,
        group_id=delivery.group_id,
        idempotency_key=record.idempotency_key,
        stage=stage,
        exception=f"{type(error).__module__}.{type(error).__qualname__}",
        reason=describe(error),
        stacktrace=None if isinstance(error, DecodeError) else _stacktrace(error),
        schema_id=int.from_bytes(value[1:5], "big") if value and value[0] == 0 and len(value) > 5 else None,
    )


def _stacktrace(error: BaseException) -> str:
    """The stack trace without the frames of this package."""
    ours = Path(__file__).parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent != ours]
    return "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)])
