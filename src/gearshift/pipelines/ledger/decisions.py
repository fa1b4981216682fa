"""The gearbox's part of a ledger: what it decided, on which numbers, and for how long a person overruled it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Hold

KEPT = 30
"""Decisions that are kept; the shifts among them are runs too, with their numbers, and those are all kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision that differed from the one before."""

    at: datetime
    gear: Gear
    reason: str
    why: str
    is_shift: bool
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "at": self.at.isoformat(),
            "gear": str(self.gear),
            "reason": self.reason,
            "why": self.why,
            "is_shift": self.is_shift,
            "numbers": dict(self.numbers),
        }

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Decided:
        """Parse a decision."""
        kept: dict[str, Any] = {**entry, "at": _instant(entry["at"]), "gear": Gear(entry["gear"])}
        return cls(**kept)


def hold_as_json(hold: Hold | None) -> dict[str, str | None] | None:
    """A person's shift as plain data."""
    if hold is None:
        return None
    return {"gear": str(hold.gear), "until": hold.until.isoformat() if hold.until is not None else None}


def read_hold(entry: Mapping[str, str | None] | None) -> Hold | None:
    """Parse a person's shift."""
    if entry is None:
        return None
    until = entry["until"]
    return Hold(gear=Gear(str(entry["gear"])), until=_instant(until) if until is not None else None)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
