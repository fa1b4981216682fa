"""One consumer of a delivery: poll → transform → write → commit → poll."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from gearshift.definitions import Topic
from gearshift.delivery.counts import Counts, Flight
from gearshift.delivery.decoding import decoding
from gearshift.delivery.handling import Handling, Lease
from gearshift.delivery.holdings import Due, Holdings
from gearshift.delivery.lanes import Lanes
from gearshift.delivery.once import Once
from gearshift.delivery.progress import Progress
from gearshift.delivery.rounds import Piece, Rounds
from gearshift.delivery.targets import Nowhere, ToDestination, ToTopic, until_aborted
from gearshift.errors import (
    BrokerUnreachableError,
    DeliveryError,
    GearshiftError,
    NotAMemberError,
    OffsetGoneError,
    RetriableError,
)
from gearshift.schemas import Registry
from gearshift.topics import (
    Admin,
    DeadLetter,
    DeadLetters,
    GroupConsumer,
    TransactionalProducer,
    dead_letter_headers,
)
from gearshift.topics.client import missing

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery
    from gearshift.record import Record
    from gearshift.settings import Settings

Message = Any
Place = tuple[str, int]
T = TypeVar("T")
log = logging.getLogger(__name__)

_POLL = timedelta(milliseconds=100)
_SOON = timedelta(milliseconds=1)  # while a round is under way, whose end wants to commit
_LEASE = (
    3.0  # seconds without a look at the group after which a consumer must prove that it is still a member
)
_LOOK_EVERY = 5.0
_COMMIT_EVERY = 0.5
_ROUND = 1000
_PAUSE_AFTER = 0.2  # a moment's wait for room is cheaper than a pause, which throws away what was fetched
_LET_GO_WITHIN = 30.0
_ANSWER_WITHIN = 15.0
_PROVE_EVERY = 0.5
_UNANSWERED_FOR = 90.0  # longer than librdkafka itself waits for a broker


class _Question:
    """Something that the polling thread is asked to do."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self._do = do
        self.answer: Any = None
        self.error: Exception | None = None
        self.answered = threading.Event()

    def act(self) -> None:
        """Do it, and tell whoever asked."""
        try:
            self.answer = self._do()
        except Exception as error:
            self.error = error
        self.answered.set()


class _Soon:
    """Commits without waiting: a coordinator that is away keeps nobody from polling."""

    def __init__(self, consumer: GroupConsumer, heard: Callable[[GearshiftError | None], None]) -> None:
        self._consumer, self._heard = consumer, heard

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Send the commit."""
        self._consumer.commit_soon(offsets, self._heard)


class _Outcome:
    """What became of a commit."""

    def __init__(self) -> None:
        self.error: GearshiftError | None = None
        self.told = threading.Event()

    def tell(self, error: GearshiftError | None) -> None:
        """It is known."""
        self.error = error
        self.told.set()


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
    ) -> None:
        """`member` tells the consumers of a group apart, and is the same when one is started again."""
        self.delivery = delivery
        self.counts = Counts()
        self.flight = Flight(in_flight, in_flight_bytes)
        self.holdings = Holdings()
        self.paused = False
        self._came = False
        self.error: str | None = None
        self._app = app
        self._connection = connection
        self._settings = settings
        self._member = member
        self._max_poll_interval = max_poll_interval
        self._stopping = threading.Event()
        self._hurrying = False
        self._failure: BaseException | None = None
        self._asked: SimpleQueue[_Question] = SimpleQueue()
        self._ended = False
        self._lease = Lease()
        self._lease.until = time.monotonic() + _LEASE
        self._suspect = False
        self._shown: dict[Place, Progress] | None = None
        self._shown_until = 0.0
        self._prove_at = 0.0
        self._letting_go = False
        self._closing = False
        self._look_at = time.monotonic() + _LOOK_EVERY
        self._fresh = False
        self._known = False
        self._poller = 0
        self._letters_lock = threading.Lock()
        self._marked: list[tuple[int, bytes]] = []

    def stop(self) -> None:
        """End, from any thread: what is in hand is finished and committed."""
        self._stopping.set()

    def run(self) -> None:
        """Deliver until `stop`."""
        try:
            self._run()
        except BaseException as error:
            self._failure = error
            raise

    def _run(self) -> None:
        with ExitStack() as exit_:
            self._poller = threading.get_ident()
            self._open(exit_)
            try:
                while not self._stopping.is_set():
                    if self._failure is not None:
                        raise self._failure
                    self._turn()
            except BaseException as error:
                self._failure = error  # nobody waits for this thread any more
                raise
            finally:
                self._stopping.set()
                self._closing = True
                # Before the consumer closes, for it takes no commits any more once it does.
                self._revoked(list(self.holdings))
                self._ended = True

    @property
    def failed(self) -> bool:
        """Whether it has ended, or is about to, by a failure."""
        return self._failure is not None

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
        with Admin(self._connection) as admin:
            admin.require([delivery.topic.name])
            admin.ensure_like(delivery.topic.dead_letters, delivery.topic.name)
        self._transactions: TransactionalProducer | None = None
        if isinstance(delivery.target, Topic):
            name = f"{self._app}.{delivery.name}.{self._member}"
            self._transactions = TransactionalProducer(self._connection, name)
            exit_.callback(self._transactions.close)
            target = ToTopic(delivery.target, self._transactions, registry)
        elif delivery.target is not None:
            target = ToDestination(delivery.target, delivery.group_id, self._settings)
        else:
            target = Nowhere()
        self._target = target
        exit_.callback(target.close)
        self._letters = exit_.enter_context(DeadLetters(self._connection))
        self._once = Once(delivery, self._connection) if delivery.once_by else None
        if self._once is not None:
            exit_.callback(self._once.close)
        self._handling = Handling(
            delivery,
            self._app,
            decode=decoding(delivery.topic, registry),
            target=target,
            once=self._once,
            counts=self.counts,
            finish=self._finish,
            set_aside=self._set_aside,
            lease=self._lease,
            is_ours=self._is_ours,
            keep=self._keep if self._once is not None else None,
        )
        self._by_partition = delivery.batch is not None or target.batch > 1
        # A destination that takes batches is written by one thread: its batches are its parallelism.
        threads = 1 if target.batch > 1 else delivery.parallelism
        self._lanes: Lanes[Piece] = Lanes(self._work, threads, delivery.name)
        self._rounds: Rounds | None = None
        # Keys side by side commit each in step: a round would make all of them wait for the busiest one.
        self._in_step = delivery.commit == "sync" and self._transactions is None and threads > 1
        if self._transactions is not None or (delivery.commit == "sync" and not self._in_step):
            self._rounds = Rounds(self._start_round, self._end_round, delivery.batch or _ROUND)
        self._lanes.open()
        exit_.callback(self._lanes.close, 5.0)
        self._consumer = GroupConsumer(
            self._connection,
            delivery.group_id,
            [delivery.topic.name, delivery.topic.replays],
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            max_poll_interval=self._max_poll_interval,
        )
        exit_.callback(self._consumer.close)  # calls _revoked: what is in hand is finished first
        if self._rounds is None:
            self._committer = threading.Thread(target=self._commit_often, name="commits", daemon=True)
            self._committer.start()
            exit_.callback(self._committer.join, 5.0)
            exit_.callback(self._stopping.set)

    def _turn(self) -> None:
        """One poll, and what follows from it."""
        soon = (self._rounds is not None or self._in_step) and self.flight.records
        messages = self._consumer.poll(_SOON if soon else _POLL)
        self._breathe()
        if self._suspect:
            self._prove()
        self._answer()
        if self._consumer.unanswered > _UNANSWERED_FOR:
            raise DeliveryError(
                f"group {self.delivery.group_id} has not answered a commit for {_UNANSWERED_FOR:.0f} s",
                hint="the consumer starts again",
                delivery=self.delivery.name,
            )
        if self._fresh:
            # From now on the group knows where it began, whether or not a record comes before it ends.
            self._fresh = False
            self._commit_or_warn()
        self._look_for_topic()
        if messages:
            self._take_in(messages)
        if self.flight.full and not self.paused and not self.flight.await_room(_PAUSE_AFTER):
            self._consumer.pause(self.holdings)
            self.paused = True
        elif self._came:
            # A partition comes back as it went: paused, if it was lost while we were.
            (self._consumer.pause if self.paused else self._consumer.resume)(self.holdings)
            self._came = False
        elif self.paused and self.flight.half_empty:
            self._consumer.resume(self.holdings)
            self.paused = False

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
        pieces = list(self._pieces(good))
        for _, of_place in pieces:
            self.flight.take(len(of_place), sum(map(len, of_place)))
        if self._rounds is not None:
            self._rounds.take(pieces)
        else:
            self._start_round(pieces)

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
            self._go_on_after_gap(message.topic(), message.partition())
            return
        if isinstance(error, DeliveryError):
            raise error
        if self.error != str(error):
            log.warning("%s: %s", self.delivery.name, error)
        self.error = str(error)

    def _go_on_after_gap(self, topic: str, partition: int) -> None:
        """Retention took records before they were read: say how many, and go on with the oldest there is."""
        place = (topic, partition)
        progress = self.holdings.get(place)
        if progress is None:
            return
        if self.delivery.start == "error":
            raise DeliveryError(
                "the next record is gone: retention took it",
                hint="gearshift group reset, or start='earliest'",
                delivery=self.delivery.name,
                topic=topic,
                partition=partition,
                offset=progress.next,
            )
        first, end = self._consumer.bounds(place)
        if progress.next > end:
            log.error(
                "%s: %s/%d ends at %d, before the offset %d that was to be read: it was made anew; going on at %d",
                self.delivery.name,
                topic,
                partition,
                end,
                progress.next,
                first,
            )
            progress.let_go()
            self._forget([place])
            self.holdings.add(place, first, None)
        else:
            skipped = progress.skip_to(first)
            self.counts.add("skipped", skipped)
            log.error(
                "%s: %d records of %s/%d are gone before they were read; going on at %d",
                self.delivery.name,
                skipped,
                topic,
                partition,
                first,
            )
        self._consumer.seek(place, first)

    # partitions come and go

    def _assigned(self, places: list[Place]) -> Mapping[Place, int]:
        committed = self._consumer.committed(places)
        begins = {place: committed.get(place) for place in places}
        self._fresh = any(offset is None for offset in begins.values())
        # A topic that was deleted and made again has no offsets, but a group that goes on.
        known_group = self._known or (
            self._fresh
            and bool(self._consumer.committed(self._consumer.partitions_of(self.delivery.topic.name)))
        )
        self._known = self._known or any(topic == self.delivery.topic.name for topic, _ in places)
        starts: dict[Place, int] = {}
        for place, offset in begins.items():
            starts[place] = offset if offset is not None else self._begin_of(place, known_group)
            if self._once is not None:
                self._once.restore(place[1])
            self.holdings.add(place, starts[place], offset)
        self._came = True
        self.error = None
        return starts

    def _begin_of(self, place: Place, known_group: bool) -> int:
        """Where a partition begins that nobody of the group has committed."""
        first, end = self._consumer.bounds(place)
        # A partition that was added after the group began is read from its first record, whatever `start` says
        # of the beginning; so is one that brings replays.
        if known_group or place[0] != self.delivery.topic.name or self.delivery.start == "earliest":
            return first
        if self.delivery.start == "latest":
            return end
        raise DeliveryError(
            f"group {self.delivery.group_id} has not committed an offset",
            hint="say start='earliest' or start='latest', or gearshift group reset",
            delivery=self.delivery.name,
            topic=place[0],
            partition=place[1],
        )

    def _revoked(self, places: list[Place]) -> None:
        """Finish what is in hand, or give it up in time; commit; let go."""
        self._letting_go = True
        try:
            self._let_go(places)
        finally:
            self._letting_go = False

    def _let_go(self, places: list[Place]) -> None:
        held = [progress for place in places if (progress := self.holdings.get(place)) is not None]
        for progress in held:
            progress.let_go()
        self._forget(places)
        until = time.monotonic() + _LET_GO_WITHIN
        rounds = self._rounds if self._failure is None else None  # after a failure no round ends any more
        if rounds is not None and (self._transactions is not None or self._stopping.is_set()):
            # The open transaction holds results of these partitions: it ends before they go.
            self._hurrying = True
            self._breathing(lambda: rounds.await_end(0.05), until)
            self._hurrying = False
        for progress in held:
            if not self._breathing(lambda progress=progress: progress.await_idle(0.05), until):
                log.warning("%s: a handler does not end; its record is delivered again", self.delivery.name)
        if self._transactions is None:
            if self._once is not None:
                # Whoever is next reads the marks when it begins: those on their way must be there.
                marks = self._once.marks
                self._breathing(lambda: marks.flush(0.05), until)
            self._commit_or_warn()
        self._drop(places)

    def _lost(self, places: list[Place]) -> None:
        """The group went on without us: whatever is in hand does not count."""
        log.warning("%s: lost %d partitions to the group", self.delivery.name, len(places))
        for place in places:
            progress = self.holdings.get(place)
            if progress is not None:
                progress.let_go()
        self._forget(places)
        self._drop(places)

    def _forget(self, places: list[Place]) -> None:
        if self._rounds is not None:
            gone = [progress for place in places if (progress := self.holdings.get(place)) is not None]
            for message in self._rounds.forget(gone):
                self.flight.give_back(1, len(message))

    def _drop(self, places: list[Place]) -> None:
        self.holdings.drop(places)
        if self._once is not None:
            for _, partition in places:
                if not any(other == partition for _, other in self.holdings):
                    self._once.forget(partition)

    def _breathing(self, check: Callable[[], bool], until: float) -> bool:
        """Wait for something while showing that we are alive."""
        while not check():
            self._answer()
            self._breathe()
            if time.monotonic() > until:
                return False
        return True

    # only one thread talks to the consumer

    def _ask(self, act: Callable[[], T]) -> T:
        """Let the polling thread do something with the consumer, which a poll keeps from everybody else."""
        if threading.get_ident() == self._poller:
            return act()
        question = _Question(act)
        self._asked.put(question)
        while not question.answered.wait(0.1):
            if self._ended or self._failure is not None:
                raise RetriableError("the consumer has ended")
        if question.error is not None:
            raise question.error
        return question.answer

    def _answer(self) -> None:
        while not self._asked.empty():
            self._asked.get().act()

    # are we still who we think we are?

    def _breathe(self) -> None:
        now = time.monotonic()
        if now > self._lease.until:
            self._suspect = True  # this process stood still: the group may have gone on without it
        if not self._suspect:
            self._lease.until = now + _LEASE

    def _prove(self) -> None:
        """Ask the group whether what we hold is ours; a poll later it is, unless that poll told us otherwise.

        A commit would not prove it: librdkafka tries one again in the name of the member that we become when we
        join anew. But before it does that it has put the loss of our partitions where the next poll finds it.
        """
        held = dict(self.holdings.items())
        now = time.monotonic()
        if self._shown is not None and now < self._shown_until and self._shown == held:
            self._shown = None
            self._suspect = False
            self._lease.until = now + _LEASE
            return
        self._shown = None
        if now < self._prove_at:
            return
        self._prove_at = now + _PROVE_EVERY
        try:
            owned = self._consumer.owned() if held else set[Place]()
        except GearshiftError:
            return  # no answer: neither proven nor disproven
        if held.keys() <= owned:
            self._shown, self._shown_until = held, now + _LEASE

    def _doubt(self) -> None:
        """The group did not take us for a member: nothing is acted on until that is clear."""
        self._suspect = True
        self._lease.until = 0.0

    def _is_ours(self, progress: Progress) -> bool:
        """Whether a record of this partition may be acted on now; waits while that is in doubt."""
        while progress.ours and not self._hurrying:
            if time.monotonic() < self._lease.until:
                return True
            progress.wait(0.02)
        return False

    # work

    def _start_round(self, pieces: list[Piece]) -> None:
        if self._transactions is not None:
            self._transactions.begin()
            self._marked = []
        self._lanes.submit(self._in_lanes(pieces))

    def _in_lanes(self, pieces: list[Piece]) -> Iterator[tuple[Hashable, Piece]]:
        """The records in smaller pieces, each with the lane that keeps it in order."""
        for progress, messages in pieces:
            if self._by_partition:
                size = self._handling.at_once
                for first in range(0, len(messages), size):
                    yield _place_of(messages), Piece(progress, messages[first : first + size])
            elif self.delivery.parallelism == 1:
                yield 0, Piece(progress, messages)
            else:
                place = _place_of(messages)
                for message in messages:
                    yield message.key() or (*place, message.offset()), Piece(progress, [message])

    def _work(self, piece: Piece) -> None:
        """Run a piece in a lane."""
        progress, messages = piece
        try:
            if not progress.enter():
                self._give_up(piece)
                return
            try:
                left = self._handling.run(progress, messages)
                if left:
                    self._give_up(Piece(progress, left))
            finally:
                progress.leave()
            if self._in_step and self.holdings.due():
                self._flush_and_commit()
        except BaseException as error:
            log.exception("%s: stopped by a failure of its own", self.delivery.name)
            self._failure = error

    def _give_up(self, piece: Piece) -> None:
        """Records that are not finished here."""
        progress, messages = piece
        self.flight.give_back(len(messages), sum(map(len, messages)))
        if self._rounds is None:
            return
        if progress.ours:
            self._rounds.drop(piece)
        else:
            self._rounds.done(len(messages))

    def _finish(self, progress: Progress, messages: list[Message]) -> None:
        progress.finish(*[message.offset() for message in messages])
        self.flight.give_back(len(messages), sum(map(len, messages)))
        if self._rounds is not None:
            self._rounds.done(len(messages))

    def _set_aside(self, letters: list[DeadLetter]) -> None:
        if self._transactions is None:
            with self._letters_lock:
                self._letters.write(letters)
            return
        for letter in letters:
            with until_aborted():
                self._transactions.send_bytes(
                    f"{letter.topic}.dlq", letter.value, key=letter.key, headers=dead_letter_headers(letter)
                )

    def _keep(self, record: Record[Any], then: Callable[[], None]) -> None:
        assert self._once is not None and record.identity is not None
        if self._transactions is None:
            self._once.keep(record.partition, record.identity, self._noting_failure(then))
            return
        mark = self._once.note(record.partition, record.identity)
        self._marked.append((record.partition, mark))
        marks = self._once.marks
        with until_aborted():
            self._transactions.send_bytes(
                marks.topic, b"", key=mark, partition=marks.partition_for(record.partition)
            )
        then()

    def _noting_failure(self, act: Callable[[], None]) -> Callable[[], None]:
        """What another thread calls for us: its failure is ours."""

        def acting() -> None:
            try:
                act()
            except BaseException as error:
                self._failure = error

        return acting

    # commits

    def _end_round(self, pieces: list[Piece]) -> list[Piece]:
        """Commit a round; the records of it that are to be worked on again."""
        assert self._rounds is not None
        again = self._rounds.dropped
        if self._transactions is None:
            self._flush_and_commit()
        elif not self._commit_transaction(self._transactions, pieces):
            again = pieces
            self._undo(pieces)
        again = [piece for piece in again if piece.progress.ours]
        for piece in again:
            self.flight.take(len(piece.messages), sum(map(len, piece.messages)))
        return again

    def _commit_transaction(self, transactions: TransactionalProducer, pieces: list[Piece]) -> bool:
        """Commit the transaction of a round with its offsets; False if it was taken back."""
        places = {_place_of(messages): progress for progress, messages in pieces}
        try:
            if not transactions.is_open:
                raise RetriableError("it was aborted under way")
            if any(self.holdings.get(place) is not progress for place, progress in places.items()):
                raise RetriableError("a partition went in the middle of it")
            if any(progress.has_gap_before(messages[-1].offset()) for progress, messages in pieces):
                # Its offset cannot tell of a result behind one that is missing.
                raise RetriableError("a record in the middle of it was not finished")
            membership = self._ask(lambda: self._consumer.membership)
            transactions.send_offsets(
                {place: progress.position for place, progress in places.items()}, membership
            )
            transactions.commit()
        except (NotAMemberError, RetriableError) as error:
            log.info("%s: the transaction is done again: %s", self.delivery.name, error)
            if isinstance(error, NotAMemberError):
                self._doubt()
            transactions.abort()
            return False
        for progress in places.values():
            progress.committed = progress.position
        return True

    def _undo(self, pieces: list[Piece]) -> None:
        undone: dict[Progress, list[int]] = {}
        for progress, messages in pieces:
            undone.setdefault(progress, []).extend(message.offset() for message in messages)
        for progress, offsets in undone.items():
            progress.undo(offsets)
        if self._once is not None:
            for partition, mark in self._marked:
                self._once.take_back(partition, mark)

    def _flush_and_commit(self) -> None:
        """Make sure of what was written, then commit it; again until it is done or we are no longer asked to."""
        attempt = 0
        while True:
            try:
                self._commit()
                return
            except NotAMemberError as error:
                self._doubt()
                log.warning("%s: %s", self.delivery.name, error)
                return
            except GearshiftError as error:
                self.counts.add("failed_commits")
                self.holdings.doubt()
                attempt += 1
                if self._stopping.wait(min(0.1 * 2**attempt, 2.0)):
                    log.warning("%s: %s", self.delivery.name, error)
                    return

    def _commit_often(self) -> None:
        while not self._stopping.wait(_COMMIT_EVERY):
            self._commit_or_warn()

    def _commit(self) -> None:
        if self._in_step:
            # What a lane has written is safe when it is finished: one commit serves all the lanes that wait.
            self._send_commit(self.holdings.due)
            return
        due = self.holdings.due()  # before the flush: what is written after it is not safe yet
        self._target.flush()
        self._send_commit(lambda: due)

    def _send_commit(self, due: Callable[[], list[Due]]) -> None:
        """Commit, and wait for the answer; but not in the polling thread, which is the one that brings it."""
        if threading.get_ident() == self._poller:
            self._commit_here(due(), self._heard)
            return
        outcome = _Outcome()
        self._ask(lambda: self._commit_here(due(), outcome.tell))
        until = time.monotonic() + _ANSWER_WITHIN
        while not outcome.told.wait(0.1):
            if self._letting_go:
                return  # the answer comes after the partitions went, and they wait for us
            if self._ended or self._failure is not None:
                raise RetriableError("the consumer has ended")
            if time.monotonic() > until:
                raise RetriableError("no broker takes the commit", hint="is a broker down?")
        if outcome.error is not None:
            raise outcome.error

    def _commit_here(self, due: list[Due], heard: Callable[[GearshiftError | None], None]) -> None:
        """Commit, in the polling thread."""
        if self._closing:  # no poll will tell
            try:
                self.holdings.commit(self._consumer, due)
            except GearshiftError as error:
                heard(error)
            else:
                heard(None)
        elif self._suspect:
            heard(RetriableError("whether this consumer is still a member is not clear"))
        elif self._consumer.in_callback:
            self.holdings.commit(_Soon(self._consumer, self._heard), due)
            heard(None)
        else:
            self.holdings.commit(_Soon(self._consumer, heard), due)

    def _heard(self, error: GearshiftError | None) -> None:
        """What became of a commit that nobody waits for."""
        if error is not None:
            self._commit_failed(error)

    def _commit_failed(self, error: GearshiftError) -> None:
        self.counts.add("failed_commits")
        log.warning("%s: %s", self.delivery.name, error)
        self.holdings.doubt()
        if isinstance(error, NotAMemberError):
            self._doubt()

    def _commit_or_warn(self) -> None:
        try:
            self._commit()
        except GearshiftError as error:
            # What was not committed now is committed with what comes next.
            self._commit_failed(error)
        except Exception as error:
            self._failure = error


def _place_of(messages: list[Message]) -> Place:
    return messages[0].topic(), messages[0].partition()
