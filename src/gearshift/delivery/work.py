"""Polled records on their way through the lanes: begun, finished or given up, and committed in rounds or in step."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

from gearshift.delivery.commits import Commits
from gearshift.delivery.counts import Flight
from gearshift.delivery.handling import Handling
from gearshift.delivery.lanes import Lanes
from gearshift.delivery.membership import Membership
from gearshift.delivery.progress import Progress
from gearshift.delivery.rounds import Piece, Rounds, place_of
from gearshift.delivery.transacting import Transacting
from gearshift.errors import GearshiftError

if TYPE_CHECKING:
    from gearshift.definitions import Delivery
    from gearshift.topics import GroupConsumer

Message = Any  # confluent_kafka.Message, of which the library types nothing
log = logging.getLogger(__name__)
_ROUND = 100


class Work:
    """Lanes, and before them rounds where one commit or transaction is to end before the next begins."""

    handling: Handling
    consumer: GroupConsumer
    commits: Commits

    def __init__(
        self,
        delivery: Delivery,
        *,
        batch: int,
        in_flight: int,
        flight: Flight,
        transacting: Transacting | None,
        membership: Membership,
    ) -> None:
        """`batch` is how many records the target takes at once; `handling`, `consumer` and `commits` are set later."""
        self._delivery = delivery
        self._flight = flight
        self._transacting = transacting
        self._membership = membership
        self._by_partition = delivery.batch is not None or batch > 1
        # A destination that takes batches is written by one thread: its batches are its parallelism.
        threads = 1 if batch > 1 else delivery.parallelism
        waits = delivery.commit == "sync" and transacting is None
        # Keys side by side commit each in step: a round would make all of them wait for the busiest one.
        self._in_step = waits and threads > 1
        self._lanes: Lanes[Piece] = Lanes(
            self._run,
            threads,
            delivery.name,
            failed=self._failed,
            after=self._keep_step if self._in_step else None,
        )
        self.rounds: Rounds | None = None
        if transacting is not None or (waits and not self._in_step):
            # Rounds of whole lists, where lists are what is handled.
            least = (delivery.batch or batch) if self._by_partition else 1
            size = least if self._by_partition else _ROUND
            self.rounds = Rounds(
                self._start, self._end_round, size, least=least, most=max(least, in_flight // 2)
            )

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody will not go on before a commit."""
        return bool(self._flight.records) and (self.rounds is not None or self._in_step)

    def open(self) -> None:
        """Begin."""
        self._lanes.open()

    def close(self, seconds: float) -> None:
        """End what is in hand."""
        self._lanes.close(seconds)

    def take(self, pieces: list[Piece]) -> None:
        """Take records in hand."""
        for _, messages in pieces:
            self._flight.take(len(messages), sum(map(len, messages)))
        if self.rounds is not None:
            self.rounds.take(pieces)
        else:
            self._start(pieces)

    def finish(self, progress: Progress, messages: list[Message]) -> None:
        """Records are done, whatever became of them."""
        progress.finish(*[message.offset() for message in messages])
        self._flight.give_back(len(messages), sum(map(len, messages)))
        if self.rounds is not None:
            self.rounds.done(len(messages))

    def _start(self, pieces: list[Piece]) -> None:
        if self._transacting is not None:
            self._transacting.begin()
        self._lanes.submit(self._in_lanes(pieces))

    def _in_lanes(self, pieces: list[Piece]) -> Iterator[tuple[Hashable, Piece]]:
        """The records in smaller pieces, each with the lane that keeps it in order."""
        for progress, messages in pieces:
            if self._by_partition:
                size = self.handling.at_once
                for first in range(0, len(messages), size):
                    yield place_of(messages), Piece(progress, messages[first : first + size])
            elif self._delivery.parallelism == 1:
                yield 0, Piece(progress, messages)
            else:
                place = place_of(messages)
                by_key: dict[Hashable, list[Message]] = {}
                for message in messages:
                    by_key.setdefault(message.key() or (*place, message.offset()), []).append(message)
                for key, of_key in by_key.items():
                    yield key, Piece(progress, of_key)

    def _run(self, piece: Piece, until: float) -> Piece | None:
        """Run a piece in a lane; what is left of it."""
        progress, messages = piece
        if not progress.enter():
            self._give_up(piece)
            return None
        try:
            later, not_ours = self.handling.run(progress, messages, until)
            if not_ours:
                self._give_up(Piece(progress, not_ours))
        finally:
            progress.leave()
        return Piece(progress, later) if later else None

    def _keep_step(self) -> None:
        """Go on with a lane when what it did is committed."""
        self.commits.join()

    def _failed(self, error: BaseException) -> None:
        # What is ours says all there is to say; of anything else the traceback is wanted.
        trace = None if isinstance(error, GearshiftError) else error
        log.error("%s: stopped by a failure: %s", self._delivery.name, error, exc_info=trace)
        self._membership.fail(error)

    def _give_up(self, piece: Piece) -> None:
        """Records that are not finished here."""
        progress, messages = piece
        self._flight.give_back(len(messages), sum(map(len, messages)))
        if self.rounds is None:
            return
        if progress.ours:
            self.rounds.drop(piece)
        else:
            self.rounds.done(len(messages))

    def _end_round(self, pieces: list[Piece]) -> list[Piece]:
        """Commit a round; the records of it that are to be worked on again."""
        assert self.rounds is not None
        again = self.rounds.dropped
        if self._transacting is None:
            self.commits.make_sure()
        elif not self._transacting.commit(pieces, self.consumer):
            again = pieces
            if self._transacting.suspects:
                self.rounds.one_by_one(self._transacting.suspects)
        again = [piece for piece in again if piece.progress.ours]
        for piece in again:
            self._flight.take(len(piece.messages), sum(map(len, piece.messages)))
        return again
