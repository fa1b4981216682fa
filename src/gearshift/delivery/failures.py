"""What a failure says: of the record, and in its dead letter."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from gearshift.delivery.targets import TransactionGone
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
    from gearshift.delivery.polled import Polled


class NotOurs(Exception):  # noqa: N818  (not an error: the record is another consumer's now)
    """The partition went to another consumer in the middle of the work."""


def is_final(error: Exception) -> bool:
    """Whether it says nothing about this record: a transaction or its producer is gone, or the destination is unusable.

    A table that was dropped or a password that was changed must stop the delivery, not empty the topic into
    the dead letters.
    """
    if isinstance(error, TransactionGone | NotOurs | FencedError):
        return True
    return isinstance(error, DeliveryError) and not isinstance(error, RetriableError | PermanentError)


def says(error: BaseException) -> str:
    """An error in a line."""
    if isinstance(error, GearshiftError):
        return str(error)
    return redact(f"{type(error).__name__}: {error}")


def letter_of(record: Polled, error: Exception, stage: str, *, delivery: Delivery, app: str) -> DeadLetter:
    """The dead letter of a record that failed."""
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
        reason=says(error),
        stacktrace=None if isinstance(error, DecodeError) else _trace(error),
        schema_id=int.from_bytes(value[1:5], "big") if value and value[0] == 0 and len(value) > 5 else None,
    )


def _trace(error: BaseException) -> str:
    """The stack of the user's own code, without ours."""
    ours = Path(__file__).parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent != ours]
    return "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)])
