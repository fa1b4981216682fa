"""What becomes of records: decoded, dropped if known, handled and written; tried again, or set aside."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gearshift.delivery.care import Care, killer
from gearshift.delivery.counts import Counts
from gearshift.delivery.failures import NotOurs, is_final, letter_of, says
from gearshift.delivery.membership import Lease
from gearshift.delivery.once import Once
from gearshift.delivery.polled import Polled
from gearshift.delivery.progress import Progress
from gearshift.delivery.retry import is_retriable, wait_before
from gearshift.delivery.targets import Results, Target, TransactionGone
from gearshift.errors import (
    DecodeError,
    DeliveryError,
    GearshiftError,
    OutcomeUnknownError,
    PermanentError,
    RegistryUnreachableError,
)
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.wire import HEAD_SIZE
from gearshift.topics import REPLAY_FOR, DeadLetter

if TYPE_CHECKING:
    from gearshift.definitions import Delivery
    from gearshift.delivery.decoding import Decoding

Message = Any  # confluent_kafka.Message, of which the library types nothing
log = logging.getLogger(__name__)
_MOST_UNKNOWN = (
    3  # tries without an answer: a receiver that ignores the idempotency key may act on each of them
)


class Handling:
    """Brings records to the handler, and its results to the target.

    `finish` is called once with each record that is done; `set_aside` writes dead letters and returns when they
    are safe; `is_ours` says whether this consumer may still act on a partition; `keep` remembers what was
    delivered and returns when no crash can make us forget it.
    """

    def __init__(
        self,
        delivery: Delivery,
        app: str,
        *,
        call: Callable[..., Any],
        decode: Decoding,
        target: Target,
        once: Once | None,
        counts: Counts,
        finish: Callable[[Progress, list[Message]], None],
        set_aside: Callable[[list[DeadLetter]], None],
        lease: Lease,
        is_ours: Callable[[Progress], bool],
        keep: Callable[[list[Polled]], None],
        care: Care | None = None,
    ) -> None:
        self._delivery = delivery
        self._app = app
        self._decode = decode.message
        self._readers = decode.readers
        self._target = target
        self._once = once
        self._counts = counts
        self._finish = finish
        self._set_aside = set_aside
        self._lease = lease
        self._is_ours = is_ours
        self._keep = keep
        self._care = care
        self._at_once = delivery.batch or target.batch
        self._topic = delivery.topic.name
        self._scope = f"{delivery.group_id}/{delivery.name}"
        self._writes = delivery.target is not None
        self._by_list = delivery.batch is not None or target.batch > 1
        self._call = call if care is None else care.watched(call)

    @property
    def at_once(self) -> int:
        """How many records one call takes."""
        return 1 if self._care is not None and self._care.is_on else self._at_once

    def run(
        self, progress: Progress, messages: list[Message], until: float
    ) -> tuple[list[Message], list[Message]]:
        """Work on records of one partition, in order, until then on the monotonic clock.

        What the time did not suffice for, and what is not done because it is no longer ours.
        """
        if self._by_list:
            return [], self._run_list(progress, messages)
        finished: list[Message] = []
        # This runs for every record, and what it can do without is left out: a call is dear.
        clock, lease, readers, call = time.monotonic, self._lease, self._readers, self._call
        scope, topic_id = self._scope, progress.topic_id
        plain = (
            self._once is None
            and (self._care is None or not self._care.is_needed)
            and messages[0].topic() == self._topic  # and so are the others: they are of one partition
        )
        number = 0
        try:
            for number, message in enumerate(messages):
                now = clock()
                if now > until and number:
                    return messages[number:], []
                if plain and now < lease.until and progress.ours:
                    try:
                        data = message.value()
                        record = Polled(message, readers[data[:HEAD_SIZE]](data[HEAD_SIZE:]), scope, topic_id)
                    except (KeyError, TypeError, Misfit):  # which `_take` meets again, and knows what to do
                        record = self._take(progress, message, now)
                else:
                    record = self._take(progress, message, now)
                if record is None:
                    continue
                try:
                    result = call(record)
                    if self._writes:
                        self._require_member(progress)
                        self._target.write([(record, result)])
                except Exception as error:
                    if is_final(error):
                        raise
                    if not self._persist(progress, [record], error):
                        continue
                if self._once is not None:
                    self._keep([record])
                finished.append(message)
        except (NotOurs, TransactionGone):
            return [], messages[number:]
        finally:
            if finished:
                self._finish_delivered(progress, finished)
        return [], []

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
        taken: set[bytes] = set()
        for number, message in enumerate(messages):
            record = self._take(progress, message, time.monotonic())
            if record is None:
                del left[message.offset()]
            elif record.identity is not None and record.identity in taken:
                return records, messages[number:]  # with all behind it: nothing overtakes it
            else:
                records.append(record)
                if record.identity is not None:
                    taken.add(record.identity)
        return records, []

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
        else:
            if self._once is not None:
                self._keep(records)
            self._finish_delivered(progress, [record.message for record in records])
        for record in records:
            del left[record.offset]

    def _take(self, progress: Progress, message: Message, now: float) -> Polled | None:
        """The record to handle, or None if it is finished without: known, not for us, or not decodable."""
        if (not progress.ours or now > self._lease.until) and not self._is_ours(progress):
            raise NotOurs
        if message.topic() != self._topic and not self._is_for_us(message.headers() or ()):
            self._finish(progress, [message])
            return None
        if self._care is not None and (deaths := self._care.deaths_of(message)):
            self._bury(
                progress, [Polled(message, None, self._scope, progress.topic_id)], killer(deaths), "TASK_PUT"
            )
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
            return Polled(message, value, self._scope, progress.topic_id)
        record = Polled(message, value, self._scope, progress.topic_id, self._once.identity_of(value))
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
        self._bury(
            progress, [Polled(message, None, self._scope, progress.topic_id)], error, "VALUE_CONVERTER"
        )
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
        attempt = unknown = 0
        while is_retriable(error) and time.monotonic() < until:
            unknown += isinstance(error, OutcomeUnknownError)
            if unknown == _MOST_UNKNOWN:
                return error
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

    def _require_member(self, progress: Progress) -> None:
        """Before a write: the partition may have gone to another consumer while the handler ran."""
        if progress.gone or (time.monotonic() > self._lease.until and not self._is_ours(progress)):
            raise NotOurs

    def _handle(self, progress: Progress, records: list[Polled]) -> None:
        if self._delivery.batch is None:
            results = [(record, self._call(record)) for record in records]
            self._write_list(progress, results)
            return
        found = self._call(records)
        if found is None or not self._writes:
            return
        if not isinstance(found, list | tuple) or len(found) != len(records):  # pyright: ignore[reportUnknownArgumentType]
            raise PermanentError(
                f"the handler returned {type(found).__name__} for {len(records)} records",  # pyright: ignore[reportUnknownArgumentType]
                hint="return a list with one entry per record, None for nothing",
            )
        self._write_list(progress, list(zip(records, found, strict=True)))  # pyright: ignore[reportUnknownArgumentType]

    def _write_list(self, progress: Progress, results: Results) -> None:
        first = results[0][0]
        if self._by_list and progress.has_unfinished_before(first.offset):
            # A destination that keeps its own offsets would take the earlier ones for written from now on.
            raise DeliveryError(
                f"a record before offset {first.offset} is not finished, so nothing behind it is written",
                hint="the consumer starts again at the last commit",
                delivery=self._delivery.name,
                topic=first.topic,
                partition=first.partition,
                offset=progress.position,
            )
        self._require_member(progress)
        self._target.write(results)

    def _wait(self, progress: Progress, attempt: int, error: Exception) -> None:
        wait = wait_before(attempt, self._delivery.retry, error)
        if attempt in (1, 10) or attempt % 100 == 0:
            log.warning("%s: %s; trying again", self._delivery.name, says(error))
        if not progress.wait(wait.total_seconds()) or not self._is_ours(progress):
            raise NotOurs

    def _bury(self, progress: Progress, records: list[Polled], error: Exception, stage: str) -> None:
        """Set records aside; nothing is finished before the dead letters are safe."""
        self._require_member(progress)
        letters = [
            letter_of(record, error, stage, delivery=self._delivery, app=self._app) for record in records
        ]
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
            says(error),
        )
        self._finish(progress, [record.message for record in records])

    def _is_for_us(self, headers: Iterable[tuple[str, bytes | None]]) -> bool:
        wanted = [value for name, value in headers if name == REPLAY_FOR]
        return not wanted or self._delivery.group_id.encode() in wanted
