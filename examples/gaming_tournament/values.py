"""A score event: what the game servers send and the topic holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Score:
    """Points that a player made in a tournament, or lost: a penalty is negative."""

    event_id: str  # a server that gets no answer sends the same event again
    tournament: str
    opened_at: datetime  # of the tournament
    player: str
    points: int
    scored_at: datetime
