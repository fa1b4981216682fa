"""Is this consumer still who it thinks it is? A process that stood still may have lost its partitions unawares."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gearshift.delivery.holdings import Holdings
from gearshift.delivery.life import Life
from gearshift.delivery.progress import Progress
from gearshift.errors import GearshiftError

if TYPE_CHECKING:
    from gearshift.topics import GroupConsumer

Place = tuple[str, int]
_LEASE = (
    3.0  # seconds without a look at the group after which a consumer must prove that it is still a member
)
_PROVE_EVERY = 0.5


class Lease:
    """Until when, on the monotonic clock, a consumer need not ask whether it is still a member."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = time.monotonic() + _LEASE


class Membership:
    """A lease that each poll prolongs, and that has to be earned anew once it ran out."""

    def __init__(self, holdings: Holdings, life: Life) -> None:
        self.lease = Lease()
        self.in_doubt = False
        self._holdings = holdings
        self._life = life
        self._shown: dict[Place, Progress] | None = None
        self._shown_until = 0.0
        self._prove_at = 0.0

    def breathe(self) -> None:
        """The polling thread is alive."""
        now = time.monotonic()
        if now > self.lease.until:
            self.in_doubt = True  # this process stood still: the group may have gone on without it
        if not self.in_doubt:
            self.lease.until = now + _LEASE

    def prove(self, consumer: GroupConsumer) -> None:
        """Ask the group whether what we hold is ours; a poll later it is, unless that poll told us otherwise.

        A commit would not prove it: librdkafka tries one again in the name of the member that we become when we
        join anew. But before it does that it has put the loss of our partitions where the next poll finds it.
        """
        held = dict(self._holdings.items())
        now = time.monotonic()
        if self._shown is not None and now < self._shown_until and self._shown == held:
            self._shown = None
            self.in_doubt = False
            self.lease.until = now + _LEASE
            return
        self._shown = None
        if now < self._prove_at:
            return
        self._prove_at = now + _PROVE_EVERY
        try:
            owned = consumer.owned() if held else set[Place]()
        except GearshiftError:
            return  # no answer: neither proven nor disproven
        if held.keys() <= owned:
            self._shown, self._shown_until = held, now + _LEASE

    def doubt(self) -> None:
        """The group did not take us for a member: nothing is acted on until that is clear."""
        self.in_doubt = True
        self.lease.until = 0.0

    def fail(self, error: BaseException) -> None:
        """The consumer has failed: nothing begins any more, and nothing that has begun writes any more."""
        if self._life.failure is None:
            self._life.failure = error
        self.doubt()

    def covers(self, progress: Progress) -> bool:
        """Whether a record of this partition may be acted on now; waits while that is in doubt."""
        while progress.ours and not self._life.hurrying and self._life.failure is None:
            if time.monotonic() < self.lease.until:
                return True
            progress.wait(0.02)
        return False
