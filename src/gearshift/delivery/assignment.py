"""The partitions assigned to a consumer, with the offset up to which each may be committed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, Protocol

Message = Any  # confluent_kafka.Message, which has no type hints
TopicPartition = tuple[str, int]
RecordId = tuple[str, int, int]
"""Topic, partition and offset of a record."""


class NotOwned(Exception):  # noqa: N818  (not an error: another consumer handles the record)
    """The partition was revoked while one of its records was handled."""


class OffsetTracker:
    """Tracks the records of one partition while it is assigned; its position never passes an unfinished record.

    >>> tracker = OffsetTracker(10)
    >>> tracker.begin([10, 11, 12])
    >>> tracker.finish(11); tracker.position
    10
    >>> tracker.finish(10); tracker.position
    12
    """

    def __init__(self, start: int, topic_id: str | None = None, committed: int | None = None) -> None:
        self.topic_id = topic_id
        """Id of the topic; None if the brokers do not support topic ids."""
        self.position = start
        """The lowest unfinished offset."""
        self.committed = committed
        self.commit_uncertain = False
        """Whether the last commit may have failed."""
        self.owned = True
        """Whether new work may begin."""
        self.dropped = False
        """Whether another consumer may own the partition: work already begun must not write."""
        self._begun: deque[int] = deque()
        self._last_begun = start - 1
        self._finished: set[int] = set()
        self._running = 0
        self._changed = threading.Condition()

    def begin(self, offsets: Iterable[int]) -> None:
        """Add polled records in offset order; offsets added before are ignored."""
        with self._changed:
            last = self._last_begun
            new = [offset for offset in offsets if offset > last]
            if new:
                self._begun.extend(new)
                self._last_begun = new[-1]

    def undo(self, offsets: list[int]) -> None:
        """Make consecutive records unfinished again; no later record may be finished."""
        with self._changed:
            last = offsets[-1]
            self._begun = deque((*offsets, *(offset for offset in self._begun if offset > last)))
            self._finished.difference_update(offsets)
            self.position = offsets[0]

    def finish(self, *offsets: int) -> None:
        """Mark records as finished, whether delivered, skipped or dead-lettered."""
        if not offsets:
            return
        with self._changed:
            begun, finished = self._begun, self._finished
            position = 0
            if tuple(islice(begun, len(offsets))) == offsets:  # the common case: the next ones, in order
                for _ in offsets:
                    begun.popleft()
                position = offsets[-1] + 1
                offsets = ()
            for offset in offsets:
                if begun and offset == begun[0]:
                    begun.popleft()
                    position = offset + 1  # offsets have gaps after compaction and transactions
                else:
                    finished.add(offset)
            if not position:
                return
            while begun and begun[0] in finished:
                offset = begun.popleft()
                finished.discard(offset)
                position = offset + 1
            self.position = position

    def skip_to(self, offset: int) -> int:
        """Skip records that no longer exist; return their number."""
        skipped = offset - self.next
        if skipped <= 0:
            return 0
        # The gap counts as one finished record, so the position passes it only after the records before it.
        self.begin([offset - 1])
        self.finish(offset - 1)
        return skipped

    @property
    def next(self) -> int:
        """The offset after the last polled record."""
        return self._last_begun + 1

    @property
    def unfinished(self) -> int:
        """Number of records begun and not finished."""
        return len(self._begun) - len(self._finished)

    def has_gap_before(self, offset: int) -> bool:
        """Whether this record or an earlier one is finished while one before it is not."""
        with self._changed:
            return any(finished <= offset for finished in self._finished)

    def has_unfinished_before(self, offset: int) -> bool:
        """Whether a polled record before this one is unfinished."""
        with self._changed:
            return bool(self._begun) and self._begun[0] < offset

    # threads at work on the partition

    def enter(self) -> bool:
        """Begin work on some records; False if the partition is no longer owned."""
        with self._changed:
            if self.owned:
                self._running += 1
            return self.owned

    def leave(self) -> None:
        """End the work that `enter` began."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def release(self) -> None:
        """Let no new work begin, and interrupt waits between attempts."""
        with self._changed:
            self.owned = False
            self._changed.notify_all()

    def await_idle(self, seconds: float) -> bool:
        """Wait until no thread works on the partition; False on timeout."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._running:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for this time or until released; return whether the partition is still owned."""
        until = time.monotonic() + seconds
        with self._changed:
            while self.owned and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return self.owned

    # commits

    @property
    def is_due(self) -> bool:
        """Whether the position has to be committed."""
        return self.position != self.committed or self.commit_uncertain

    def may_commit(self, position: int) -> bool:
        """Whether this position was not committed yet, nor a later one."""
        before = -1 if self.committed is None else self.committed
        return position >= before + (not self.commit_uncertain)

    def mark_committed(self, position: int) -> None:
        """Record that a commit was sent, or made."""
        self.committed = position
        self.commit_uncertain = False


class Piece(NamedTuple):
    """Records of one partition that are handled together, bound to the assignment they were polled in."""

    tracker: OffsetTracker
    messages: list[Message]

    @property
    def partition(self) -> TopicPartition:
        """The partition of the records."""
        return self.messages[0].topic(), self.messages[0].partition()

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return sum(map(len, self.messages))


class Committer(Protocol):
    """Accepts commits: a consumer."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets."""
        ...


class Due(NamedTuple):
    """An offset to commit."""

    partition: TopicPartition
    tracker: OffsetTracker
    position: int


class Assignment:
    """One OffsetTracker per assigned partition; commits are serialized so that none overwrites a later one."""

    def __init__(self) -> None:
        self._trackers: dict[TopicPartition, OffsetTracker] = {}
        self._committing = threading.Lock()

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._trackers

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(list(self._trackers))

    def get(self, partition: TopicPartition) -> OffsetTracker | None:
        """The tracker of a partition, if it is assigned."""
        return self._trackers.get(partition)

    def topic_id_of(self, partition: TopicPartition) -> str | None:
        """Topic id of an assigned partition, if known."""
        tracker = self._trackers.get(partition)
        return None if tracker is None else tracker.topic_id

    def items(self) -> list[tuple[TopicPartition, OffsetTracker]]:
        """All partitions with their trackers."""
        return list(self._trackers.items())

    def add(
        self, partition: TopicPartition, start: int, committed: int | None, topic_id: str | None = None
    ) -> None:
        """Add a partition that is read from `start`."""
        self.drop([partition])
        self._trackers[partition] = OffsetTracker(start, topic_id, committed)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions."""
        for partition in partitions:
            tracker = self._trackers.pop(partition, None)
            if tracker is not None:
                tracker.dropped = True

    def due(self) -> list[Due]:
        """The positions to commit."""
        return [
            Due(partition, tracker, tracker.position) for partition, tracker in self.items() if tracker.is_due
        ]

    def commit(self, to: Committer, due: Iterable[Due]) -> None:
        """Commit what was due, except where a later offset was committed or the partition was dropped since."""
        with self._committing:
            offsets: dict[TopicPartition, int] = {}
            for partition, tracker, position in due:
                if self._trackers.get(partition) is tracker and tracker.may_commit(position):
                    offsets[partition] = position
            to.commit(offsets)
            for partition, position in offsets.items():
                tracker = self._trackers.get(partition)
                if tracker is not None:
                    tracker.mark_committed(position)

    def doubt_commits(self) -> None:
        """After a failed asynchronous commit: commit the same offsets again."""
        for _, tracker in self.items():
            tracker.commit_uncertain = True
