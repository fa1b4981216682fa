"""Writes dead letters: the original bytes on `<topic>.dlq`, with the reason in Kafka Connect's headers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gearshift.errors import ProduceError, TopicMissingError
from gearshift.redaction import redact
from gearshift.topics.admin import Admin
from gearshift.topics.client import LARGEST_RECORD
from gearshift.topics.producer import FAILURES_HINT, Producer, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gearshift.connection import Connection

CONNECT = "__connect.errors."
OURS = "gearshift."
REPLAYS = ".replay"
"""Suffix of the topic through which dead letters are replayed to one delivery."""
REPLAY_FOR = "gearshift.replay-for"
"""Header of a record on `<topic>.replay`: the group id of the delivery that it is for."""
REPLAY_OF = "gearshift.replay-of"
"""Header of a record on `<topic>.replay`: `partition/offset` of the record on the topic itself."""
REPLAY_KEY = "gearshift.replay-key"
"""Header of a record on `<topic>.replay`: the idempotency key that its delivery uses again."""
RESULT_FOR = "gearshift.result-for"
"""Header of a row of a pipeline's result that never was a record: the topic or table that rejected it."""
REASON_HEADERS = (f"{CONNECT}exception.message", f"{OURS}reason")
_LONGEST_MESSAGE = 2000  # every reader of the topic fetches the headers too
_LONGEST_STACKTRACE = 4096
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that a pipeline or a delivery could not process, with the reason.

    For a record from `<topic>.replay`, partition and offset are those on the topic itself: see `replayed_place`.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    app: str
    pipeline: str | None = None
    delivery: str | None = None
    group_id: str | None = None
    idempotency_key: str | None = None
    stage: str = "VALUE_CONVERTER"
    exception: str = "gearshift.errors.DecodeError"
    reason: str
    stacktrace: str | None = None
    schema_id: int | None = None
    task_id: int = 0

    @property
    def failed_in(self) -> str:
        """The consumer group that failed: the delivery's, or `APP.PIPELINE`."""
        return self.group_id or f"{self.app}.{self.pipeline or self.delivery}"


def dead_letter_headers(letter: DeadLetter) -> list[tuple[str, bytes | None]]:
    """The headers of a dead letter: those of the record, then Kafka Connect's, then ours.

    Headers of an earlier failure are dropped, so that a record that is replayed has only those of the last one.
    """
    decoding = letter.stage == "VALUE_CONVERTER"
    reason = redact(letter.reason)[
        :_LONGEST_MESSAGE
    ]  # redacted before it is cut, because the cut could split a secret
    connect = {
        "topic": letter.topic,
        "partition": str(letter.partition),
        "offset": str(letter.offset),
        "connector.name": letter.failed_in,
        "task.id": str(letter.task_id),
        "stage": letter.stage,
        "class.name": "gearshift.schemas.Decoder" if decoding else letter.delivery or letter.pipeline,
        "exception.class.name": letter.exception,
        "exception.message": reason,
        "exception.stacktrace": _end_of(letter.stacktrace),
    }
    ours = {
        "reason": reason,
        "schema_id": None if letter.schema_id is None else str(letter.schema_id),
        "delivery": letter.delivery,
        "group_id": letter.group_id,
        "idempotency_key": letter.idempotency_key,
    }
    return [
        *own_headers(letter.headers),
        *((CONNECT + name, _bytes(value)) for name, value in connect.items() if value is not None),
        *((OURS + name, _bytes(value)) for name, value in ours.items() if value is not None),
    ]


def result_headers(app: str, pipeline: str, target: str, *, table: bool = False) -> dict[str, str]:
    """The headers, without the reason, of a row of a pipeline's result that its target rejected."""
    return {
        f"{CONNECT}connector.name": f"{app}.{pipeline}",
        f"{CONNECT}stage": "TASK_PUT" if table else "KAFKA_PRODUCE",
        f"{CONNECT}class.name": pipeline,
        f"{CONNECT}exception.class.name": f"gearshift.errors.{'TableError' if table else 'EncodeError'}",
        RESULT_FOR: target,
    }


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """The original headers of a record, without those of dead letters.

    >>> own_headers([("trace", b"1"), ("gearshift.reason", b"no"), ("__connect.errors.topic", b"t")])
    [('trace', b'1')]
    """
    return [(name, value) for name, value in headers if not name.startswith((CONNECT, OURS))]


def replayed_place(headers: Iterable[tuple[str, bytes | None]]) -> tuple[int, int] | None:
    """The partition and offset on the topic itself of a record from `<topic>.replay`.

    >>> replayed_place([("gearshift.replay-of", b"2/77")]), replayed_place([])
    ((2, 77), None)
    """
    text = next((value for name, value in headers if name == REPLAY_OF), None) or b""
    partition, slash, offset = text.partition(b"/")
    if not (slash and partition.isdigit() and offset.isdigit()):
        return None
    return int(partition), int(offset)


class DeadLetters:
    """Writes dead letters; a context manager that threads may share."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Any record of the topic must fit on its dead-letter topic, whatever limit its producer had.
        self._producer = Producer(connection, largest=LARGEST_RECORD)

    def write(self, letters: Iterable[DeadLetter]) -> int:
        """Send the letters, wait until they are delivered, and return their number; ProduceError if one failed.

        The offsets of their records may be committed only then. A missing dead-letter topic is created.
        """
        receipt = Receipt()
        topics: set[str] = set()
        for letter in letters:
            if letter.topic not in topics:
                topics.add(letter.topic)
                self._require(letter.topic)
            self._producer.send_bytes(
                f"{letter.topic}.dlq",
                letter.value,
                key=letter.key,
                headers=dead_letter_headers(letter),
                receipt=receipt,
            )
        try:
            self._producer.await_reports(receipt)
        except ProduceError as error:
            if error.hint == FAILURES_HINT:
                error.hint = "check the topic's settings, such as max.message.bytes"
            raise
        return receipt.sent

    def _require(self, topic: str) -> None:
        name = f"{topic}.dlq"
        if self._producer.lacks(name):
            try:
                with Admin(self._connection) as admin:
                    admin.ensure_like(name, topic)
            except TopicMissingError:
                return  # without the topic its number of partitions is unknown; the producer reports the error
            _log.warning("created %s, which did not exist", name)

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._producer.__exit__(kind, *rest)


def _end_of(stacktrace: str | None) -> str | None:
    """The end of a stack trace, which is nearest to the error."""
    return None if stacktrace is None else redact(stacktrace)[-_LONGEST_STACKTRACE:]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
