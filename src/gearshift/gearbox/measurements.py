"""What the gearbox knows of a pipeline: its promise, what is measured every second, and what is remembered.

Quantities that are multiplied with rates are plain seconds; instants and limits are datetimes and timedeltas.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gearshift.freshness import Gear


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A pipeline's freshness, and what it may run in to keep it."""

    freshness: float
    """Seconds."""
    trigger: float
    """Seconds between the micro-batches of near-real-time."""
    gears: frozenset[Gear]
    """The gears that `gearshift check` allows."""
    slots: int
    """Task slots that it holds in real-time."""
    grouped: bool
    """Whether it aggregates: a micro-batch then emits one update per key, real-time one per record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """One pipeline, as measured now."""

    gear: Gear
    works: bool
    """Whether Kafka answers and the query runs; during an outage no gear would do better."""
    arriving: float
    """Records per second, over the last seconds."""
    backlog: int
    """Records that are not processed yet."""
    shrinking: float
    """Records per second by which the backlog shrinks while the query works; negative while it grows."""
    age: float
    """Seconds since the oldest unprocessed record arrived; 0 without one."""
    idle: float
    """Seconds since the last record arrived."""
    batch: int
    """The number of the last micro-batch of this run that can teach something; -1 before one."""
    batch_seconds: float
    """How long that batch took."""
    batch_records: int
    """How many records it had."""
    slots_free: int
    """Task slots that no real-time query holds, besides one to spare."""
    slots_wanted: int = 0
    """Task slots that promises of other pipelines need and lack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A person's shift, which the gearbox respects."""

    gear: Gear
    until: datetime | None
    """None: until `gearshift shift PIPELINE auto`."""

    def holds(self, now: datetime) -> bool:
        """Whether it is still in force."""
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """How long micro-batches take."""

    overhead: float
    """Seconds that one takes however few records it has."""
    capacity: float
    """Records per second that one processes beyond its overhead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered from one decision to the next."""

    times: BatchTimes
    """As measured last."""
    learned_from: int = -1
    """The micro-batch from which that was learned."""
    learned_at: datetime | None = None
    """When it was learned; what is old counts less."""
    too_fast: float | None = None
    """Records per second that real-time processed when it fell behind, if it did."""
    too_fast_at: datetime | None = None
    """When it did; what is old no longer counts."""
    shifts: tuple[datetime, ...] = ()
    """The gearbox's own shifts within the budget's time."""
    better_since: datetime | None = None
    """Since when another gear than the current one would have been right, without interruption."""
    late: float = 0.0
    """Seconds for which records were older than promised because the gear was too low; they fade within days."""
    late_at: datetime | None = None
    """When `late` was counted last."""
    hold: Hold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How patient the gearbox is."""

    rest: timedelta = timedelta(minutes=1)
    """The least time between two shifts; a flap is a return to a gear within it."""
    calm: timedelta = timedelta(minutes=5)
    """How long a cheaper gear must have been right; each shift within the budget's time doubles it."""
    budget: int = 6
    """The most shifts within `budget_time`; the last one is kept for going up."""
    budget_time: timedelta = timedelta(hours=1)
    down_below: float = 0.7
    """The share of the freshness that a lower gear may use for the gearbox to choose it."""
    up_above: float = 0.9
    """The share of the freshness at which the gearbox goes up."""
    saving: float = 0.1
    """The share of the cost that a shift must save."""
    late_share: float = 0.0005
    """The share of the time for which a gear that is too low may break the promise before it is no longer used."""
    behind: timedelta = timedelta(seconds=10)
    """The age of a record from which a growing backlog in real-time means that it cannot keep up."""
    worth_draining: timedelta = timedelta(minutes=1)
    """The shortest catch-up for which the output that a micro-batch saves is worth two shifts."""
