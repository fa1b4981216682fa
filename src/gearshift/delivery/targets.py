"""Where a handler's results are written: nowhere, to a destination, or to a topic in a transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from gearshift.delivery.assignment import NotOwned, RecordId
from gearshift.delivery.dedup import Dedup
from gearshift.errors import FencedError, GearshiftError, PermanentError, ProduceError, RetriableError
from gearshift.record import Destination, KeepsOffsets, Record, Row
from gearshift.schemas.payloads import codec
from gearshift.schemas.wire import head
from gearshift.topics import key_bytes

if TYPE_CHECKING:
    from gearshift.definitions import Topic
    from gearshift.delivery.decoding import PolledRecord
    from gearshift.schemas import Registry
    from gearshift.settings import Settings
    from gearshift.topics import DeadLetter, DeadLetters, TransactionalProducer

_MAX_ACCEPTED = 10_000  # rows of calls that failed permanently and were not replayed

Results = Sequence[tuple[Record[Any], Any]]
"""Each record with the handler's return value: None, a value, or a list of values."""


class Target(Protocol):
    """Writes the results of a handler."""

    batch_size: int
    """How many records to pass to one `write`."""

    def write(self, results: Results) -> None:
        """Write the results of records of one partition, all of them or none."""
        ...

    def flush(self) -> None:
        """Return when everything written is durable."""
        ...

    def stored(self, topic: str, partition: int, topic_id: str | None) -> int | None:
        """The offset after the last record written, for a store that keeps its own offsets; from memory."""
        ...

    def look_up(self, topic: str, partition: int, topic_id: str | None, noted: int) -> int:
        """The same, read from the store; `noted` is the offset in the group's last commit."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class NoTarget:
    """For a handler that does the work itself and returns nothing."""

    batch_size = 1

    def write(self, results: Results) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def stored(self, topic: str, partition: int, topic_id: str | None) -> int | None:
        """None: it keeps no offsets."""
        return None

    def look_up(self, topic: str, partition: int, topic_id: str | None, noted: int) -> int:
        """The noted offset."""
        return noted

    def close(self) -> None:
        """Do nothing."""


class DestinationTarget:
    """Writes rows to a destination."""

    def __init__(
        self,
        destination: Destination,
        group_id: str,
        settings: Settings | None,
        handler: Callable[..., Any],
        *,
        captured: bool,
    ) -> None:
        """`handler` is checked by its return annotation; `captured`: its records are database changes."""
        self.batch_size = destination.batch_size
        self._accepted: set[str] = set()
        self._destination = destination
        self._keeps = destination if isinstance(destination, KeepsOffsets) else None
        locate = getattr(destination, "locate", None)
        if settings is not None and locate is not None:
            locate(settings)  # find the store if the destination was declared without an address
        destination.open(group_id)
        check = getattr(destination, "check", None)
        if check is not None:
            try:
                check(handler, captured=captured)  # before the first record
            except BaseException:
                destination.close()
                raise

    def write(self, results: Results) -> None:
        """Write the rows of the results."""
        rows = [
            Row(value, record, index)
            for record, result in results
            for index, value in enumerate(values_of(result))
        ]
        if len(rows) > 1 and self.batch_size == 1:
            self._write_each(rows)
        elif rows:
            self._destination.write(rows)

    def _write_each(self, rows: Sequence[Row]) -> None:
        """Write row by row; a retry skips the rows that were accepted before the failure."""
        keys = [row.idempotency_key for row in rows]
        for row, key in zip(rows, keys, strict=True):
            if key not in self._accepted:
                self._destination.write([row])
                self._accepted.add(key)
        self._accepted.difference_update(keys)
        if len(self._accepted) > _MAX_ACCEPTED:
            self._accepted.clear()

    def flush(self) -> None:
        """Flush the destination."""
        self._destination.flush()

    def stored(self, topic: str, partition: int, topic_id: str | None) -> int | None:
        """The destination's offset, if it keeps offsets."""
        return None if self._keeps is None else self._keeps.stored(topic, partition, topic_id)

    def look_up(self, topic: str, partition: int, topic_id: str | None, noted: int) -> int:
        """The offset in the destination's store, if it keeps offsets."""
        return noted if self._keeps is None else self._keeps.look_up(topic, partition, topic_id, noted)

    def close(self) -> None:
        """Close the destination."""
        self._destination.close()


class TopicTarget:
    """Produces records to a topic, in the transaction that also commits the consumed offsets."""

    batch_size = 1

    def __init__(
        self,
        topic: Topic,
        transactions: TransactionalProducer,
        registry: Registry,
        rejected: Mapping[RecordId, ProduceError],
    ) -> None:
        """`rejected` holds the records whose results the brokers do not accept, found when committing."""
        self._rejected = rejected
        self._topic = topic
        self._transactions = transactions
        self._head = head(registry.register(topic))
        self._encode = codec(topic.value, topic.format).encode

    def write(self, results: Results) -> None:
        """Produce the values of the results."""
        for record, _ in results if self._rejected else ():
            if error := self._rejected.get((record.topic, record.partition, record.offset)):
                raise error
        # Encode all before sending the first: an invalid value must not leave a partial result.
        records = [self._record(value) for _, result in results for value in values_of(result)]
        for key, value in records:
            with detect_abort(self._transactions):
                self._transactions.send_bytes(self._topic.name, value, key=key)

    def flush(self) -> None:
        """Do nothing: the commit of the transaction flushes."""

    def stored(self, topic: str, partition: int, topic_id: str | None) -> int | None:
        """None: it keeps no offsets."""
        return None

    def look_up(self, topic: str, partition: int, topic_id: str | None, noted: int) -> int:
        """The noted offset."""
        return noted

    def close(self) -> None:
        """Do nothing: the producer is closed by its owner."""

    def _record(self, value: Any) -> tuple[bytes | None, bytes]:
        if not isinstance(value, self._topic.value):
            raise PermanentError(
                f"the handler returned {type(value).__name__}, but the topic holds {self._topic.value.__name__}",
                hint=f"return {self._topic.value.__name__}",
                topic=self._topic.name,
            )
        key = key_bytes(getattr(value, self._topic.key)) if self._topic.key is not None else None
        return key, self._head + self._encode(value)


class SideOutputs(Protocol):
    """Takes what a delivery writes besides results: dead letters and dedup marks."""

    def write_dead_letters(self, letters: list[DeadLetter]) -> None:
        """Write dead letters, and return when they are durable, or part of the open transaction."""
        ...

    def mark_delivered(self, records: list[PolledRecord]) -> None:
        """Write dedup marks, and return when they are durable, or part of the open transaction."""
        ...


class DirectOutputs:
    """Side outputs that are written at once, outside of a transaction."""

    def __init__(self, letters: DeadLetters, target: Target, dedup: Dedup | None) -> None:
        self._letters = letters
        self._target = target
        self._dedup = dedup
        self._lock = threading.Lock()

    def write_dead_letters(self, letters: list[DeadLetter]) -> None:
        """Write dead letters, one thread at a time."""
        with self._lock:
            self._letters.write(letters)

    def mark_delivered(self, records: list[PolledRecord]) -> None:
        """Write dedup marks, after the results: a marked record is never delivered again."""
        assert self._dedup is not None
        self._target.flush()
        try:
            self._dedup.mark([(record.partition, record.identity or b"") for record in records])
        except RetriableError as error:
            raise NotOwned from error


class TransactionAborted(Exception):  # noqa: N818  (not an error: its records are handled again)
    """The open transaction was aborted."""


@contextmanager
def detect_abort(transactions: TransactionalProducer) -> Generator[None]:
    """Raise TransactionAborted for an error that ended the transaction, which no retry of the record can fix."""
    try:
        yield
    except FencedError:
        raise
    except GearshiftError as error:
        # A record in another lane may have caused the abort.
        if isinstance(error, RetriableError) or not transactions.is_open:
            raise TransactionAborted(str(error)) from error
        raise


def values_of(result: Any) -> list[Any]:
    """A handler's return value as a list.

    >>> values_of(None), values_of("a"), values_of(["a", "b"])
    ([], ['a'], ['a', 'b'])
    """
    if result is None:
        return []
    return list(result) if isinstance(result, list | tuple) else [result]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
