"""What becomes of records: decoded, dropped if known, handled and written; tried again, or set aside."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gearshift.delivery.counts import Counts
from gearshift.delivery.once import Once
from gearshift.delivery.progress import Progress
from gearshift.delivery.retry import is_retriable, wait_before
from gearshift.delivery.targets import Target, TransactionGone
from gearshift.errors import (
    DecodeError,
    DeliveryError,
    GearshiftError,
    PermanentError,
    RegistryUnreachableError,
    RetriableError,
)
from gearshift.record import Record
from gearshift.topics import REPLAY_FOR, DeadLetter, replayed_place

if TYPE_CHECKING:
    from gearshift.definitions import Delivery

Message = Any
log = logging.getLogger(__name__)
_TELL_EVERY = 0.02  # seconds: records are told finished in bulk, which costs less than one by one


class Lease:
    """Until when, on the monotonic clock, a consumer need not ask whether it is still a member."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = 0.0


class NotOurs(Exception):  # noqa: N818  (not an error: the record is another consumer's now)
    """The partition went to another consumer in the middle of the work."""


class Handling:
    """Brings records to the handler, and its results to the target.

    `decode` gives a message's value, or None for one that tells nothing; `finish` is called once with each record that is done, in whichever thread that is known; `set_aside` writes
    dead letters and returns when they are safe; `is_ours` says whether this consumer may still act on a partition.
    """

    def __init__(
        self,
        delivery: Delivery,
        app: str,
        *,
        decode: Callable[[Message], Any],
        target: Target,
        once: Once | None,
        counts: Counts,
        finish: Callable[[Progress, list[Message]], None],
        set_aside: Callable[[list[DeadLetter]], None],
        lease: Lease,
        is_ours: Callable[[Progress], bool],
        keep: Callable[[Record[Any], Callable[[], None]], None] | None,
    ) -> None:
        self._delivery = delivery
        self._app = app
        self._decode = decode
        self._target = target
        self._once = once
        self._counts = counts
        self._finish = finish
        self._set_aside = set_aside
        self._lease = lease
        self._is_ours = is_ours
        self._keep = keep
        self._at_once = delivery.batch or target.batch
        self._topic = delivery.topic.name
        self._writes = delivery.target is not None
        self._by_list = delivery.batch is not None or target.batch > 1
        self._call = _in_a_loop(delivery.handler) if delivery.is_async else delivery.handler

    @property
    def at_once(self) -> int:
        """How many records one call takes."""
        return self._at_once

    def run(self, progress: Progress, messages: list[Message]) -> list[Message]:
        """Work on records of one partition, in order; those that are not done because they are no longer ours."""
        if self._by_list:
            return self._run_list(progress, messages)
        finished: list[Message] = []
        told = time.monotonic()
        number = 0
        try:
            for number, message in enumerate(messages):  # noqa: B007  (what is left is known by it)
                now = time.monotonic()
                if finished and now - told > _TELL_EVERY:
                    self._finish_delivered(progress, finished)
                    finished, told = [], now
                record = self._take(progress, message, now)
                if record is None:
                    continue
                try:
                    result = self._call(record)
                    if self._writes:
                        self._require_member(progress)
                        self._target.write([(record, result)])
                except Exception as error:
                    if is_final(error):
                        raise
                    if not self._persist(progress, [record], error):
                        continue
                if self._keep is None:
                    finished.append(message)
                else:
                    self._finish_kept(progress, record)
        except (NotOurs, TransactionGone):
            return messages[number:]
        finally:
            if finished:
                self._finish_delivered(progress, finished)
        return []

    def _run_list(self, progress: Progress, messages: list[Message]) -> list[Message]:
        left = {message.offset(): message for message in messages}
        try:
            while messages:
                # What the list holds twice waits until the first of it is delivered: then it is known.
                records, messages = self._take_list(progress, messages, left)
                self._deliver_list(progress, records, left)
        except (NotOurs, TransactionGone):
            return list(left.values())
        return []

    def _take_list(
        self, progress: Progress, messages: list[Message], left: dict[int, Message]
    ) -> tuple[list[Polled], list[Message]]:
        """The records to handle at once, and those to look at afterwards; `left` loses those that are done."""
        records: list[Polled] = []
        later: list[Message] = []
        taken: set[bytes] = set()
        for message in messages:
            record = self._take(progress, message, time.monotonic())
            if record is None:
                del left[message.offset()]
            elif record.identity is not None and record.identity in taken:
                later.append(message)
            else:
                records.append(record)
                if record.identity is not None:
                    taken.add(record.identity)
        return records, later

    def _deliver_list(self, progress: Progress, records: list[Polled], left: dict[int, Message]) -> None:
        """Bring records to the handler at once; `left` loses those that are done."""
        if not records:
            return
        error: Exception | None = None
        try:
            self._handle(progress, records)
        except Exception as raised:
            if is_final(raised):
                raise
            error = self._attempt(progress, records, raised)
        if error is not None and len(records) > 1 and not is_retriable(error):
            # One of them is poison; the others must not share its fate.
            middle = len(records) // 2
            self._deliver_list(progress, records[:middle], left)
            self._deliver_list(progress, records[middle:], left)
            return
        if error is not None:
            self._bury(progress, records, error, "TASK_PUT")
        elif self._keep is None:
            self._finish_delivered(progress, [record.message for record in records])
        for record in records:
            if error is None and self._keep is not None:
                self._finish_kept(progress, record)
            del left[record.offset]

    def _take(self, progress: Progress, message: Message, now: float) -> Polled | None:
        """The record to handle, or None if it is finished without: known, not for us, or not decodable."""
        if (not progress.ours or now > self._lease.until) and not self._is_ours(progress):
            raise NotOurs
        if message.topic() != self._topic and not self._is_for_us(message.headers() or ()):
            self._finish(progress, [message])
            return None
        try:
            value = self._decode(message)
        except (DecodeError, RegistryUnreachableError) as error:
            value = self._decode_later(progress, message, error)
            if value is None:
                return None
        if value is None:
            self._finish(progress, [message])
            return None
        if self._once is None:
            return Polled(message, value)
        record = Polled(message, value, self._once.identity_of(value))
        if self._once.is_known(record.partition, record.identity or b""):
            self._counts.add("duplicates")
            self._finish(progress, [message])
            return None
        return record

    def _decode_later(
        self, progress: Progress, message: Message, error: DecodeError | RegistryUnreachableError
    ) -> Any:
        """The value, once the registry answers; None if it has none, and is set aside."""
        attempt = 0
        while isinstance(error, RegistryUnreachableError):
            attempt += 1
            self._wait(progress, attempt, error)  # without the schema nobody can tell what the record is
            try:
                return self._decode(message)
            except (DecodeError, RegistryUnreachableError) as again:
                error = again
        self._bury(progress, [Polled(message, None)], error, "VALUE_CONVERTER")
        return None

    def _persist(self, progress: Progress, records: list[Polled], error: Exception) -> bool:
        """After a first failure: whether it was delivered in the end; if not, it is set aside."""
        final = self._attempt(progress, records, error)
        if final is not None:
            self._bury(progress, records, final, "TASK_PUT")
        return final is None

    def _attempt(self, progress: Progress, records: list[Polled], error: Exception) -> Exception | None:
        """Call again until it is done, or for good is not: then why."""
        until = time.monotonic() + self._delivery.retry.within.total_seconds()
        attempt = 0
        while is_retriable(error) and time.monotonic() < until:
            attempt += 1
            self._counts.add("retries")
            self._wait(progress, attempt, error)
            try:
                self._handle(progress, records)
                return None
            except Exception as raised:
                if is_final(raised):
                    raise
                error = raised
        return error

    def _finish_delivered(self, progress: Progress, messages: list[Message]) -> None:
        self._counts.add("delivered", len(messages))
        self._finish(progress, messages)

    def _finish_kept(self, progress: Progress, record: Polled) -> None:
        assert self._keep is not None
        self._counts.add("delivered")
        self._keep(record, lambda: self._finish(progress, [record.message]))

    def _require_member(self, progress: Progress) -> None:
        """Before a write: the partition may have gone to another consumer while the handler ran."""
        if progress.gone or (time.monotonic() > self._lease.until and not self._is_ours(progress)):
            raise NotOurs

    def _handle(self, progress: Progress, records: list[Polled]) -> None:
        if self._delivery.batch is None:
            results = [(record, self._call(record)) for record in records]
            self._require_member(progress)
            self._target.write(results)
            return
        found = self._call(records)
        if found is None or not self._writes:
            return
        if not isinstance(found, list | tuple) or len(found) != len(records):  # pyright: ignore[reportUnknownArgumentType]
            raise PermanentError(
                f"the handler returned {type(found).__name__} for {len(records)} records",  # pyright: ignore[reportUnknownArgumentType]
                hint="return a list with one entry per record, None for nothing",
            )
        self._require_member(progress)
        self._target.write(list(zip(records, found, strict=True)))  # pyright: ignore[reportUnknownArgumentType]

    def _wait(self, progress: Progress, attempt: int, error: Exception) -> None:
        wait = wait_before(attempt, self._delivery.retry, error)
        if attempt in (1, 10) or attempt % 100 == 0:
            log.warning("%s: %s; trying again", self._delivery.name, _says(error))
        if not progress.wait(wait.total_seconds()) or not self._is_ours(progress):
            raise NotOurs

    def _bury(self, progress: Progress, records: list[Polled], error: Exception, stage: str) -> None:
        """Set records aside; nothing is finished before the dead letters are safe."""
        self._require_member(progress)
        letters = [self._letter(record.message, error, stage) for record in records]
        attempt = 0
        while True:
            try:
                self._set_aside(letters)
                break
            except GearshiftError as failure:
                attempt += 1
                self._wait(progress, attempt, failure)
        self._counts.add("dead_letters", len(records))
        first = records[0]
        log.warning(
            "%s: %d set aside, %s/%d offset %d: %s",
            self._delivery.name,
            len(records),
            first.topic,
            first.partition,
            first.offset,
            _says(error),
        )
        self._finish(progress, [record.message for record in records])

    def _letter(self, message: Message, error: Exception, stage: str) -> DeadLetter:
        headers = tuple(message.headers() or ())
        partition, offset = replayed_place(headers) or (message.partition(), message.offset())
        value = message.value()
        return DeadLetter(
            topic=self._delivery.topic.name,
            partition=partition,
            offset=offset,
            key=message.key(),
            value=value,
            headers=headers,
            app=self._app,
            delivery=self._delivery.name,
            group_id=self._delivery.group_id,
            stage=stage,
            exception=f"{type(error).__module__}.{type(error).__qualname__}",
            reason=_says(error),
            stacktrace=None if isinstance(error, DecodeError) else _trace(error, self._delivery.handler),
            schema_id=int.from_bytes(value[1:5], "big")
            if value and value[0] == 0 and len(value) > 5
            else None,
        )

    def _is_for_us(self, headers: Iterable[tuple[str, bytes | None]]) -> bool:
        wanted = [value for name, value in headers if name == REPLAY_FOR]
        return not wanted or self._delivery.group_id.encode() in wanted


class Polled(Record[Any]):
    """A record as it was polled; what a handler does not ask for is not taken out of the message."""

    __slots__ = ("_kept_identity", "_kept_value", "message")
    message: Message

    def __init__(self, message: Message, value: Any, identity: bytes | None = None) -> None:
        _set_message(self, message)
        _set_value(self, value)
        _set_identity(self, identity)

    if not TYPE_CHECKING:  # to a type checker they are the fields of Record
        value = property(attrgetter("_kept_value"))
        identity = property(attrgetter("_kept_identity"))
        key = property(lambda self: self.message.key())
        topic = property(lambda self: self.message.topic())
        partition = property(lambda self: self.message.partition())
        offset = property(lambda self: self.message.offset())
        headers = property(lambda self: tuple(self.message.headers() or ()))

        timestamp = property(lambda self: _instant(*self.message.timestamp()))


def _instant(kind: int, millis: int) -> datetime | None:
    return datetime.fromtimestamp(millis / 1000, UTC) if kind else None


# A frozen class takes no assignment; this is how its own constructor does it, only faster.
_slots: Any = Polled
_set_message = _slots.message.__set__
_set_value = _slots._kept_value.__set__
_set_identity = _slots._kept_identity.__set__


def is_final(error: Exception) -> bool:
    """Whether it says nothing about this record: a transaction is gone, or the destination cannot be used at all.

    A table that was dropped or a password that was changed must stop the delivery, not empty the topic into
    the dead letters.
    """
    if isinstance(error, TransactionGone | NotOurs):
        return True
    return isinstance(error, DeliveryError) and not isinstance(error, RetriableError | PermanentError)


def _says(error: BaseException) -> str:
    if isinstance(error, GearshiftError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _trace(error: BaseException, handler: Callable[..., Any]) -> str:
    """The stack of the user's own code, without ours."""
    ours = Path(__file__).parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent != ours]
    return "".join([*traceback.format_list(frames), *traceback.format_exception_only(error)])


def _in_a_loop(handler: Callable[..., Any]) -> Callable[..., Any]:
    """An async handler as a plain function: each lane waits for its own call, all of them share one loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="handlers", daemon=True).start()

    def call(argument: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(handler(argument), loop).result()

    return call
