"""Hold polled records until the brokers confirm that their topic was not deleted and created again.

librdkafka takes a topic that was deleted and created again for the old one, and continues at the old offset. A record
does not show which of the two it belongs to; only the topic's id does, and the brokers have to be asked for it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from gearshift.delivery.assignment import Assignment, OffsetTracker, Piece, TopicPartition
from gearshift.delivery.in_flight import InFlight
from gearshift.errors import GearshiftError

if TYPE_CHECKING:
    from gearshift.topics import TopicIds
    from gearshift.topics.topic_ids import Answers

_VALID_FOR = 0.05
"""Seconds after a question for which its answer is valid.

A topic has to be deleted, created and written to, and librdkafka has to fail a fetch, wait 50 ms and learn the new id:
at least 135 ms were measured, on one machine and as fast as the broker allows.
"""
_ANSWER_WITHIN = timedelta(seconds=10)
_SOON = 0.1  # seconds within which an answer is likely
_ASK_AGAIN_AFTER = 0.5  # seconds after no answer, or while the topic does not exist


class TopicConfirmation:
    """Holds records and commits for the millisecond that a request for the topic ids takes.

    One answer covers everything polled within `_VALID_FOR` of its question, so a busy consumer asks about twenty times
    a second and an idle one never. Only the poll thread uses it.
    """

    def __init__(
        self,
        topic_ids: TopicIds,
        *,
        assignment: Assignment,
        in_flight: InFlight,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.recreated: str | None = None
        """A topic that was deleted and created again."""
        self._topic_ids = topic_ids
        self._assignment = assignment
        self._in_flight = in_flight
        self._clock = clock
        self._held: deque[tuple[float, Piece]] = deque()
        self._answers: Answers | None = None
        self._asked: Mapping[TopicPartition, OffsetTracker] = {}
        self._asked_at = 0.0
        self._ask_at = 0.0
        self._confirmed_at = float("-inf")
        self._wanted_since: float | None = None
        self._unanswered_since: float | None = None

    @property
    def is_asking(self) -> bool:
        """Whether an answer is likely to arrive soon."""
        return self._answers is not None and self._clock() < self._asked_at + _SOON

    @property
    def unanswered(self) -> float:
        """For how many seconds the brokers have not answered."""
        return 0.0 if self._unanswered_since is None else self._clock() - self._unanswered_since

    def allows(self, wanted: bool) -> bool:
        """Whether other wanted work, such as a commit, may be done now; if not, it may after the next answer."""
        if not wanted:
            self._wanted_since = None
            return False
        if self._wanted_since is None:
            self._wanted_since = self._clock()
        if not self._is_confirmed(self._wanted_since):
            return False
        self._wanted_since = None
        return True

    def hold(self, pieces: list[Piece]) -> None:
        """Hold records that were just polled."""
        now = self._clock()
        for piece in pieces:
            self._in_flight.add(len(piece.messages), piece.size)
            self._held.append((now, piece))

    def confirmed(self) -> list[Piece]:
        """Release the records whose topic is confirmed."""
        found: list[Piece] = []
        while self._held and self._is_confirmed(self._held[0][0]):
            _, piece = self._held.popleft()
            if piece.tracker.owned:
                found.append(piece)
            else:
                self._in_flight.remove(len(piece.messages), piece.size)
        return found

    def report_recreated(self, topic: str) -> None:
        """Report a topic that another component found to be recreated."""
        self.recreated = topic

    def drop(self) -> None:
        """Drop the records held."""
        for _, piece in self._held:
            self._in_flight.remove(len(piece.messages), piece.size)
        self._held.clear()
        self.recreated = None

    def receive(self) -> None:
        """Process the answer, if it has arrived."""
        if self._answers is not None and all(answer.done() for answer in self._answers.values()):
            answers, self._answers = self._answers, None
            self._compare(answers)

    def ask(self) -> None:
        """Ask the brokers for the topic ids, if something waits for them."""
        if not self._held and self._wanted_since is None:
            self._unanswered_since = None
            return
        now = self._clock()
        if self._answers is not None or now < self._ask_at:
            return
        self._asked = self._with_topic_id()
        self._asked_at = now
        self._ask_at = now + _ASK_AGAIN_AFTER  # reset when the answer confirms all topics
        if self._unanswered_since is None:
            self._unanswered_since = now
        with suppress(GearshiftError):
            self._answers = self._topic_ids.ask({topic for topic, _ in self._asked}, _ANSWER_WITHIN)

    def _compare(self, answers: Answers) -> None:
        try:
            ids = self._topic_ids.of(answers)
        except GearshiftError:
            return  # no broker answers: the records wait
        self._unanswered_since = None
        # For partitions assigned after the question, the ids were looked up with the assignment.
        asked = [(each, it) for each, it in self._asked.items() if self._assignment.get(each) is it]
        for (topic, _), tracker in asked:
            if topic not in ids:
                return  # deleted: the group will revoke its partitions, or it is created again
            if ids[topic] != tracker.topic_id:
                self.recreated = topic
                return
        self._confirmed_at = self._asked_at
        self._ask_at = 0.0

    def _is_confirmed(self, at: float) -> bool:
        """Whether the topics were unchanged at that time."""
        return at < self._confirmed_at + _VALID_FOR or not self._with_topic_id()

    def _with_topic_id(self) -> dict[TopicPartition, OffsetTracker]:
        """The assigned partitions of topics that have an id."""
        return {each: it for each, it in self._assignment.items() if it.topic_id is not None}
