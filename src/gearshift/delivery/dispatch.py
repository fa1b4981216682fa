"""Dispatch records to lanes: parallel, but in order within a lane."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gearshift.delivery.assignment import Piece
from gearshift.delivery.commits import Commits
from gearshift.delivery.handling import Handling
from gearshift.delivery.in_flight import InFlight
from gearshift.delivery.membership import Membership
from gearshift.delivery.rounds import Rounds, Transactions
from gearshift.errors import GearshiftError

if TYPE_CHECKING:
    from gearshift.definitions import Delivery
    from gearshift.topics import GroupConsumer

Item = TypeVar("Item")
Message = Any  # confluent_kafka.Message, which has no type hints
log = logging.getLogger(__name__)
_ROUND = 100
_END = object()
_TURN = 0.02  # seconds after which a lane yields its thread to another


class Plan:
    """How a delivery's records are divided among threads and commits."""

    def __init__(self, delivery: Delivery, batch: int, *, in_transactions: bool, in_flight: int) -> None:
        """`batch` is the number of records that the target takes at once."""
        self.by_partition = delivery.batch_size is not None or batch > 1
        # A destination that takes batches is written by one thread: its batches are its parallelism.
        self.threads = 1 if batch > 1 else delivery.parallelism
        waits = delivery.commit == "sync" and not in_transactions
        # Parallel keys each wait for their own commit: in a round all of them would wait for the slowest.
        self.commit_per_turn = waits and self.threads > 1
        self.rounds: Rounds | None = None
        if in_transactions or (waits and not self.commit_per_turn):
            # Rounds of whole batches, where the handler takes batches.
            least = (delivery.batch_size or batch) if self.by_partition else 1
            size = least if self.by_partition else _ROUND
            self.rounds = Rounds(size, least=least, most=max(least, in_flight // 2))


class Dispatcher:
    """Handles records in lanes, in rounds where a commit or transaction has to end before the next begins."""

    def __init__(
        self,
        delivery: Delivery,
        plan: Plan,
        handling: Handling,
        *,
        in_flight: InFlight,
        transactions: Transactions | None,
        membership: Membership,
        consumer: GroupConsumer,
        commits: Commits,
    ) -> None:
        self._delivery = delivery
        self._plan = plan
        self._rounds = plan.rounds
        self._handling = handling
        self._in_flight = in_flight
        self._transactions = transactions
        self._membership = membership
        self._consumer = consumer
        self._commits = commits
        self._lanes: Lanes[Piece] = Lanes(
            self._handle,
            plan.threads,
            delivery.name,
            failed=self._failed,
            after=commits.join if plan.commit_per_turn else None,
        )

    @property
    def awaits_commit(self) -> bool:
        """Whether records in flight wait for a commit, or soon will."""
        return bool(self._in_flight.records) and (self._rounds is not None or self._plan.commit_per_turn)

    def open(self) -> None:
        """Start the threads."""
        self._lanes.open()

    def close(self, seconds: float) -> None:
        """Stop the threads."""
        self._lanes.close(seconds)

    def dispatch(self, pieces: list[Piece]) -> None:
        """Start records, at once or in the next round."""
        if self._rounds is None:
            self._start(pieces)
        elif (first := self._rounds.add(pieces)) is not None:
            self._start(first)
            self._count_finished(1)

    def _start(self, pieces: list[Piece]) -> None:
        if self._transactions is not None:
            self._transactions.begin()
        self._lanes.submit(self._split(pieces))

    def _split(self, pieces: list[Piece]) -> Iterator[tuple[Hashable, Piece]]:
        """Split records into smaller pieces, each with the lane that keeps it in order."""
        for piece in pieces:
            tracker, messages = piece
            partition = piece.partition
            if self._plan.by_partition:
                size = self._handling.batch_size
                for first in range(0, len(messages), size):
                    yield partition, Piece(tracker, messages[first : first + size])
            elif self._delivery.parallelism == 1:
                yield 0, piece
            else:
                by_key: dict[Hashable, list[Message]] = {}
                for message in messages:
                    key = message.key() or (*partition, message.offset())
                    by_key.setdefault(key, []).append(message)
                for key, of_key in by_key.items():
                    yield key, Piece(tracker, of_key)

    def _handle(self, piece: Piece, until: float) -> Piece | None:
        """Handle a piece in a lane, then commit the round if it is complete; return what is left of the piece."""
        tracker, messages = piece
        if not tracker.enter():
            self._drop(piece)
            self._count_finished(len(messages))
            return None
        try:
            later, dropped = self._handling.run(tracker, messages, until)
            if dropped:
                self._drop(Piece(tracker, dropped))
            self._count_finished(len(messages) - len(later))
        finally:
            tracker.leave()
        return Piece(tracker, later) if later else None

    def _drop(self, piece: Piece) -> None:
        """Drop records that are not finished here."""
        self._in_flight.remove(len(piece.messages), piece.size)
        if self._rounds is not None and piece.tracker.owned:
            self._rounds.drop(piece)

    def _count_finished(self, count: int) -> None:
        """Count finished records; commit each round that is complete and start the next."""
        rounds = self._rounds
        if rounds is None or not count:
            return
        while rounds.finish(count):
            following = rounds.end(self._commit_round(rounds))
            if following is None:
                return
            self._start(following)
            count = 1

    def _commit_round(self, rounds: Rounds) -> list[Piece]:
        """Commit a round; return its records that have to be handled again."""
        again = rounds.dropped
        if self._transactions is None:
            self._commits.commit()
        elif not self._transactions.commit(rounds.current, self._consumer):
            again = rounds.current
            if self._transactions.suspects:
                rounds.one_by_one(self._transactions.suspects)
        again = [piece for piece in again if piece.tracker.owned]
        for piece in again:
            self._in_flight.add(len(piece.messages), piece.size)
        return again

    def _failed(self, error: BaseException) -> None:
        # Our own errors are complete; for others the traceback is needed.
        trace = None if isinstance(error, GearshiftError) else error
        log.error("%s: the consumer failed: %s", self._delivery.name, error, exc_info=trace)
        self._membership.fail(error)


class Lanes(Generic[Item]):
    """A thread pool in which the items of one lane run one after the other, those of different lanes in parallel.

    A lane exists while it has items. A thread works on one for a short turn and then takes another, so a lane with
    many items keeps one thread busy and delays no other lane. `run` works on an item until a time on the monotonic
    clock and returns what is left of it, or None; `after` is called at the end of each turn, before the next item of
    the lane can begin. If either raises, `failed` is called and no item of any lane begins: the failed item is not
    finished, and later items of its lane must not overtake it.
    """

    def __init__(
        self,
        run: Callable[[Item, float], Item | None],
        threads: int,
        name: str,
        *,
        failed: Callable[[BaseException], None],
        after: Callable[[], None] | None = None,
    ) -> None:
        self._run = run
        self._after = after
        self._failed = failed
        self._has_failed = False
        self._lanes: dict[Hashable, deque[Item]] = {}
        self._ready: SimpleQueue[Any] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name} {number}", daemon=True)
            for number in range(threads)
        ]

    def open(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def submit(self, items: Iterable[tuple[Hashable, Item]]) -> None:
        """Append each item to its lane."""
        ready: list[Hashable] = []
        with self._lock:
            for lane, item in items:
                waiting = self._lanes.get(lane)
                if waiting is None:
                    self._lanes[lane] = deque((item,))
                    ready.append(lane)
                else:
                    waiting.append(item)
        for lane in ready:
            self._ready.put(lane)

    def close(self, seconds: float) -> None:
        """Let each thread end after its current turn."""
        for _ in self._threads:
            self._ready.put(_END)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(seconds)

    def _work(self) -> None:
        while (lane := self._ready.get()) is not _END:
            waiting = self._lanes[lane]
            done = 0
            try:
                done = self._turn(waiting)
                if self._after is not None:
                    self._after()
            except BaseException as error:
                self._has_failed = True
                self._failed(error)
            if self._has_failed:
                return
            with self._lock:
                for _ in range(done):
                    waiting.popleft()
                empty = not waiting
                if empty:
                    del self._lanes[lane]
            if not empty:
                self._ready.put(lane)

    def _turn(self, waiting: deque[Item]) -> int:
        """Work on a lane for one turn; return how many items are done. Only this thread takes items from it."""
        until = time.monotonic() + _TURN
        done = 0
        while done < len(waiting) and not self._has_failed:
            left = self._run(waiting[done], until)
            if left is not None:
                waiting[done] = left
                break
            done += 1
            if time.monotonic() > until:
                break
        return done
