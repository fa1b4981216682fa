"""What is wrong in a running app, as the console shows it and as a notification's handler gets it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One trouble: its cause, and what to do next.

    >>> from datetime import UTC
    >>> at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> print(Alert(id="p lag", level="warning", kind="lag", what="p is late", hint="shift it", link="/", since=at))
    p is late; shift it
    """

    id: str
    """The same for as long as the trouble lasts."""
    level: Level
    kind: str
    what: str
    hint: str | None
    link: str
    """The path of the console's page that shows it."""
    since: datetime

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what

    def as_json(self) -> dict[str, Any]:
        """The alert as plain data."""
        return {**asdict(self), "since": self.since.isoformat(timespec="milliseconds")}
