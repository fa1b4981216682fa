"""A ledger's record of scaling: from how many shuffle partitions to how many, why, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """One change of the number of shuffle partitions."""

    began: datetime
    before: int
    after: int
    why: str
    ended: datetime | None = None
    """None until it is known how it ended."""
    pause: float | None = None
    error: str | None = None
    """Why it failed, and in which number the state is then."""

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "began": self.began.isoformat(),
            "before": self.before,
            "after": self.after,
            "why": self.why,
            "ended": self.ended.isoformat() if self.ended is not None else None,
            "pause": self.pause,
            "error": self.error,
        }

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Scaling:
        """Parse a scaling."""
        ended = entry["ended"]
        kept: dict[str, Any] = {
            **entry,
            "began": _instant(entry["began"]),
            "ended": _instant(ended) if ended is not None else None,
        }
        return cls(**kept)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
