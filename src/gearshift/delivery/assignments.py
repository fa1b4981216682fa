"""Partitions come and go: where each begins, and what is done before it goes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gearshift.delivery.commits import Commits
from gearshift.delivery.counts import Counts, Flight
from gearshift.delivery.errands import Errands
from gearshift.delivery.holdings import Holdings
from gearshift.delivery.life import Life
from gearshift.delivery.membership import Membership
from gearshift.delivery.once import Once
from gearshift.delivery.rounds import Rounds
from gearshift.errors import BrokerUnreachableError, DeliveryError

if TYPE_CHECKING:
    from gearshift.definitions import Delivery
    from gearshift.topics import GroupConsumer

Place = tuple[str, int]
T = TypeVar("T")
log = logging.getLogger(__name__)
_LET_GO_WITHIN = 30.0
_SETTLED_WITHIN = 90.0  # the brokers abort a transaction that nobody ends after a minute


class Assignments:
    """What the group gives to a consumer and takes from it."""

    consumer: GroupConsumer
    commits: Commits

    def __init__(
        self,
        delivery: Delivery,
        *,
        holdings: Holdings,
        once: Once | None,
        rounds: Rounds | None,
        in_transactions: bool,
        membership: Membership,
        errands: Errands,
        flight: Flight,
        counts: Counts,
        life: Life,
    ) -> None:
        """`consumer` and `commits` are set before the first poll."""
        self.came = False
        """Whether partitions came since somebody looked."""
        self.fresh = False
        """Whether some of them had no offset."""
        self._delivery = delivery
        self._holdings = holdings
        self._once = once
        self._rounds = rounds
        self._in_transactions = in_transactions
        self._membership = membership
        self._errands = errands
        self._flight = flight
        self._counts = counts
        self._life = life
        self._known = False
        self._restoring: dict[Place, Future[None]] = {}

    @property
    def waiting(self) -> Collection[Place]:
        """The partitions of which nothing may be read yet: nobody knows what of them was delivered."""
        return self._restoring.keys()

    def look_for_marks(self) -> bool:
        """Whether a partition waits no longer."""
        done = [place for place, future in self._restoring.items() if future.done()]
        for place in done:
            self._restoring.pop(place).result()
        return bool(done)

    def assigned(self, places: list[Place]) -> Mapping[Place, int]:
        """Hold partitions; where each begins."""
        ids = {topic: self._asked(partial(self.consumer.topic_id, topic)) for topic, _ in places}
        committed = self._committed(places)
        begins = {place: committed.get(place) for place in places}
        self.fresh = any(offset is None for offset in begins.values())
        # A topic that was deleted and made again has no offsets, but a group that goes on.
        topic = self._delivery.topic.name
        known_group = self._known or (
            self.fresh and bool(self._committed(self.consumer.partitions_of(topic)))
        )
        self._known = self._known or any(place[0] == topic for place in places)
        starts: dict[Place, int] = {}
        for place, offset in begins.items():
            starts[place] = offset if offset is not None else self._begin_of(place, known_group)
            if self._once is not None:
                self._restoring[place] = self._once.restore(place[1])
            self._holdings.add(place, starts[place], offset, ids[place[0]])
        self.came = True
        return starts

    def revoked(self, places: list[Place]) -> None:
        """Finish what is in hand, or give it up in time; commit; let go."""
        self._life.letting_go = True
        try:
            self._let_go(places)
        finally:
            self._life.letting_go = False

    def lost(self, places: list[Place]) -> None:
        """The group went on without us: whatever is in hand does not count."""
        log.warning("%s: lost %d partitions to the group", self._delivery.name, len(places))
        for place in places:
            progress = self._holdings.get(place)
            if progress is not None:
                progress.let_go()
        self._forget(places)
        self._drop(places)

    def go_on_after_gap(self, place: Place, truncated_at: int | None = None) -> None:
        """The offset to read next is not there: say what became of it, and go on where nothing is read twice or left out.

        `truncated_at` is where the brokers say that the log was cut off, if they do.
        """
        topic, partition = place
        progress = self._holdings.get(place)
        if progress is None:
            return
        wanted = progress.next
        topic_id = self.consumer.topic_id(topic)
        first, end = self.consumer.bounds(place)
        if topic_id != progress.topic_id and topic_id is not None and progress.topic_id is not None:
            start, what = first, "the topic was deleted and created again"
        elif wanted > end or truncated_at is not None:
            # A leader that had not copied them all took over: the group has records that are in no log any more.
            cut = min(end, end if truncated_at is None else truncated_at)
            start = max(first, min(cut, progress.position))  # what is in hand is read once more
            what = f"the log was truncated to offset {cut}, as an unclean leader election does"
        else:
            start = max(first, progress.position)
            what = f"retention took {max(0, first - wanted)} records before they were read"
        if self._delivery.start == "error":
            raise DeliveryError(
                f"the next record is gone: {what}",
                hint="gearshift group reset, or start='earliest'",
                delivery=self._delivery.name,
                topic=topic,
                partition=partition,
                offset=wanted,
            )
        if start > wanted:
            self._counts.add("skipped", progress.skip_to(start))
        else:
            progress.let_go()
            self._forget([place])
            self._holdings.add(place, start, None, topic_id)
        log.error(
            "%s: offset %d of %s/%d is not there: %s; going on at %d",
            self._delivery.name,
            wanted,
            topic,
            partition,
            what,
            start,
        )
        self.consumer.seek(place, start)

    def _committed(self, places: list[Place]) -> Mapping[Place, int]:
        """The group's offsets; a consumer that is gone may have left a transaction open, and nobody is told before."""
        return self._asked(partial(self.consumer.committed, places))

    def _asked(self, ask: Callable[[], T]) -> T:
        until = time.monotonic() + _SETTLED_WITHIN
        while True:
            try:
                return ask()
            except BrokerUnreachableError:
                if self._life.stopping.is_set() or time.monotonic() > until:
                    raise
                self._errands.run()
                self._membership.breathe()

    def _begin_of(self, place: Place, known_group: bool) -> int:
        """Where a partition begins that nobody of the group has committed."""
        first, end = self.consumer.bounds(place)
        # A partition that was added after the group began is read from its first record, whatever `start` says
        # of the beginning; so is one that brings replays.
        if known_group or place[0] != self._delivery.topic.name or self._delivery.start == "earliest":
            return first
        if self._delivery.start == "latest":
            return end
        raise DeliveryError(
            f"group {self._delivery.group_id} has not committed an offset",
            hint="say start='earliest' or start='latest', or gearshift group reset",
            delivery=self._delivery.name,
            topic=place[0],
            partition=place[1],
        )

    def _let_go(self, places: list[Place]) -> None:
        held = [progress for place in places if (progress := self._holdings.get(place)) is not None]
        for progress in held:
            progress.let_go()
        self._forget(places)
        until = time.monotonic() + _LET_GO_WITHIN
        rounds = (
            self._rounds if self._life.failure is None else None
        )  # after a failure no round ends any more
        if rounds is not None and (self._in_transactions or self._life.stopping.is_set()):
            # The open transaction holds results of these partitions: it ends before they go.
            self._life.hurrying = True
            self._breathing(lambda: rounds.await_end(0.05), until)
            self._life.hurrying = False
        for progress in held:
            if not self._breathing(lambda progress=progress: progress.await_idle(0.05), until):
                log.warning("%s: a handler does not end; its record is delivered again", self._delivery.name)
        if not self._in_transactions:
            self.commits.make_or_warn()
        self._drop(places)

    def _forget(self, places: list[Place]) -> None:
        if self._rounds is not None:
            gone = [progress for place in places if (progress := self._holdings.get(place)) is not None]
            for message in self._rounds.forget(gone):
                self._flight.give_back(1, len(message))

    def _drop(self, places: list[Place]) -> None:
        self._holdings.drop(places)
        for place in places:
            self._restoring.pop(place, None)
        if self._once is not None:
            for _, partition in places:
                if not any(other == partition for _, other in self._holdings):
                    self._once.forget(partition)

    def _breathing(self, check: Callable[[], bool], until: float) -> bool:
        """Wait for something while showing that we are alive."""
        while not check():
            self._errands.run()
            self._membership.breathe()
            if time.monotonic() > until:
                return False
        return True
