"""One consumer of a delivery: poll → transform → write → commit → poll."""

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
from gearshift.delivery.assignments import Assignments
from gearshift.delivery.calls import Calls
from gearshift.delivery.commits import Commits
from gearshift.delivery.counts import Counts, Flight
from gearshift.delivery.decoding import decoding
from gearshift.delivery.errands import Errands
from gearshift.delivery.failures import NotOurs
from gearshift.delivery.handling import Handling
from gearshift.delivery.holdings import Holdings
from gearshift.delivery.life import Life
from gearshift.delivery.membership import Membership
from gearshift.delivery.once import Once
from gearshift.delivery.rounds import Piece
from gearshift.delivery.targets import Nowhere, ToDestination, ToTopic
from gearshift.delivery.transacting import Transacting
from gearshift.delivery.work import Work
from gearshift.errors import BrokerUnreachableError, DeliveryError, OffsetGoneError, RetriableError
from gearshift.rules.deliveries import check_copy
from gearshift.schemas import Registry
from gearshift.topics import Admin, DeadLetter, DeadLetters, GroupConsumer, TransactionalProducer
from gearshift.topics.client import ANSWER_AT_WORK_WITHIN, missing

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery
    from gearshift.delivery.care import Care
    from gearshift.delivery.polled import Polled
    from gearshift.settings import Settings

Message = Any  # confluent_kafka.Message, of which the library types nothing
Place = tuple[str, int]
log = logging.getLogger(__name__)

_POLL = timedelta(milliseconds=100)
_SOON = timedelta(milliseconds=1)  # while somebody waits for a commit, or soon will
_CHUNK = 2000
_LOOK_EVERY = 5.0
_PAUSE_AFTER = 0.2  # a moment's wait for room is cheaper than a pause, which throws away what was fetched
_UNANSWERED_FOR = 90.0  # longer than librdkafka itself waits for a broker
_ENDS_WITHIN = (
    150.0  # longer than a transaction takes to send its offsets and to be taken back, each in a minute
)


class Worker:
    """A consumer; `run` works until `stop`, and what it does not finish another consumer does."""

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
        care: Care | None = None,
    ) -> None:
        """`member` tells the consumers of a group apart, and is the same when one is started again."""
        self.delivery = delivery
        self.counts = Counts()
        self.flight = Flight(in_flight, in_flight_bytes)
        self.holdings = Holdings()
        self.paused = False
        self.error: str | None = None
        self._app = app
        self._connection = connection
        self._settings = settings
        self._member = member
        self._in_flight = in_flight
        self._max_poll_interval = max_poll_interval
        self._care = care
        self._life = Life()
        self._membership = Membership(self.holdings, self._life)
        self._full_since: float | None = None
        self._look_at = time.monotonic() + _LOOK_EVERY
        self._letters_lock = threading.Lock()

    def stop(self) -> None:
        """End, from any thread: what is in hand is finished and committed."""
        self._life.stopping.set()

    def run(self) -> None:
        """Deliver until `stop`."""
        try:
            self._run()
        except BaseException as error:
            self._life.failure = error
            raise

    def _run(self) -> None:
        life = self._life
        with ExitStack() as exit_:
            self._open(exit_)
            try:
                while not life.stopping.is_set():
                    if life.failure is not None:
                        raise life.failure
                    self._turn()
            except BaseException as error:
                self._membership.fail(error)  # nobody waits for this thread any more
                raise
            finally:
                life.stopping.set()
                life.closing = True
                # Before the consumer closes, for it takes no commits any more once it does.
                self._assignments.revoked(list(self.holdings))
                life.ended = True

    @property
    def failed(self) -> bool:
        """Whether it has ended, or is about to, by a failure."""
        return self._life.failure is not None

    def status(self) -> dict[str, Any]:
        """How it is, as plain data."""
        return {
            **self.counts.as_dict(),
            "in_flight": self.flight.records,
            "in_flight_bytes": self.flight.bytes,
            "paused": self.paused,
            "error": self.error,
            "partitions": sorted(f"{topic}/{partition}" for topic, partition in self.holdings),
        }

    # life

    def _open(self, exit_: ExitStack) -> None:
        delivery = self.delivery
        registry = exit_.enter_context(Registry(self._connection))
        with Admin(self._connection, answer_within=ANSWER_AT_WORK_WITHIN) as admin:
            found = admin.require([delivery.topic.name])[delivery.topic.name]
            # A connector of the user's own may have made more partitions than are declared.
            topic = replace(delivery.topic, partitions=found.partitions)
            check_copy(delivery.name, topic, delivery.target, delivery.parallelism, delivery.defined_at)
            admin.ensure_like(delivery.topic.dead_letters, delivery.topic.name)
        self._errands = Errands(self._life, self.flight.wake)
        self._once = Once(delivery, self._connection) if delivery.once_by else None
        if self._once is not None:
            exit_.callback(self._once.close)
        self._open_target(exit_, registry)
        self._letters = exit_.enter_context(DeadLetters(self._connection))
        calls = Calls(delivery)
        exit_.callback(calls.close)
        transacting = self._transacting
        work = self._work = Work(
            delivery,
            batch=self._target.batch,
            in_flight=self._in_flight,
            flight=self.flight,
            transacting=transacting,
            membership=self._membership,
        )
        work.handling = Handling(
            delivery,
            self._app,
            call=calls.handle,
            decode=decoding(delivery.topic, registry),
            target=self._target,
            once=self._once,
            counts=self.counts,
            finish=work.finish,
            set_aside=self._set_aside if transacting is None else transacting.set_aside,
            lease=self._membership.lease,
            is_ours=self._membership.covers,
            keep=self._keep if transacting is None else transacting.keep,
            care=self._care,
        )
        work.open()
        exit_.callback(work.close, 5.0)
        self._open_consumer(exit_)

    def _open_target(self, exit_: ExitStack, registry: Registry) -> None:
        delivery = self.delivery
        self._transacting: Transacting | None = None
        if isinstance(delivery.target, Topic):
            name = f"{self._app}.{delivery.name}.{self._member}"
            transactions = TransactionalProducer(self._connection, name)
            exit_.callback(transactions.close)
            self._transacting = Transacting(
                delivery.name,
                transactions,
                once=self._once,
                holdings=self.holdings,
                membership=self._membership,
                errands=self._errands,
            )
            self._target = ToTopic(delivery.target, transactions, registry, self._transacting.refused)
        elif delivery.target is not None:
            self._target = ToDestination(
                delivery.target,
                delivery.group_id,
                self._settings,
                delivery.handler,
                captured=delivery.topic.envelope is not None,
            )
        else:
            self._target = Nowhere()
        exit_.callback(self._target.close)

    def _open_consumer(self, exit_: ExitStack) -> None:
        delivery, life = self.delivery, self._life
        assignments = self._assignments = Assignments(
            delivery,
            holdings=self.holdings,
            once=self._once,
            rounds=self._work.rounds,
            in_transactions=self._transacting is not None,
            membership=self._membership,
            errands=self._errands,
            flight=self.flight,
            counts=self.counts,
            life=life,
        )
        consumer = self._consumer = assignments.consumer = self._work.consumer = GroupConsumer(
            self._connection,
            delivery.group_id,
            [delivery.topic.name, delivery.topic.replays],
            on_assigned=assignments.assigned,
            on_revoked=assignments.revoked,
            on_lost=assignments.lost,
            max_poll_interval=self._max_poll_interval,
        )
        self._commits = assignments.commits = self._work.commits = Commits(
            delivery.name,
            consumer=consumer,
            holdings=self.holdings,
            flush=self._target.flush,
            membership=self._membership,
            errands=self._errands,
            counts=self.counts,
            life=life,
        )
        exit_.callback(consumer.close)  # calls `revoked`: what is in hand is finished first
        if self._work.rounds is None:
            committer = threading.Thread(target=self._commits.make_often, name="commits", daemon=True)
            committer.start()
            exit_.callback(committer.join, 5.0)
            exit_.callback(life.stopping.set)

    # the loop

    def _turn(self) -> None:
        """One poll, and what follows from it."""
        consumer, assignments = self._consumer, self._assignments
        is_full = self.flight.full and not self.paused
        # A poll also brings the answers to commits, so there is one even where there is no room for records.
        messages = consumer.poll(
            _SOON if is_full or self._work.is_waited_for else _POLL, 1 if is_full else _CHUNK
        )
        self._membership.breathe()
        if self._membership.in_doubt:
            self._membership.prove(consumer)
        self._errands.run()
        self._require_answers()
        if assignments.fresh:
            # From now on the group knows where it began, whether or not a record comes before it ends.
            assignments.fresh = False
            self._commits.make_or_warn()
        self._look_for_topic()
        if messages:
            self._take_in(messages)
        self._hold_back()

    def _require_answers(self) -> None:
        """Start anew rather than wait for ever, while the group takes us for a member that works."""
        rounds = self._work.rounds if self._transacting is not None else None
        if self._consumer.unanswered > _UNANSWERED_FOR:
            what = f"group {self.delivery.group_id} has not answered a commit for {_UNANSWERED_FOR:.0f} s"
        elif rounds is not None and rounds.ending_for > _ENDS_WITHIN:
            # librdkafka does not keep to its time limit where a group's coordinator is gone (its issue 5456).
            what = f"a transaction has not ended for {_ENDS_WITHIN:.0f} s"
        else:
            return
        raise DeliveryError(what, hint="the consumer starts again", delivery=self.delivery.name)

    def _hold_back(self) -> None:
        """Take no more than there is room for."""
        if self.flight.full and not self.paused:
            now = time.monotonic()
            self._full_since = self._full_since or now
            left = self._full_since + _PAUSE_AFTER - now
            if left > 0:
                answer_comes = self._consumer.unanswered > 0
                self.flight.await_room(
                    min(left, _SOON.total_seconds()) if answer_comes else left,
                    lambda: self._errands.are_waiting,
                )
            else:
                self.paused = True
                self._set_flow()
        elif self.paused and self.flight.half_empty:
            self.paused = False
            self._set_flow()
        if not self.flight.full:
            self._full_since = None
        if self._assignments.came:
            self._assignments.came = False
            self.error = None
            self._set_flow()  # a partition comes back as it went: paused, if it was lost while it was
        if self._assignments.waiting and self._assignments.look_for_marks():
            self._set_flow()

    def _set_flow(self) -> None:
        """Fetch if there is room, but of no partition that waits for its marks."""
        waiting = self._assignments.waiting
        flowing = [] if self.paused else [place for place in self.holdings if place not in waiting]
        self._consumer.pause([place for place in self.holdings if place not in flowing])
        self._consumer.resume(flowing)

    def _look_for_topic(self) -> None:
        """A topic that is deleted takes its partitions away without a word: say so, until it is there again."""
        now = time.monotonic()
        topic = self.delivery.topic.name
        if now < self._look_at or any(place[0] == topic for place in self.holdings):
            return
        self._look_at = now + _LOOK_EVERY
        with suppress(BrokerUnreachableError):
            error = None if self._consumer.partitions_of(topic) else str(missing(topic))
            if error is not None and error != self.error:
                log.warning("%s: %s", self.delivery.name, error)
            self.error = error

    def _take_in(self, messages: list[Message]) -> None:
        good = [message for message in messages if message.error() is None]
        if len(good) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._on_error(message)
        self._work.take(list(self._pieces(good)))

    def _pieces(self, messages: list[Message]) -> Iterator[Piece]:
        """The records by partition, each bound to the assignment it was polled in."""
        by_place: dict[Place, list[Message]] = {}
        for message in messages:
            by_place.setdefault((message.topic(), message.partition()), []).append(message)
        for place, of_place in by_place.items():
            progress = self.holdings.get(place)
            if progress is not None:
                progress.begin([message.offset() for message in of_place])
                yield Piece(progress, of_place)

    def _on_error(self, message: Message) -> None:
        error = self._consumer.error_of(message)
        if error is None or message.topic() == self.delivery.topic.replays:
            return  # nothing has been replayed yet: the topic comes with the first replay
        if isinstance(error, OffsetGoneError):
            self._assignments.go_on_after_gap((message.topic(), message.partition()), error.offset)
            return
        if isinstance(error, DeliveryError):
            raise error
        if self.error != str(error):
            log.warning("%s: %s", self.delivery.name, error)
        self.error = str(error)

    def _set_aside(self, letters: list[DeadLetter]) -> None:
        with self._letters_lock:
            self._letters.write(letters)

    def _keep(self, records: list[Polled]) -> None:
        assert self._once is not None
        self._target.flush()  # what is marked never comes again, so it has to be safe
        try:
            self._once.keep([(record.partition, record.identity or b"") for record in records])
        except RetriableError as error:
            raise NotOurs from error
