"""How many consumers a delivery needs. Pure: lag and speed in, a number and a word of advice out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_BEHIND = 10.0  # seconds of work that may wait before one more consumer is worth its start
_IDLE = 1.0  # seconds of work that wait when one consumer fewer would do
_SETTLES_WITHIN = 8.0  # a new consumer needs this long to show what it changes
_IDLE_FOR = 30.0


@dataclass(slots=True, kw_only=True)
class Scaling:
    """Decides from what it is told every few seconds."""

    low: int
    high: int
    partitions: int
    wanted: int = 0
    advice: str | None = None
    _told: deque[tuple[float, int, int]] = field(
        default_factory=lambda: deque[tuple[float, int, int]](maxlen=30)
    )
    _changed_at: float = float("-inf")
    _busy_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.wanted = self.low

    @property
    def most(self) -> int:
        """As many as can have a partition of their own."""
        return max(self.low, min(self.high, self.partitions))

    def decide(self, now: float, lag: int, delivered: int) -> int:
        """How many consumers to run, from the lag and the number of records delivered so far."""
        self._told.append((now, lag, delivered))
        began, lag_then, delivered_then = self._told[0]
        seconds = now - began
        if seconds <= 0:
            self._busy_at = now
            return self.wanted
        speed = max(0.0, (delivered - delivered_then) / seconds)
        waits = lag / speed if speed > 0 else (float("inf") if lag else 0.0)
        growing = lag > lag_then
        if waits > _IDLE:
            self._busy_at = now
        if now - self._changed_at < _SETTLES_WITHIN or seconds < 2:
            return self.wanted
        if waits > _BEHIND and (growing or speed == 0 or waits > 3 * _BEHIND):
            self.advice = self._advice(growing)
            if self.wanted < self.most:
                self._change(now, self.wanted + 1)
        else:
            self.advice = None
            if self.wanted > self.low and now - self._busy_at > _IDLE_FOR:
                self._change(now, self.wanted - 1)
        return self.wanted

    def _change(self, now: float, wanted: int) -> None:
        self.wanted, self._changed_at, self._busy_at = wanted, now, now
        self._told.clear()

    def _advice(self, growing: bool) -> str | None:
        if self.wanted < self.most or not growing:
            return None
        if self.wanted >= self.partitions:
            return (
                f"the lag grows with a consumer for each of the {self.partitions} partitions: "
                "more partitions, more parallelism or a faster destination are needed"
            )
        return f"the lag grows with {self.wanted} consumers: raise scale=({self.low}, {self.high})"
