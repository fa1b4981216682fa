"""Commits of offsets: sent by the poll thread, awaited by the threads that must not continue without them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from gearshift.delivery.assignment import Assignment, Due, TopicPartition
from gearshift.delivery.in_flight import Counts
from gearshift.delivery.membership import Membership
from gearshift.delivery.poll_thread import Lifecycle, PollThread
from gearshift.errors import GearshiftError, NotAMemberError, RetriableError
from gearshift.topics import GroupConsumer

OnCommit = Callable[[GearshiftError | None], None]
log = logging.getLogger(__name__)
_EVERY = 0.5
_ANSWER_WITHIN = 15.0


class _AsyncCommitter:
    """Commits without waiting, so that an unavailable coordinator does not stop the poll loop."""

    def __init__(self, consumer: GroupConsumer, on_commit: OnCommit) -> None:
        self._consumer, self._on_commit = consumer, on_commit

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Send the commit."""
        self._consumer.commit_soon(offsets, self._on_commit)


class _Result:
    """The result of a commit, for a waiting thread."""

    def __init__(self) -> None:
        self.error: GearshiftError | None = None
        self.known = threading.Event()

    def set(self, error: GearshiftError | None) -> None:
        """Store the result and wake the thread."""
        self.error = error
        self.known.set()


class Commits:
    """Commits the finished records, one commit at a time where a thread waits for it."""

    def __init__(
        self,
        name: str,
        *,
        consumer: GroupConsumer,
        assignment: Assignment,
        flush: Callable[[], None],
        membership: Membership,
        poll_thread: PollThread,
        counts: Counts,
        lifecycle: Lifecycle,
    ) -> None:
        self._name = name
        self._consumer = consumer
        self._assignment = assignment
        self._flush = flush
        self._membership = membership
        self._poll_thread = poll_thread
        self._counts = counts
        self._lifecycle = lifecycle
        self._begun = 0
        self._answered = 0
        self._one_at_a_time = threading.Lock()

    def commit(self) -> None:
        """Commit the finished records and wait for the result; retry until it succeeds or the consumer stops."""
        attempt = 0
        while True:
            try:
                self._commit()
                return
            except NotAMemberError as error:
                self._membership.doubt()
                log.warning("%s: %s", self._name, error)
                return
            except GearshiftError as error:
                if self._lifecycle.ended:
                    return  # the poll thread made the last commit
                self._counts.add("failed_commits")
                self._assignment.doubt_commits()
                attempt += 1
                if self._lifecycle.stopping.wait(min(0.1 * 2**attempt, 2.0)):
                    log.warning("%s: %s", self._name, error)
                    return

    def join(self) -> None:
        """Return after a commit that began after this call; one commit serves all threads that arrived before it."""
        needed = self._begun + 1
        with self._one_at_a_time:
            if self._answered < needed and self._assignment.due():
                self._begun += 1
                self.commit()
                self._answered = self._begun

    def commit_periodically(self) -> None:
        """Commit the finished records twice a second until the consumer stops."""
        while not self._lifecycle.stopping.wait(_EVERY):
            with self._one_at_a_time:
                self.try_commit()

    def try_commit(self) -> None:
        """Commit the finished records; what fails is committed with the next commit."""
        try:
            self._commit()
        except GearshiftError as error:
            self._failed(error)
        except Exception as error:
            self._membership.fail(error)

    def _commit(self) -> None:
        due = self._assignment.due()  # before the flush: what is written after it is not durable yet
        self._flush()
        if self._poll_thread.is_current:
            # The answer arrives with a poll, so this thread cannot wait for it.
            self._send(due, self._on_commit)
            return
        result = _Result()
        self._poll_thread.call(lambda: self._send(due, result.set))
        until = time.monotonic() + _ANSWER_WITHIN
        while not result.known.wait(0.1):
            if self._lifecycle.revoking:
                return  # the answer arrives after the partitions were revoked, which wait for this thread
            if self._lifecycle.is_over:
                raise RetriableError("the consumer has stopped")
            if time.monotonic() > until:
                raise RetriableError(
                    "the brokers did not answer a commit", hint="check that the brokers are running"
                )
        if result.error is not None:
            raise result.error

    def _send(self, due: list[Due], on_commit: OnCommit) -> None:
        """Commit, in the poll thread."""
        if self._lifecycle.closing:  # no poll follows that would bring the answer
            try:
                self._assignment.commit(self._consumer, due)
            except GearshiftError as error:
                on_commit(error)
            else:
                on_commit(None)
        elif self._membership.in_doubt:
            on_commit(RetriableError("the group has not confirmed that this consumer is still a member"))
        elif self._consumer.in_callback:
            self._assignment.commit(_AsyncCommitter(self._consumer, self._on_commit), due)
            on_commit(None)
        else:
            self._assignment.commit(_AsyncCommitter(self._consumer, on_commit), due)

    def _on_commit(self, error: GearshiftError | None) -> None:
        """The result of a commit that no thread waits for."""
        if error is not None:
            self._failed(error)

    def _failed(self, error: GearshiftError) -> None:
        if self._lifecycle.ended:
            return
        self._counts.add("failed_commits")
        log.warning("%s: %s", self._name, error)
        self._assignment.doubt_commits()
        if isinstance(error, NotAMemberError):
            self._membership.doubt()
