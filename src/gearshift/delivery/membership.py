"""Proof that this consumer is still a member of its group: a suspended process may have lost its partitions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gearshift.delivery.assignment import Assignment, OffsetTracker, TopicPartition
from gearshift.delivery.poll_thread import Lifecycle
from gearshift.errors import GearshiftError

if TYPE_CHECKING:
    from gearshift.topics import GroupConsumer

_LEASE = 3.0  # seconds without a poll after which membership has to be proved
_PROVE_EVERY = 0.5


class Lease:
    """Until when, on the monotonic clock, membership needs no proof."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = time.monotonic() + _LEASE


class Membership:
    """A lease that each poll renews; once expired, it is renewed only after the group has confirmed the assignment."""

    def __init__(self, assignment: Assignment, lifecycle: Lifecycle) -> None:
        self.lease = Lease()
        self.in_doubt = False
        self._assignment = assignment
        self._lifecycle = lifecycle
        self._confirmed: dict[TopicPartition, OffsetTracker] | None = None
        self._confirmed_until = 0.0
        self._prove_at = 0.0

    def renew(self) -> None:
        """Renew the lease from the poll thread."""
        now = time.monotonic()
        if now > self.lease.until:
            self.in_doubt = True  # the process was suspended: the group may have reassigned its partitions
        if not self.in_doubt:
            self.lease.until = now + _LEASE

    def prove(self, consumer: GroupConsumer) -> None:
        """Ask the group whether we own our partitions; they count as owned if the next poll does not revoke them.

        A commit would not prove it: librdkafka retries one as the new member that it becomes when it rejoins.
        But before that it queues the loss of our partitions for the next poll.
        """
        assigned = dict(self._assignment.items())
        now = time.monotonic()
        if self._confirmed is not None and now < self._confirmed_until and self._confirmed == assigned:
            self._confirmed = None
            self.in_doubt = False
            self.lease.until = now + _LEASE
            return
        self._confirmed = None
        if now < self._prove_at:
            return
        self._prove_at = now + _PROVE_EVERY
        try:
            owned = consumer.owned() if assigned else set[TopicPartition]()
        except GearshiftError:
            return  # no answer proves nothing
        if assigned.keys() <= owned:
            self._confirmed, self._confirmed_until = assigned, now + _LEASE

    def doubt(self) -> None:
        """The group rejected us as a member: stop all work until membership is proved."""
        self.in_doubt = True
        self.lease.until = 0.0

    def fail(self, error: BaseException) -> None:
        """The consumer failed: no record begins, and no record already begun is written."""
        if self._lifecycle.failure is None:
            self._lifecycle.failure = error
        self.doubt()

    def owns(self, tracker: OffsetTracker) -> bool:
        """Whether a record of this partition may be handled or written now; waits while membership is in doubt."""
        lifecycle = self._lifecycle
        while tracker.owned and not lifecycle.ending_round and lifecycle.failure is None:
            if time.monotonic() < self.lease.until:
                return True
            tracker.wait(0.02)
        return False
