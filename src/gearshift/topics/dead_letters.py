"""Sets records aside: the original bytes on `<topic>.dlq`, with Kafka Connect's headers saying why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gearshift.topics.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gearshift.connection import Connection

CONNECT = "__connect.errors."
OURS = "gearshift."
_LONGEST_MESSAGE = 2000  # a header rides along with every record: a reason, not a report


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that could not be processed: what it was, where it was, and why it is set aside."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    app: str
    pipeline: str
    stage: str = "VALUE_CONVERTER"
    exception: str = "gearshift.errors.DecodeError"
    reason: str
    schema_id: int | None = None
    task_id: int = 0


def dead_letter_headers(letter: DeadLetter) -> list[tuple[str, bytes | None]]:
    """The headers of a dead letter: those it came with, then Kafka Connect's, then ours.

    Headers of an earlier death are dropped, so that a record that is replayed and fails again tells of today.
    """
    connect = {
        "topic": letter.topic,
        "partition": str(letter.partition),
        "offset": str(letter.offset),
        "connector.name": f"{letter.app}.{letter.pipeline}",
        "task.id": str(letter.task_id),
        "stage": letter.stage,
        "class.name": "gearshift.schemas.Decoder" if letter.stage == "VALUE_CONVERTER" else letter.pipeline,
        "exception.class.name": letter.exception,
        "exception.message": letter.reason[:_LONGEST_MESSAGE],
    }
    ours = {"reason": letter.reason[:_LONGEST_MESSAGE]}
    if letter.schema_id is not None:
        ours["schema_id"] = str(letter.schema_id)
    kept = [(name, value) for name, value in letter.headers if not name.startswith((CONNECT, OURS))]
    return [
        *kept,
        *((CONNECT + name, _bytes(value)) for name, value in connect.items()),
        *((OURS + name, _bytes(value)) for name, value in ours.items()),
    ]


class DeadLetters:
    """Writes dead letters, as a context manager."""

    def __init__(self, connection: Connection) -> None:
        self._producer = Producer(connection)

    def write(self, letters: Iterable[DeadLetter]) -> int:
        """Send the letters and wait until they have arrived; the count, or ProduceError if one did not.

        Only then may the offsets behind them be committed.
        """
        count = 0
        for letter in letters:
            self._producer.send_bytes(
                f"{letter.topic}.dlq", letter.value, key=letter.key, headers=dead_letter_headers(letter)
            )
            count += 1
        self._producer.flush()
        return count

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._producer.__exit__(kind, *rest)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
