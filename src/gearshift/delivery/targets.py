"""Where the results of a handler go: nowhere, to a destination, or to a topic within a transaction."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from gearshift.errors import FencedError, GearshiftError, PermanentError, ProduceError, RetriableError
from gearshift.record import Destination, Record, Row
from gearshift.schemas.payloads import codec
from gearshift.schemas.wire import head
from gearshift.topics import key_bytes

if TYPE_CHECKING:
    from gearshift.definitions import Topic
    from gearshift.schemas import Registry
    from gearshift.settings import Settings
    from gearshift.topics import TransactionalProducer

_MOST_ACCEPTED = 10_000  # rows of calls that failed for good, and were not replayed

Spot = tuple[str, int, int]
"""Topic, partition and offset of a record."""
Results = Sequence[tuple[Record[Any], Any]]
"""Each record with what the handler returned for it: None, a value, or a list of values."""


class Target(Protocol):
    """Takes the results of a call."""

    batch: int
    """How many records one call should bring."""

    def write(self, results: Results) -> None:
        """Write the results, all of them or none; they are of records of one partition, of the topic with this id."""
        ...

    def flush(self) -> None:
        """Return when all that was written is safe."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Nowhere:
    """The handler itself did what is to be done."""

    batch = 1

    def write(self, results: Results) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class ToDestination:
    """Rows for a destination."""

    def __init__(
        self,
        destination: Destination,
        group_id: str,
        settings: Settings | None,
        handler: Callable[..., Any],
        *,
        captured: bool,
    ) -> None:
        """`handler` says what it returns, if it is annotated; `captured` is whether its records are changes."""
        self.batch = destination.batch
        self._accepted: set[str] = set()
        self._destination = destination
        locate = getattr(destination, "locate", None)
        if settings is not None and locate is not None:
            locate(settings)  # where the stores are that the destination was not told of
        destination.open(group_id)
        check = getattr(destination, "check", None)
        if check is not None:
            try:
                check(handler, captured=captured)  # what it is to take, before the first record
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
        if len(rows) > 1 and self.batch == 1:
            self._write_each(rows)
        elif rows:
            self._destination.write(rows)

    def _write_each(self, rows: Sequence[Row]) -> None:
        """Write row by row: those before one that fails were accepted, and the next try leaves them out."""
        keys = [row.idempotency_key for row in rows]
        for row, key in zip(rows, keys, strict=True):
            if key not in self._accepted:
                self._destination.write([row])
                self._accepted.add(key)
        self._accepted.difference_update(keys)
        if len(self._accepted) > _MOST_ACCEPTED:
            self._accepted.clear()

    def flush(self) -> None:
        """Let the destination make sure of them."""
        self._destination.flush()

    def close(self) -> None:
        """Close the destination."""
        self._destination.close()


class ToTopic:
    """Records for a topic, in the transaction that also commits the offsets they came from."""

    batch = 1

    def __init__(
        self,
        topic: Topic,
        transactions: TransactionalProducer,
        registry: Registry,
        refused: Mapping[Spot, ProduceError],
    ) -> None:
        """`refused` are the records whose results the topic never takes, found by whoever commits."""
        self._refused = refused
        self._topic = topic
        self._transactions = transactions
        self._head = head(registry.register(topic))
        self._encode = codec(topic.value, topic.format).encode

    def write(self, results: Results) -> None:
        """Send the values of the results."""
        for record, _ in results if self._refused else ():
            if error := self._refused.get((record.topic, record.partition, record.offset)):
                raise error
        # Encoded before the first is sent: a value that does not fit must not leave half a result behind.
        records = [self._record(value) for _, result in results for value in values_of(result)]
        for key, value in records:
            with until_aborted(self._transactions):
                self._transactions.send_bytes(self._topic.name, value, key=key)

    def flush(self) -> None:
        """The commit of the transaction does it."""

    def close(self) -> None:
        """The transactions are closed by whoever opened them."""

    def _record(self, value: Any) -> tuple[bytes | None, bytes]:
        if not isinstance(value, self._topic.value):
            raise PermanentError(
                f"the handler returned {type(value).__name__}, and the topic holds {self._topic.value.__name__}",
                hint="return what the topic's value= says",
                topic=self._topic.name,
            )
        key = key_bytes(getattr(value, self._topic.key)) if self._topic.key is not None else None
        return key, self._head + self._encode(value)


class TransactionGone(Exception):  # noqa: N818  (not an error: its records are worked on again)
    """The transaction was aborted under way."""


@contextmanager
def until_aborted(transactions: TransactionalProducer) -> Generator[None]:
    """Tell a transaction that is gone, which no second attempt of ours can mend, from a failing handler."""
    try:
        yield
    except FencedError:
        raise
    except GearshiftError as error:
        # Whatever took it back: another record may have, in another lane.
        if isinstance(error, RetriableError) or not transactions.is_open:
            raise TransactionGone(str(error)) from error
        raise


def values_of(result: Any) -> list[Any]:
    """What a handler returned, as a list.

    >>> values_of(None), values_of("a"), values_of(["a", "b"])
    ([], ['a'], ['a', 'b'])
    """
    if result is None:
        return []
    return list(result) if isinstance(result, list | tuple) else [result]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
