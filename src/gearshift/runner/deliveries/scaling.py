"""How many consumers a delivery needs, from its lag and throughput; no I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_BEHIND = 10.0  # seconds of backlog above which another consumer is worth starting
_IDLE = 1.0  # seconds of backlog below which one consumer fewer is enough
_SETTLES_WITHIN = 8.0  # seconds until a new consumer shows an effect
_IDLE_FOR = 30.0


@dataclass(slots=True, kw_only=True)
class Scaling:
    """Decides from measurements taken every few seconds."""

    low: int
    high: int
    partitions: int
    wanted: int = 0
    advice: str | None = None
    _measured: deque[tuple[float, int, int]] = field(
        default_factory=lambda: deque[tuple[float, int, int]](maxlen=30)
    )
    _changed_at: float = float("-inf")
    _busy_at: float = float("-inf")

    def __post_init__(self) -> None:
        self.wanted = self.low

    @property
    def most(self) -> int:
        """The maximum: each consumer needs at least one partition."""
        return max(self.low, min(self.high, self.partitions))

    def decide(self, now: float, lag: int, delivered: int) -> int:
        """The number of consumers to run, from the lag and the number of records delivered so far."""
        self._measured.append((now, lag, delivered))
        began, lag_then, delivered_then = self._measured[0]
        seconds = now - began
        if seconds <= 0:
            self._busy_at = now
            return self.wanted
        speed = max(0.0, (delivered - delivered_then) / seconds)
        backlog = lag / speed if speed > 0 else (float("inf") if lag else 0.0)
        growing = lag > lag_then
        if backlog > _IDLE:
            self._busy_at = now
        if now - self._changed_at < _SETTLES_WITHIN or seconds < 2:
            return self.wanted
        if backlog > _BEHIND and (growing or speed == 0 or backlog > 3 * _BEHIND):
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
        self._measured.clear()

    def _advice(self, growing: bool) -> str | None:
        if self.wanted < self.most or not growing:
            return None
        if self.wanted >= self.partitions:
            return (
                f"the lag grows with a consumer for each of the {self.partitions} partitions: "
                "add partitions, raise parallelism or use a faster destination"
            )
        return f"the lag grows with {self.wanted} consumers: raise consumers=({self.low}, {self.high})"
