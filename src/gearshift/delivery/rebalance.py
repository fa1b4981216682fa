"""Membership in the consumer group: where each assigned partition is read from, and what happens before it is revoked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gearshift.delivery.assignment import Assignment, TopicPartition
from gearshift.delivery.commits import Commits
from gearshift.delivery.confirmation import TopicConfirmation
from gearshift.delivery.dedup import Dedup
from gearshift.delivery.in_flight import Counts, InFlight
from gearshift.delivery.membership import Membership
from gearshift.delivery.poll_thread import Lifecycle, PollThread
from gearshift.delivery.rounds import Rounds
from gearshift.errors import DeliveryError, GearshiftError, RetriableError
from gearshift.topics import GroupConsumer, Note

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery
    from gearshift.delivery.targets import Target
    from gearshift.topics import Committed, TopicIds

T = TypeVar("T")
log = logging.getLogger(__name__)
_REVOKE_WITHIN = 30.0
_ANSWER_WITHIN = timedelta(seconds=10)
_ANSWER_SOON = timedelta(seconds=3)  # while partitions are revoked and the group waits
_SETTLED_WITHIN = 90.0  # the brokers abort an abandoned transaction after a minute


class GroupMember:
    """A member of the consumer group: its Kafka consumer, its rebalance callbacks and its commits."""

    def __init__(
        self,
        delivery: Delivery,
        connection: Connection,
        *,
        assignment: Assignment,
        target: Target,
        dedup: Dedup | None,
        rounds: Rounds | None,
        topic_ids: TopicIds,
        confirmation: TopicConfirmation,
        in_transactions: bool,
        membership: Membership,
        poll_thread: PollThread,
        in_flight: InFlight,
        counts: Counts,
        lifecycle: Lifecycle,
        max_poll_interval: timedelta,
    ) -> None:
        self._delivery = delivery
        self._assignment = assignment
        self._target = target
        self._dedup = dedup
        self._rounds = rounds
        self._topic_ids = topic_ids
        self._confirmation = confirmation
        self._in_transactions = in_transactions
        self._membership = membership
        self._poll_thread = poll_thread
        self._in_flight = in_flight
        self._counts = counts
        self._lifecycle = lifecycle
        self._assigned = False
        self._without_offset = False
        self._known_group = False
        self._loading: dict[TopicPartition, Future[None]] = {}
        self.consumer = GroupConsumer(
            connection,
            delivery.group_id,
            [delivery.topic.name, delivery.topic.replays],
            on_assigned=self._on_assigned,
            on_revoked=self.revoke,
            on_lost=self._on_lost,
            note_of=self._commit_metadata,
            max_poll_interval=max_poll_interval,
        )
        self.commits = Commits(
            delivery.name,
            consumer=self.consumer,
            assignment=assignment,
            flush=target.flush,
            membership=membership,
            poll_thread=poll_thread,
            counts=counts,
            lifecycle=lifecycle,
        )

    @property
    def loading(self) -> Collection[TopicPartition]:
        """The partitions that must not be read yet because their dedup marks are loading."""
        return self._loading.keys()

    def finish_loading(self) -> bool:
        """Whether the marks of a partition have been loaded since the last call."""
        done = [partition for partition, future in self._loading.items() if future.done()]
        for partition in done:
            self._loading.pop(partition).result()
        return bool(done)

    def pop_assigned(self) -> bool:
        """Whether partitions have been assigned since the last call."""
        assigned, self._assigned = self._assigned, False
        return assigned

    def pop_without_offset(self) -> bool:
        """Whether partitions without a committed offset have been assigned since the last call."""
        without_offset, self._without_offset = self._without_offset, False
        return without_offset

    # rebalance callbacks, called within a poll

    def _on_assigned(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Add partitions; return the offset at which each is read."""
        ids = self._ids_of({topic for topic, _ in partitions})
        committed = self._committed(partitions, ids)
        offsets = {each: self._resume_offset(each, committed.get(each)) for each in partitions}
        self._without_offset = any(offset is None for offset in offsets.values())
        # A recreated topic has no committed offsets, although its group is known.
        topic = self._delivery.topic.name
        known_group = self._known_group or (
            self._without_offset and bool(self._committed(self.consumer.partitions_of(topic), ids))
        )
        self._known_group = self._known_group or any(each[0] == topic for each in partitions)
        starts: dict[TopicPartition, int] = {}
        for each, offset in offsets.items():
            starts[each] = offset if offset is not None else self._first_offset(each, known_group)
            if self._dedup is not None:
                self._loading[each] = self._dedup.load(each[1])
            self._assignment.add(each, starts[each], offset, ids[each[0]])
        self._assigned = True
        return starts

    def revoke(self, partitions: list[TopicPartition]) -> None:
        """Finish the records in flight, or drop them when time is up; commit; remove the partitions."""
        self._lifecycle.revoking = True
        try:
            # A commit for the old topic could overwrite one that another member made for the new one.
            with suppress(GearshiftError):
                self._abandon(self._recreated(partitions))
            self._finish_and_commit(partitions)
        finally:
            self._lifecycle.revoking = False

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        """The group has reassigned the partitions: records in flight no longer count."""
        log.warning("%s: lost %d partitions", self._delivery.name, len(partitions))
        self._abandon(partitions)

    def _commit_metadata(self, partition: TopicPartition) -> Note:
        """The metadata stored with a committed offset."""
        topic_id = self._assignment.topic_id_of(partition)
        return Note(topic_id, self._target.stored(*partition, topic_id))

    # a recreated topic, a gap in the log

    def rejoin(self, topic: str) -> None:
        """After a topic was deleted and created again: drop the old one, and let the group assign the new one."""
        what = "the topic was deleted and created again"
        if self._delivery.start == "error":
            raise DeliveryError(
                what,
                hint="run gearshift group reset, or set start='earliest'",
                delivery=self._delivery.name,
                topic=topic,
            )
        log.warning("%s: topic %s: %s; reading it from its first record", self._delivery.name, topic, what)
        self._abandon([partition for partition in self._assignment if partition[0] == topic])
        self._confirmation.drop()
        self.revoke(list(self._assignment))  # the replays: commits are impossible after leaving the group
        self.consumer.join_again()

    def skip_gap(self, partition: TopicPartition, truncated_at: int | None = None) -> None:
        """The next offset does not exist: log why, and continue where nothing is read twice or left out.

        `truncated_at` is the offset at which the brokers report that the log was truncated, if they do.
        """
        topic, number = partition
        tracker = self._assignment.get(partition)
        if tracker is None:
            return
        wanted = tracker.next
        if self._recreated([partition]):
            self._confirmation.report_recreated(topic)
            return
        first, end = self.consumer.bounds(partition)
        if wanted > end or truncated_at is not None:
            # A leader without the latest records took over: the group has read records that no longer exist.
            cut = min(end, end if truncated_at is None else truncated_at)
            start = max(first, min(cut, tracker.position))  # records in flight are read again
            what = f"the log was truncated to offset {cut}, as after an unclean leader election"
        else:
            start = max(first, tracker.position)
            what = f"retention deleted {max(0, first - wanted)} records before they were read"
        if self._delivery.start == "error":
            raise DeliveryError(
                f"the next record does not exist: {what}",
                hint="run gearshift group reset, or set start='earliest'",
                delivery=self._delivery.name,
                topic=topic,
                partition=number,
                offset=wanted,
            )
        if start > wanted:
            self._counts.add("skipped", tracker.skip_to(start))
        else:
            tracker.release()
            self._forget([partition])
            self._assignment.add(partition, start, None, tracker.topic_id)
        log.error(
            "%s: offset %d of %s/%d does not exist: %s; continuing at %d",
            self._delivery.name,
            wanted,
            topic,
            number,
            what,
            start,
        )
        self.consumer.seek(partition, start)

    # where a partition is read from

    def _ids_of(self, topics: set[str]) -> Mapping[str, str | None]:
        """The ids of topics, which distinguish a topic from a later one with the same name."""

        def ask() -> Mapping[str, str | None]:
            ids = self._topic_ids.of(self._topic_ids.ask(topics, _ANSWER_WITHIN))
            if missing := topics - ids.keys():  # deleted, or not known to the broker yet
                raise RetriableError("the topic does not exist", topic=min(missing))
            return ids

        return self._until_answered(ask)

    def _recreated(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The partitions whose topic was deleted and created again."""
        ids = {each: id_ for each in partitions if (id_ := self._assignment.topic_id_of(each)) is not None}
        if not ids:
            return []
        now = self._topic_ids.of(self._topic_ids.ask({topic for topic, _ in ids}, _ANSWER_SOON))
        return [each for each, id_ in ids.items() if now.get(each[0]) not in (None, id_)]

    def _committed(
        self, partitions: list[TopicPartition], ids: Mapping[str, str | None]
    ) -> Mapping[TopicPartition, Committed]:
        """The group's offsets, once no transaction of a former consumer is open."""
        return self._until_answered(partial(self.consumer.committed, partitions, ids))

    def _resume_offset(self, partition: TopicPartition, committed: Committed | None) -> int | None:
        """The committed offset, or an earlier one if the destination has lost rows."""
        if committed is None or committed.note.stored is None:
            return None if committed is None else committed.offset
        noted = committed.note.stored
        stored = self._until_answered(
            partial(self._target.look_up, *partition, committed.note.topic_id, noted)
        )
        if stored >= noted:
            return committed.offset
        log.error(
            "%s: the destination went back from offset %d of %s/%d to %d, as after a restore from a backup; "
            "delivering the missing records again",
            self._delivery.name,
            noted,
            *partition,
            stored,
        )
        return min(stored, committed.offset)

    def _first_offset(self, partition: TopicPartition, known_group: bool) -> int:
        """Where to read a partition without a committed offset."""
        first, end = self.consumer.bounds(partition)
        # A partition added after the group started is read from its first record, and so are replays:
        # `start` applies to new groups only.
        if known_group or partition[0] != self._delivery.topic.name or self._delivery.start == "earliest":
            return first
        if self._delivery.start == "latest":
            return end
        raise DeliveryError(
            f"group {self._delivery.group_id} has no committed offset",
            hint="set start='earliest' or start='latest', or run gearshift group reset",
            delivery=self._delivery.name,
            topic=partition[0],
            partition=partition[1],
        )

    def _until_answered(self, ask: Callable[[], T]) -> T:
        until = time.monotonic() + _SETTLED_WITHIN
        while True:
            try:
                return ask()
            except GearshiftError as error:
                if not error.retriable or self._lifecycle.stopping.wait(0.05) or time.monotonic() > until:
                    raise
                self._poll_thread.run_tasks()
                self._membership.renew()

    # giving partitions back

    def _abandon(self, partitions: list[TopicPartition]) -> None:
        """Drop partitions at once: records in flight are neither written nor committed."""
        for partition in partitions:
            tracker = self._assignment.get(partition)
            if tracker is not None:
                tracker.release()
        self._forget(partitions)
        self._drop(partitions)

    def _finish_and_commit(self, partitions: list[TopicPartition]) -> None:
        trackers = [it for each in partitions if (it := self._assignment.get(each)) is not None]
        for tracker in trackers:
            tracker.release()
        self._forget(partitions)
        until = time.monotonic() + _REVOKE_WITHIN
        rounds = self._rounds if self._lifecycle.failure is None else None  # after a failure no round ends
        if rounds is not None and (self._in_transactions or self._lifecycle.stopping.is_set()):
            # The open transaction contains results of these partitions: it has to end first.
            self._lifecycle.ending_round = True
            self._wait_for(lambda: rounds.await_end(0.05), until)
            self._lifecycle.ending_round = False
        for tracker in trackers:
            if not self._wait_for(lambda tracker=tracker: tracker.await_idle(0.05), until):
                log.warning(
                    "%s: a handler did not finish in time; its record is delivered again", self._delivery.name
                )
        if not self._in_transactions:
            self.commits.try_commit()
        self._drop(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        if self._rounds is not None:
            gone = [it for each in partitions if (it := self._assignment.get(each)) is not None]
            for message in self._rounds.forget(gone):
                self._in_flight.remove(1, len(message))

    def _drop(self, partitions: list[TopicPartition]) -> None:
        self._assignment.drop(partitions)
        for partition in partitions:
            self._loading.pop(partition, None)
        if self._dedup is not None:
            for _, number in partitions:
                if not any(other == number for _, other in self._assignment):
                    self._dedup.forget(number)

    def _wait_for(self, check: Callable[[], bool], until: float) -> bool:
        """Wait until `check` succeeds, while tasks are run and the lease is renewed; False on timeout."""
        while not check():
            self._poll_thread.run_tasks()
            self._membership.renew()
            if time.monotonic() > until:
                return False
        return True
