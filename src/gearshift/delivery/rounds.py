"""Rounds of records: the next round begins when all records of this one are finished and committed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gearshift.delivery.assignment import Assignment, OffsetTracker, Piece, RecordId
from gearshift.delivery.dedup import Dedup
from gearshift.delivery.membership import Membership
from gearshift.delivery.poll_thread import PollThread
from gearshift.delivery.targets import detect_abort
from gearshift.errors import FencedError, NotAMemberError, ProduceError, RetriableError
from gearshift.topics import DeadLetter, GroupConsumer, Note, TransactionalProducer, dead_letter_headers

if TYPE_CHECKING:
    from gearshift.delivery.decoding import PolledRecord

Message = Any  # confluent_kafka.Message, which has no type hints
log = logging.getLogger(__name__)
_SHORT, _LONG = 0.05, 0.2  # seconds: a shorter round may grow, a longer one should shrink


class Rounds:
    """Holds records back until the current round has ended.

    `add` and `end` return the round to start, `finish` reports when the current one is complete. A round has `size`
    records at first, then as many, between `least` and `most`, as are handled in about a tenth of a second or in the
    time of a commit: a fast handler does not wait for its commits, and a slow one has little to repeat after a crash.
    """

    def __init__(
        self,
        size: int,
        *,
        least: int | None = None,
        most: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size = size
        self._least = size if least is None else least
        self._most = size if most is None else most
        self._clock = clock
        self._count = 0
        self._singly = 0
        self._began = 0.0
        self._ending_since: float | None = None
        self._held: list[Piece] = []
        self._round: list[Piece] = []
        self._dropped: list[Piece] = []
        self._remaining = 0
        self._number = 0
        self._running = False
        self._changed = threading.Condition()

    @property
    def current(self) -> list[Piece]:
        """The records of the current round."""
        return self._round

    @property
    def dropped(self) -> list[Piece]:
        """The records of the current round that were dropped so far."""
        return self._dropped

    @property
    def ending_for(self) -> float:
        """For how many seconds the current round has been ending."""
        since = self._ending_since
        return 0.0 if since is None else self._clock() - since

    def add(self, pieces: list[Piece]) -> list[Piece] | None:
        """Add records; return a round to start if none is running.

        Whoever starts a round calls `finish(1)` afterwards: it cannot complete before all of it was started.
        """
        with self._changed:
            self._held.extend(pieces)
            if self._running or not self._held:
                return None
            self._running = True
            self._gather()
            return self._round

    def finish(self, count: int) -> bool:
        """Count finished records; return whether the round is complete, so that it has to be committed and ended."""
        with self._changed:
            self._remaining -= count
            if self._remaining:
                return False
        self._ending_since = self._clock()
        return True

    def end(self, again: list[Piece]) -> list[Piece] | None:
        """End the round; return the next one, which begins with the records to be handled again."""
        with self._changed:
            assert self._ending_since is not None
            worked_until, self._ending_since = self._ending_since, None
            self._resize(worked_until)
            self._held[:0] = again
            self._number += 1
            self._running = bool(self._held)
            self._changed.notify_all()
            if not self._running:
                return None
            self._gather()
            return self._round

    def drop(self, piece: Piece) -> None:
        """Note records of the round that were not finished; they still have to be counted with `finish`."""
        with self._changed:
            self._dropped.append(piece)

    def forget(self, trackers: Iterable[OffsetTracker]) -> list[Message]:
        """Remove and return the held records of some partitions."""
        gone = set(map(id, trackers))
        with self._changed:
            taken = [
                message for piece in self._held if id(piece.tracker) in gone for message in piece.messages
            ]
            self._held = [piece for piece in self._held if id(piece.tracker) not in gone]
        return taken

    def one_by_one(self, count: int) -> None:
        """Give each of the next records its own round."""
        self._singly = count

    def await_end(self, seconds: float) -> bool:
        """Wait for the end of the current round; False on timeout."""
        with self._changed:
            number = self._number
            return self._changed.wait_for(lambda: not self._running or self._number != number, seconds)

    def _gather(self) -> None:
        """Form a round of the held records."""
        size = 1 if self._singly else self._size
        self._round, self._dropped, room = [], [], size
        rest = 0
        for tracker, messages in self._held:
            if not room:
                break
            self._round.append(Piece(tracker, messages[:room]))
            if len(messages) > room:
                self._held[rest] = Piece(tracker, messages[room:])
                room = 0
                break
            room -= len(messages)
            rest += 1
        self._held = self._held[rest:]
        self._count = size - room
        self._singly = max(0, self._singly - self._count)
        self._began = self._clock()
        self._remaining = self._count + 1  # one for the start itself, see `add`

    def _resize(self, worked_until: float) -> None:
        """Choose the size of the next round from the time that the work and the commit of this one took."""
        work, commit = worked_until - self._began, self._clock() - worked_until
        if self._count >= self._size and (work < _SHORT or work < commit):
            self._size = min(self._most, self._size * 2)
        elif work > max(_LONG, 2 * commit):
            self._size = max(self._least, self._count // 2 // self._least * self._least)


class Transactions:
    """One transaction per round: results, dead letters, dedup marks and offsets are committed atomically."""

    def __init__(
        self,
        name: str,
        producer: TransactionalProducer,
        *,
        dedup: Dedup | None,
        assignment: Assignment,
        membership: Membership,
        poll_thread: PollThread,
    ) -> None:
        self._name = name
        self._producer = producer
        self._dedup = dedup
        self._assignment = assignment
        self._membership = membership
        self._poll_thread = poll_thread
        self._marked: list[tuple[int, bytes]] = []
        self.rejected: dict[RecordId, ProduceError] = {}
        """The records whose results are larger than their topic accepts."""
        self.suspects = 0
        """Number of records of the last round, if the result of one of them is too large."""

    def begin(self) -> None:
        """Begin the transaction of a round."""
        self._producer.begin()
        self._marked = []

    def write_dead_letters(self, letters: list[DeadLetter]) -> None:
        """Add dead letters to the transaction."""
        for letter in letters:
            with detect_abort(self._producer):
                self._producer.send_bytes(
                    f"{letter.topic}.dlq", letter.value, key=letter.key, headers=dead_letter_headers(letter)
                )

    def mark_delivered(self, records: list[PolledRecord]) -> None:
        """Add dedup marks to the transaction."""
        assert self._dedup is not None
        marks = self._dedup.marks
        for record in records:
            mark = self._dedup.remember(record.partition, record.identity or b"")
            self._marked.append((record.partition, mark))
            with detect_abort(self._producer):
                self._producer.send_bytes(
                    marks.topic, b"", key=mark, partition=marks.partition_for(record.partition)
                )

    def commit(self, pieces: list[Piece], consumer: GroupConsumer) -> bool:
        """Commit the transaction of a round with its offsets; False if it was aborted and its records undone."""
        trackers = {piece.partition: piece.tracker for piece in pieces}
        producer = self._producer
        self.suspects = 0
        try:
            if not producer.is_open:
                raise RetriableError("the transaction was aborted")
            if any(self._assignment.get(each) is not tracker for each, tracker in trackers.items()):
                raise RetriableError("a partition was revoked during the transaction")
            if any(tracker.has_gap_before(messages[-1].offset()) for tracker, messages in pieces):
                # The committed offset could not cover a result behind an unfinished record.
                raise RetriableError("a record of the transaction was not finished")
            membership: Any = self._poll_thread.call(lambda: consumer.membership)
            notes = {topic: str(Note(tracker.topic_id)) for (topic, _), tracker in trackers.items()}
            producer.send_offsets(
                {each: tracker.position for each, tracker in trackers.items()}, membership, notes.get
            )
            producer.commit()
        except FencedError:
            raise
        except (NotAMemberError, RetriableError, ProduceError) as error:
            log.info("%s: repeating the transaction: %s", self._name, error)
            if isinstance(error, NotAMemberError):
                self._membership.doubt()
            producer.abort()
            self._undo(pieces)
            if producer.refusal is not None:
                self._find_rejected(pieces, producer.refusal)
            return False
        for tracker in trackers.values():
            tracker.mark_committed(tracker.position)
        if self.rejected:
            for record in _records(pieces):
                self.rejected.pop(record, None)
        return True

    def _find_rejected(self, pieces: list[Piece], error: ProduceError) -> None:
        """Find the record whose result is too large: the brokers do not name it, so each gets its own transaction."""
        records = _records(pieces)
        if len(records) > 1:
            self.suspects = len(records)
        elif records[0] in self.rejected:
            raise error  # its dead letter was rejected as well
        else:
            self.rejected[records[0]] = error

    def _undo(self, pieces: list[Piece]) -> None:
        undone: dict[OffsetTracker, list[int]] = {}
        for tracker, messages in pieces:
            undone.setdefault(tracker, []).extend(message.offset() for message in messages)
        for tracker, offsets in undone.items():
            tracker.undo(offsets)
        if self._dedup is not None:
            for partition, mark in self._marked:
                self._dedup.undo(partition, mark)


def _records(pieces: list[Piece]) -> list[RecordId]:
    return [(*piece.partition, message.offset()) for piece in pieces for message in piece.messages]
