"""A door's report: what the simulator makes, the loader reads and the topic holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

STREET = "street"


@dataclass(frozen=True, slots=True)
class DoorReport:
    """How many people a door's sensor saw enter and leave a zone; a door reports once for each time.

    Behind the door is the street or another zone: who enters through an inner door leaves that other zone.
    """

    door: str
    zone: str
    beyond: str
    entered: int
    left: int
    counted_at: datetime
