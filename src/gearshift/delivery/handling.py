"""Handle records: decode, drop duplicates, call the handler, write its result; retry or dead-letter what fails."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gearshift.delivery.assignment import NotOwned, OffsetTracker
from gearshift.delivery.crash_guard import CrashGuard, crash_error
from gearshift.delivery.decoding import Decoding, PolledRecord
from gearshift.delivery.dedup import Dedup
from gearshift.delivery.failures import backoff, dead_letter, describe, is_retriable, stops_delivery
from gearshift.delivery.in_flight import Counts, InFlight
from gearshift.delivery.membership import Membership
from gearshift.delivery.targets import Results, SideOutputs, Target, TransactionAborted
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
from gearshift.topics import REPLAY_FOR

if TYPE_CHECKING:
    from gearshift.definitions import Delivery

Message = Any  # confluent_kafka.Message, which has no type hints
log = logging.getLogger(__name__)
_SHOWN = 2.0  # seconds that the failure of an attempt is shown after the next one began
_MAX_UNKNOWN = 3  # attempts without an answer: a receiver that ignores the idempotency key may act on each


class Handler:
    """Calls a delivery's handler; an async one runs in an event loop that all lanes share."""

    def __init__(self, delivery: Delivery) -> None:
        self.call: Callable[..., Any] = delivery.handler
        self._loop: asyncio.AbstractEventLoop | None = None
        if delivery.is_async:
            self._coroutine = delivery.handler
            self.call = self._run
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name=f"{delivery.name} loop", daemon=True
            )
            self._thread.start()

    def _run(self, argument: Any) -> Any:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._coroutine(argument), self._loop).result()

    def close(self, seconds: float = 5.0) -> None:
        """Stop the event loop and cancel the calls still running in it."""
        if self._loop is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop)
        self._thread.join(seconds)
        if not self._thread.is_alive():
            self._loop.close()


async def _cancel_all() -> None:
    loop = asyncio.get_running_loop()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.stop()


class Handling:
    """Brings records to the handler and its results to the target, in the thread of a lane."""

    def __init__(
        self,
        delivery: Delivery,
        app: str,
        *,
        handler: Handler,
        decoding: Decoding,
        target: Target,
        outputs: SideOutputs,
        dedup: Dedup | None,
        counts: Counts,
        in_flight: InFlight,
        membership: Membership,
        crash_guard: CrashGuard | None = None,
    ) -> None:
        self._delivery = delivery
        self._app = app
        self._decode = decoding.message
        self._readers = decoding.readers
        self._target = target
        self._outputs = outputs
        self._dedup = dedup
        self._counts = counts
        self._in_flight = in_flight
        self._membership = membership
        self._lease = membership.lease
        self._crash_guard = crash_guard
        self._batch_size = delivery.batch_size or target.batch_size
        self._topic = delivery.topic.name
        self._scope = f"{delivery.group_id}/{delivery.name}"
        self._writes = delivery.target is not None
        self._in_batches = delivery.batch_size is not None or target.batch_size > 1
        self._call = handler.call if crash_guard is None else crash_guard.guard(handler.call)

    @property
    def batch_size(self) -> int:
        """How many records one call takes."""
        return 1 if self._crash_guard is not None and self._crash_guard.is_active else self._batch_size

    def run(
        self, tracker: OffsetTracker, messages: list[Message], until: float
    ) -> tuple[list[Message], list[Message]]:
        """Handle records of one partition, in order, until a time on the monotonic clock.

        Return those that the time was too short for, and those dropped because the partition is no longer owned.
        """
        if self._in_batches:
            return [], self._run_batch(tracker, messages)
        finished: list[Message] = []
        # This loop runs for every record, so it avoids every function call that it can.
        clock, lease, readers, call = time.monotonic, self._lease, self._readers, self._call
        scope, topic_id = self._scope, tracker.topic_id
        plain = (
            self._dedup is None
            and (self._crash_guard is None or not self._crash_guard.is_needed)
            and messages[0].topic() == self._topic  # all are of the same partition
        )
        number = 0
        try:
            for number, message in enumerate(messages):
                now = clock()
                if now > until and number:
                    return messages[number:], []
                if plain and now < lease.until and tracker.owned:
                    try:
                        data = message.value()
                        value = readers[data[:HEAD_SIZE]](data[HEAD_SIZE:])
                        record = PolledRecord(message, value, scope, topic_id)
                    except (KeyError, TypeError, Misfit):  # `_prepare` decodes it again and handles the error
                        record = self._prepare(tracker, message, now)
                else:
                    record = self._prepare(tracker, message, now)
                if record is None:
                    continue
                try:
                    result = call(record)
                    if self._writes:
                        self._require_ownership(tracker)
                        self._target.write([(record, result)])
                except Exception as error:
                    if stops_delivery(error):
                        raise
                    final = self._retry(tracker, [record], error)
                    if final is not None:
                        self._set_aside(tracker, [record], final, "TASK_PUT")
                        continue
                if self._dedup is not None:
                    self._outputs.mark_delivered([record])
                finished.append(message)
        except (NotOwned, TransactionAborted):
            return [], messages[number:]
        finally:
            if finished:
                self._finish_delivered(tracker, finished)
        return [], []

    def _run_batch(self, tracker: OffsetTracker, messages: list[Message]) -> list[Message]:
        left = {message.offset(): message for message in messages}
        try:
            while messages:
                # A duplicate within the batch waits until the first is delivered, and is then dropped.
                records, messages = self._prepare_batch(tracker, messages, left)
                self._deliver_batch(tracker, records, left)
        except (NotOwned, TransactionAborted):
            return list(left.values())
        return []

    def _prepare_batch(
        self, tracker: OffsetTracker, messages: list[Message], left: dict[int, Message]
    ) -> tuple[list[PolledRecord], list[Message]]:
        """The records to handle now, and those for afterwards; finished ones are removed from `left`."""
        records: list[PolledRecord] = []
        identities: set[bytes] = set()
        for number, message in enumerate(messages):
            record = self._prepare(tracker, message, time.monotonic())
            if record is None:
                del left[message.offset()]
            elif record.identity is not None and record.identity in identities:
                return records, messages[number:]  # with all that follow, to keep the order
            else:
                records.append(record)
                if record.identity is not None:
                    identities.add(record.identity)
        return records, []

    def _deliver_batch(
        self, tracker: OffsetTracker, records: list[PolledRecord], left: dict[int, Message]
    ) -> None:
        """Pass records to the handler in one call; finished ones are removed from `left`."""
        if not records:
            return
        error: Exception | None = None
        try:
            self._handle(tracker, records)
        except Exception as raised:
            if stops_delivery(raised):
                raise
            error = self._retry(tracker, records, raised)
        if error is not None and len(records) > 1 and not is_retriable(error):
            # Bisect to find the record that fails; the others must be delivered.
            middle = len(records) // 2
            self._deliver_batch(tracker, records[:middle], left)
            self._deliver_batch(tracker, records[middle:], left)
            return
        if error is not None:
            self._set_aside(tracker, records, error, "TASK_PUT")
        else:
            if self._dedup is not None:
                self._outputs.mark_delivered(records)
            self._finish_delivered(tracker, [record.message for record in records])
        for record in records:
            del left[record.offset]

    def _prepare(self, tracker: OffsetTracker, message: Message, now: float) -> PolledRecord | None:
        """The record to handle, or None if it is finished: a duplicate, for another group, or not decodable."""
        if (not tracker.owned or now > self._lease.until) and not self._membership.owns(tracker):
            raise NotOwned
        if message.topic() != self._topic and not self._is_for_this_group(message.headers() or ()):
            self._finish(tracker, [message])
            return None
        if self._crash_guard is not None and (crashes := self._crash_guard.crashes_of(message)):
            self._set_aside(tracker, [self._undecoded(tracker, message)], crash_error(crashes), "TASK_PUT")
            return None
        try:
            value = self._decode(message)
        except (DecodeError, RegistryUnreachableError) as error:
            value = self._decode_later(tracker, message, error)
            if value is None:
                return None
        if value is None:
            self._finish(tracker, [message])
            return None
        if self._dedup is None:
            return PolledRecord(message, value, self._scope, tracker.topic_id)
        identity = self._dedup.identity_of(value)
        record = PolledRecord(message, value, self._scope, tracker.topic_id, identity)
        if self._dedup.is_duplicate(record.partition, identity):
            self._counts.add("duplicates")
            self._finish(tracker, [message])
            return None
        return record

    def _undecoded(self, tracker: OffsetTracker, message: Message) -> PolledRecord:
        return PolledRecord(message, None, self._scope, tracker.topic_id)

    def _decode_later(
        self, tracker: OffsetTracker, message: Message, error: DecodeError | RegistryUnreachableError
    ) -> Any:
        """The value, once the registry answers; None if it cannot be decoded and was set aside."""
        attempt = 0
        while isinstance(error, RegistryUnreachableError):
            attempt += 1
            self._wait(tracker, attempt, error)  # without the schema nothing is known about the record
            try:
                return self._decode(message)
            except (DecodeError, RegistryUnreachableError) as again:
                error = again
        self._set_aside(tracker, [self._undecoded(tracker, message)], error, "VALUE_CONVERTER")
        return None

    def _retry(
        self, tracker: OffsetTracker, records: list[PolledRecord], error: Exception
    ) -> Exception | None:
        """Retry after a first failure; return the error that remains, or None if the records were delivered."""
        until = time.monotonic() + self._delivery.retry.timeout.total_seconds()
        attempt = unknown = 0
        while is_retriable(error) and time.monotonic() < until:
            unknown += isinstance(error, OutcomeUnknownError)
            if unknown == _MAX_UNKNOWN:
                return error
            attempt += 1
            self._counts.add("retries")
            self._wait(tracker, attempt, error)
            try:
                self._handle(tracker, records)
                return None
            except Exception as raised:
                if stops_delivery(raised):
                    raise
                error = raised
        return error

    def _handle(self, tracker: OffsetTracker, records: list[PolledRecord]) -> None:
        """Call the handler and write its results."""
        if self._delivery.batch_size is None:
            self._write(tracker, [(record, self._call(record)) for record in records])
            return
        found = self._call(records)
        if found is None or not self._writes:
            return
        if not isinstance(found, list | tuple) or len(found) != len(records):  # pyright: ignore[reportUnknownArgumentType]
            raise PermanentError(
                f"the handler returned {type(found).__name__} for {len(records)} records",  # pyright: ignore[reportUnknownArgumentType]
                hint="return a list with one entry per record, None for nothing",
            )
        self._write(tracker, list(zip(records, found, strict=True)))  # pyright: ignore[reportUnknownArgumentType]

    def _write(self, tracker: OffsetTracker, results: Results) -> None:
        first = results[0][0]
        if self._in_batches and tracker.has_unfinished_before(first.offset):
            # A destination that keeps its own offsets would take the earlier records for written.
            raise DeliveryError(
                f"a record before offset {first.offset} is not finished, so nothing behind it is written",
                hint="the consumer restarts at the last committed offset",
                delivery=self._delivery.name,
                topic=first.topic,
                partition=first.partition,
                offset=tracker.position,
            )
        self._require_ownership(tracker)
        self._target.write(results)

    def _require_ownership(self, tracker: OffsetTracker) -> None:
        """Check before a write that the partition was not reassigned while the handler ran."""
        if tracker.dropped or (time.monotonic() > self._lease.until and not self._membership.owns(tracker)):
            raise NotOwned

    def _wait(self, tracker: OffsetTracker, attempt: int, error: Exception) -> None:
        wait = backoff(attempt, self._delivery.retry, error)
        if attempt in (1, 10) or attempt % 100 == 0:
            log.warning("%s: %s; retrying", self._delivery.name, describe(error))
        self._counts.note_failure(describe(error), until=time.monotonic() + wait.total_seconds() + _SHOWN)
        if not tracker.wait(wait.total_seconds()) or not self._membership.owns(tracker):
            raise NotOwned

    def _set_aside(
        self, tracker: OffsetTracker, records: list[PolledRecord], error: Exception, stage: str
    ) -> None:
        """Write dead letters, then finish the records."""
        self._require_ownership(tracker)
        letters = [
            dead_letter(record, error, stage, delivery=self._delivery, app=self._app) for record in records
        ]
        attempt = 0
        while True:
            try:
                self._outputs.write_dead_letters(letters)
                break
            except GearshiftError as failure:
                attempt += 1
                self._wait(tracker, attempt, failure)
        self._counts.add("dead_letters", len(records))
        first = records[0]
        log.warning(
            "%s: wrote %d dead letters, %s/%d offset %d: %s",
            self._delivery.name,
            len(records),
            first.topic,
            first.partition,
            first.offset,
            describe(error),
        )
        self._finish(tracker, [record.message for record in records])

    def _finish_delivered(self, tracker: OffsetTracker, messages: list[Message]) -> None:
        self._counts.add("delivered", len(messages))
        self._finish(tracker, messages)

    def _finish(self, tracker: OffsetTracker, messages: list[Message]) -> None:
        """Finish records, delivered or not: their offsets may be committed."""
        tracker.finish(*[message.offset() for message in messages])
        self._in_flight.remove(len(messages), sum(map(len, messages)))

    def _is_for_this_group(self, headers: Iterable[tuple[str, bytes | None]]) -> bool:
        groups = [value for name, value in headers if name == REPLAY_FOR]
        return not groups or self._delivery.group_id.encode() in groups
