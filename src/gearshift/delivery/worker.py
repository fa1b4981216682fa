"""One consumer of a delivery: poll → confirm → decode, handle and write in lanes → commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gearshift.definitions import Topic
from gearshift.delivery.assignment import Assignment, Piece, TopicPartition
from gearshift.delivery.confirmation import TopicConfirmation
from gearshift.delivery.decoding import decoding
from gearshift.delivery.dedup import Dedup
from gearshift.delivery.dispatch import Dispatcher, Plan
from gearshift.delivery.handling import Handler, Handling
from gearshift.delivery.in_flight import Counts, FlowControl, InFlight
from gearshift.delivery.membership import Membership
from gearshift.delivery.poll_thread import Lifecycle, PollThread
from gearshift.delivery.rebalance import GroupMember
from gearshift.delivery.rounds import Transactions
from gearshift.delivery.targets import DestinationTarget, DirectOutputs, NoTarget, Target, TopicTarget
from gearshift.errors import BrokerUnreachableError, DeliveryError, OffsetGoneError
from gearshift.rules.deliveries import check_copy
from gearshift.schemas import Registry
from gearshift.topics import Admin, DeadLetters, TopicIds, TransactionalProducer
from gearshift.topics.client import ANSWER_AT_WORK_WITHIN, missing

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery
    from gearshift.delivery.crash_guard import CrashGuard
    from gearshift.settings import Settings

Message = Any  # confluent_kafka.Message, which has no type hints
log = logging.getLogger(__name__)

_POLL = timedelta(milliseconds=100)
_SOON = timedelta(milliseconds=1)  # while a thread waits for a commit, or soon will
_MAX_POLL_RECORDS = 2000
_CHECK_TOPIC_EVERY = 5.0
_ANSWER_WITHIN = 90.0  # longer than librdkafka's own timeouts
_TRANSACTION_ENDS_WITHIN = 150.0  # longer than sending the offsets and aborting take, each at most a minute


class Worker:
    """A consumer; `run` delivers until `stop`, and another consumer delivers what it does not finish."""

    def __init__(
        self,
        delivery: Delivery,
        app: str,
        connection: Connection,
        *,
        settings: Settings | None = None,
        member: str = "0",
        in_flight: int = 20_000,
        in_flight_bytes: int = 64 << 20,
        max_poll_interval: timedelta = timedelta(minutes=5),
        crash_guard: CrashGuard | None = None,
    ) -> None:
        """`member` identifies the consumer within its group, and stays the same across restarts."""
        self.delivery = delivery
        self.counts = Counts()
        self.in_flight = InFlight(in_flight, in_flight_bytes)
        self.assignment = Assignment()
        self.error: str | None = None
        self._app = app
        self._connection = connection
        self._settings = settings
        self._member_name = member
        self._max_in_flight = in_flight
        self._max_poll_interval = max_poll_interval
        self._crash_guard = crash_guard
        self._lifecycle = Lifecycle()
        self._membership = Membership(self.assignment, self._lifecycle)
        self._check_topic_at = time.monotonic() + _CHECK_TOPIC_EVERY

    def stop(self) -> None:
        """Stop, from any thread: records in flight are finished and committed."""
        self._lifecycle.stopping.set()

    @property
    def failed(self) -> bool:
        """Whether it has failed, or is about to stop with a failure."""
        return self._lifecycle.failure is not None

    def status(self) -> dict[str, Any]:
        """Its status as plain data."""
        return {
            **self.counts.as_dict(),
            "in_flight": self.in_flight.records,
            "in_flight_bytes": self.in_flight.bytes,
            "paused": self.in_flight.paused,
            "error": self.error,
            "retrying": self.counts.retrying,
            "partitions": sorted(f"{topic}/{partition}" for topic, partition in self.assignment),
        }

    def run(self) -> None:
        """Deliver until `stop`."""
        try:
            self._run()
        except BaseException as error:
            self._lifecycle.failure = error
            raise

    def _run(self) -> None:
        lifecycle = self._lifecycle
        with ExitStack() as exit_:
            self._open(exit_)
            try:
                while not lifecycle.stopping.is_set():
                    if lifecycle.failure is not None:
                        raise lifecycle.failure
                    self._turn()
            except BaseException as error:
                self._membership.fail(error)  # so that no other thread waits for this one
                raise
            finally:
                lifecycle.stopping.set()
                lifecycle.closing = True
                # Before the consumer is closed, because a closed one cannot commit.
                self._member.revoke(list(self.assignment))
                lifecycle.ended = True

    # the poll loop

    def _turn(self) -> None:
        """Poll once, and pass confirmed records on to the lanes, which decode, handle and write them.

        Threads that have finished records queue their commits as tasks of this thread.
        """
        if messages := self._poll():
            self._take_in(messages)
        self._confirmation.receive()
        if self._confirmation.recreated is not None:
            self._rejoin(self._confirmation.recreated)
        if self._confirmation.allows(self._poll_thread.has_tasks):
            self._poll_thread.run_tasks()
        self._require_answers()
        if self._member.pop_without_offset():
            # Commit where the group started, in case no record arrives before it stops.
            self._member.commits.try_commit()
        self._check_topic()
        if pieces := self._confirmation.confirmed():
            self._dispatcher.dispatch(pieces)
        self._confirmation.ask()
        self._flow.regulate()
        if self._member.pop_assigned():
            self.error = None
            self._flow.apply()  # a partition that was lost while paused is assigned paused

    def _poll(self) -> list[Message]:
        """Poll, even without room for records: a poll also brings the answers to commits."""
        is_full = self._flow.is_full
        soon = is_full or self._dispatcher.awaits_commit or self._confirmation.is_asking
        messages = self._consumer.poll(_SOON if soon else _POLL, 1 if is_full else _MAX_POLL_RECORDS)
        self._membership.renew()
        if self._membership.in_doubt:
            self._membership.prove(self._consumer)
        return messages

    def _take_in(self, messages: list[Message]) -> None:
        """Hold polled records until their topic is confirmed."""
        good = [message for message in messages if message.error() is None]
        if len(good) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._on_error(message)
        self._confirmation.hold(list(self._pieces(good)))

    def _pieces(self, messages: list[Message]) -> Iterator[Piece]:
        """The records by partition, each bound to the assignment it was polled in."""
        by_partition: dict[TopicPartition, list[Message]] = {}
        for message in messages:
            by_partition.setdefault((message.topic(), message.partition()), []).append(message)
        for partition, of_partition in by_partition.items():
            tracker = self.assignment.get(partition)
            if tracker is not None:
                tracker.begin([message.offset() for message in of_partition])
                yield Piece(tracker, of_partition)

    def _on_error(self, message: Message) -> None:
        error = self._consumer.error_of(message)
        if error is None or message.topic() == self.delivery.topic.replays:
            return  # the topic for replays is created with the first replay
        if isinstance(error, OffsetGoneError):
            self._member.skip_gap((message.topic(), message.partition()), error.offset)
            return
        if isinstance(error, DeliveryError):
            raise error
        if self.error != str(error):
            log.warning("%s: %s", self.delivery.name, error)
        self.error = str(error)

    def _rejoin(self, topic: str) -> None:
        self._member.rejoin(topic)
        if self._transactions is not None:
            self._transactions.rejected.clear()  # it identifies records by their offsets

    def _require_answers(self) -> None:
        """Restart instead of waiting without end, while the group takes this consumer for a working member."""
        rounds = self._plan.rounds if self._transactions is not None else None
        if self._consumer.unanswered > _ANSWER_WITHIN:
            what = f"group {self.delivery.group_id} has not answered a commit for {_ANSWER_WITHIN:.0f} s"
        elif self._confirmation.unanswered > _ANSWER_WITHIN:
            what = f"no broker has returned the topic's id for {_ANSWER_WITHIN:.0f} s"
        elif rounds is not None and rounds.ending_for > _TRANSACTION_ENDS_WITHIN:
            # librdkafka ignores its timeout when a group's coordinator is gone (its issue 5456).
            what = f"a transaction has not ended for {_TRANSACTION_ENDS_WITHIN:.0f} s"
        else:
            return
        raise DeliveryError(what, hint="the consumer restarts", delivery=self.delivery.name)

    def _check_topic(self) -> None:
        """Report a deleted topic, whose partitions are revoked without an error, until it exists again."""
        now = time.monotonic()
        topic = self.delivery.topic.name
        if now < self._check_topic_at or any(partition[0] == topic for partition in self.assignment):
            return
        self._check_topic_at = now + _CHECK_TOPIC_EVERY
        with suppress(BrokerUnreachableError):
            error = None if self._consumer.partitions_of(topic) else str(missing(topic))
            if error is not None and error != self.error:
                log.warning("%s: %s", self.delivery.name, error)
            self.error = error

    # wiring

    def _open(self, exit_: ExitStack) -> None:
        """Create the parts in the order in which they depend on each other; they are closed in reverse."""
        registry = exit_.enter_context(Registry(self._connection))
        delivery = self._check_delivery()
        self._poll_thread = PollThread(self._lifecycle, self.in_flight.wake)
        dedup = Dedup(delivery, self._connection) if delivery.once_by else None
        if dedup is not None:
            exit_.callback(dedup.close)
        target, self._transactions = self._open_target(exit_, registry, dedup)
        letters = exit_.enter_context(DeadLetters(self._connection))
        handler = Handler(delivery)
        exit_.callback(handler.close)
        self._plan = Plan(
            delivery,
            target.batch_size,
            in_transactions=self._transactions is not None,
            in_flight=self._max_in_flight,
        )
        handling = Handling(
            delivery,
            self._app,
            handler=handler,
            decoding=decoding(delivery.topic, registry),
            target=target,
            outputs=self._transactions or DirectOutputs(letters, target, dedup),
            dedup=dedup,
            counts=self.counts,
            in_flight=self.in_flight,
            membership=self._membership,
            crash_guard=self._crash_guard,
        )
        topic_ids = TopicIds(self._connection)
        self._confirmation = TopicConfirmation(
            topic_ids, assignment=self.assignment, in_flight=self.in_flight
        )
        member = self._member = GroupMember(
            delivery,
            self._connection,
            assignment=self.assignment,
            target=target,
            dedup=dedup,
            rounds=self._plan.rounds,
            topic_ids=topic_ids,
            confirmation=self._confirmation,
            in_transactions=self._transactions is not None,
            membership=self._membership,
            poll_thread=self._poll_thread,
            in_flight=self.in_flight,
            counts=self.counts,
            lifecycle=self._lifecycle,
            max_poll_interval=self._max_poll_interval,
        )
        self._consumer = member.consumer
        self._flow = FlowControl(
            member,
            assignment=self.assignment,
            in_flight=self.in_flight,
            confirmation=self._confirmation,
            poll_thread=self._poll_thread,
        )
        self._dispatcher = Dispatcher(
            delivery,
            self._plan,
            handling,
            in_flight=self.in_flight,
            transactions=self._transactions,
            membership=self._membership,
            consumer=member.consumer,
            commits=member.commits,
        )
        exit_.callback(self._dispatcher.close, 5.0)
        exit_.callback(member.consumer.close)  # calls `revoke`, which waits for the lanes
        self._dispatcher.open()
        if self._plan.rounds is None:
            committer = threading.Thread(
                target=member.commits.commit_periodically, name="commits", daemon=True
            )
            committer.start()
            exit_.callback(committer.join, 5.0)
            exit_.callback(self._lifecycle.stopping.set)

    def _check_delivery(self) -> Delivery:
        """The delivery with the partitions that its topic really has, which may be more than declared."""
        delivery = self.delivery
        with Admin(self._connection, answer_within=ANSWER_AT_WORK_WITHIN) as admin:
            found = admin.require([delivery.topic.name])[delivery.topic.name]
            delivery = replace(delivery, topic=replace(delivery.topic, partitions=found.partitions))
            check_copy(
                delivery.name, delivery.topic, delivery.target, delivery.parallelism, delivery.defined_at
            )
            admin.ensure_like(delivery.topic.dead_letters, delivery.topic.name)
        return delivery

    def _open_target(
        self, exit_: ExitStack, registry: Registry, dedup: Dedup | None
    ) -> tuple[Target, Transactions | None]:
        delivery = self.delivery
        transactions: Transactions | None = None
        target: Target
        if isinstance(delivery.target, Topic):
            name = f"{self._app}.{delivery.name}.{self._member_name}"
            producer = TransactionalProducer(self._connection, name)
            exit_.callback(producer.close)
            transactions = Transactions(
                delivery.name,
                producer,
                dedup=dedup,
                assignment=self.assignment,
                membership=self._membership,
                poll_thread=self._poll_thread,
            )
            target = TopicTarget(delivery.target, producer, registry, transactions.rejected)
        elif delivery.target is not None:
            target = DestinationTarget(
                delivery.target,
                delivery.group_id,
                self._settings,
                delivery.handler,
                captured=delivery.topic.envelope is not None,
            )
        else:
            target = NoTarget()
        exit_.callback(target.close)
        return target, transactions
