"""Commits of offsets: sent by the polling thread, waited for by whoever must not go on without."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from gearshift.delivery.counts import Counts
from gearshift.delivery.errands import Errands
from gearshift.delivery.holdings import Due, Holdings
from gearshift.delivery.life import Life
from gearshift.delivery.membership import Membership
from gearshift.errors import GearshiftError, NotAMemberError, RetriableError
from gearshift.topics import GroupConsumer

Place = tuple[str, int]
Heard = Callable[[GearshiftError | None], None]
log = logging.getLogger(__name__)
_EVERY = 0.5
_ANSWER_WITHIN = 15.0


class _Soon:
    """Commits without waiting: a coordinator that is away keeps nobody from polling."""

    def __init__(self, consumer: GroupConsumer, heard: Heard) -> None:
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


class Commits:
    """Commits what is finished, one commit at a time where somebody waits for it."""

    def __init__(
        self,
        name: str,
        *,
        consumer: GroupConsumer,
        holdings: Holdings,
        flush: Callable[[], None],
        membership: Membership,
        errands: Errands,
        counts: Counts,
        life: Life,
    ) -> None:
        self._name = name
        self._consumer = consumer
        self._holdings = holdings
        self._flush = flush
        self._membership = membership
        self._errands = errands
        self._counts = counts
        self._life = life
        self._begun = 0
        self._answered = 0
        self._turnstile = threading.Lock()

    def make_sure(self) -> None:
        """Commit what is finished and wait for the answer; again until it is there or we are no longer asked to."""
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
                if self._life.ended:
                    return  # the last commit was the polling thread's own
                self._counts.add("failed_commits")
                self._holdings.doubt()
                attempt += 1
                if self._life.stopping.wait(min(0.1 * 2**attempt, 2.0)):
                    log.warning("%s: %s", self._name, error)
                    return

    def join(self) -> None:
        """Return when a commit that began after this call was answered: one serves all who came while the last ran."""
        needed = self._begun + 1
        with self._turnstile:
            if self._answered < needed and self._holdings.due():
                self._begun += 1
                self.make_sure()
                self._answered = self._begun

    def make_often(self) -> None:
        """Commit what is finished, twice a second until the consumer ends."""
        while not self._life.stopping.wait(_EVERY):
            with self._turnstile:
                self.make_or_warn()

    def make_or_warn(self) -> None:
        """Commit what is finished; what is not committed now is committed with what comes next."""
        try:
            self._commit()
        except GearshiftError as error:
            self._failed(error)
        except Exception as error:
            self._membership.fail(error)

    def _commit(self) -> None:
        due = self._holdings.due()  # before the flush: what is written after it is not safe yet
        self._flush()
        if self._errands.are_own:
            # The answer comes with a poll, so this thread cannot wait for it.
            self._send(due, self._heard)
            return
        outcome = _Outcome()
        self._errands.ask(lambda: self._send(due, outcome.tell))
        until = time.monotonic() + _ANSWER_WITHIN
        while not outcome.told.wait(0.1):
            if self._life.letting_go:
                return  # the answer comes after the partitions went, and they wait for us
            if self._life.is_over:
                raise RetriableError("the consumer has ended")
            if time.monotonic() > until:
                raise RetriableError("no broker takes the commit", hint="is a broker down?")
        if outcome.error is not None:
            raise outcome.error

    def _send(self, due: list[Due], heard: Heard) -> None:
        """Commit, in the polling thread."""
        if self._life.closing:  # no poll will tell
            try:
                self._holdings.commit(self._consumer, due)
            except GearshiftError as error:
                heard(error)
            else:
                heard(None)
        elif self._membership.in_doubt:
            heard(RetriableError("whether this consumer is still a member is not clear"))
        elif self._consumer.in_callback:
            self._holdings.commit(_Soon(self._consumer, self._heard), due)
            heard(None)
        else:
            self._holdings.commit(_Soon(self._consumer, heard), due)

    def _heard(self, error: GearshiftError | None) -> None:
        """What became of a commit that nobody waits for."""
        if error is not None:
            self._failed(error)

    def _failed(self, error: GearshiftError) -> None:
        if self._life.ended:
            return
        self._counts.add("failed_commits")
        log.warning("%s: %s", self._name, error)
        self._holdings.doubt()
        if isinstance(error, NotAMemberError):
            self._membership.doubt()
