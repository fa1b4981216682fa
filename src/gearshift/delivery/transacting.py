"""Rounds that are transactions: results, dead letters, marks and offsets, all of them or none."""

from __future__ import annotations

import logging
from typing import Any

from gearshift.delivery.errands import Errands
from gearshift.delivery.holdings import Holdings
from gearshift.delivery.membership import Membership
from gearshift.delivery.once import Once
from gearshift.delivery.polled import Polled
from gearshift.delivery.progress import Progress
from gearshift.delivery.rounds import Piece, place_of
from gearshift.delivery.targets import Spot, until_aborted
from gearshift.errors import FencedError, NotAMemberError, ProduceError, RetriableError
from gearshift.topics import DeadLetter, GroupConsumer, TransactionalProducer, dead_letter_headers

log = logging.getLogger(__name__)


class Transacting:
    """One transaction a round."""

    def __init__(
        self,
        name: str,
        transactions: TransactionalProducer,
        *,
        once: Once | None,
        holdings: Holdings,
        membership: Membership,
        errands: Errands,
    ) -> None:
        self._name = name
        self._transactions = transactions
        self._once = once
        self._holdings = holdings
        self._membership = membership
        self._errands = errands
        self._marked: list[tuple[int, bytes]] = []
        self.refused: dict[Spot, ProduceError] = {}
        """The records whose results are larger than their topic takes."""
        self.suspects = 0
        """How many records the last round had, if a result of one of them is."""

    def begin(self) -> None:
        """Begin the transaction of a round."""
        self._transactions.begin()
        self._marked = []

    def set_aside(self, letters: list[DeadLetter]) -> None:
        """Add dead letters."""
        for letter in letters:
            with until_aborted(self._transactions):
                self._transactions.send_bytes(
                    f"{letter.topic}.dlq", letter.value, key=letter.key, headers=dead_letter_headers(letter)
                )

    def keep(self, records: list[Polled]) -> None:
        """Add the marks of what was delivered."""
        assert self._once is not None
        marks = self._once.marks
        for record in records:
            mark = self._once.note(record.partition, record.identity or b"")
            self._marked.append((record.partition, mark))
            with until_aborted(self._transactions):
                self._transactions.send_bytes(
                    marks.topic, b"", key=mark, partition=marks.partition_for(record.partition)
                )

    def commit(self, pieces: list[Piece], consumer: GroupConsumer) -> bool:
        """Commit the transaction of a round with its offsets; False if it was taken back, and its records with it."""
        places = {place_of(messages): progress for progress, messages in pieces}
        transactions = self._transactions
        self.suspects = 0
        try:
            if not transactions.is_open:
                raise RetriableError("it was aborted under way")
            if any(self._holdings.get(place) is not progress for place, progress in places.items()):
                raise RetriableError("a partition went in the middle of it")
            if any(progress.has_gap_before(messages[-1].offset()) for progress, messages in pieces):
                # Its offset cannot tell of a result behind one that is missing.
                raise RetriableError("a record in the middle of it was not finished")
            membership: Any = self._errands.ask(lambda: consumer.membership)
            transactions.send_offsets(
                {place: progress.position for place, progress in places.items()},
                membership,
                consumer.note_of,
            )
            transactions.commit()
        except FencedError:
            raise
        except (NotAMemberError, RetriableError, ProduceError) as error:
            log.info("%s: the transaction is done again: %s", self._name, error)
            if isinstance(error, NotAMemberError):
                self._membership.doubt()
            transactions.abort()
            self._undo(pieces)
            if transactions.refusal is not None:
                self._look_for_refused(pieces, transactions.refusal)
            return False
        for progress in places.values():
            progress.committed = progress.position
        if self.refused:
            for spot in _spots(pieces):
                self.refused.pop(spot, None)
        return True

    def _look_for_refused(self, pieces: list[Piece], error: ProduceError) -> None:
        """Nobody tells which record made a transaction too large to be taken: one that has it alone does."""
        spots = _spots(pieces)
        if len(spots) > 1:
            self.suspects = len(spots)
        elif spots[0] in self.refused:
            raise error  # its dead letter is not taken either
        else:
            self.refused[spots[0]] = error

    def _undo(self, pieces: list[Piece]) -> None:
        undone: dict[Progress, list[int]] = {}
        for progress, messages in pieces:
            undone.setdefault(progress, []).extend(message.offset() for message in messages)
        for progress, offsets in undone.items():
            progress.undo(offsets)
        if self._once is not None:
            for partition, mark in self._marked:
                self._once.take_back(partition, mark)


def _spots(pieces: list[Piece]) -> list[Spot]:
    return [(*place_of(messages), message.offset()) for _, messages in pieces for message in messages]
