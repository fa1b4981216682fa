"""The values of the topics."""

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


@dataclass
class PlayerPoints:
    board: str  # a tournament, or "overall"
    player: str
    points: int
    scores: int  # the number of events behind the points: the highest is the newest
    last_scored_at: datetime


@dataclass
class Place:
    place: int
    player: str
    points: int


@dataclass
class Leaderboard:
    tournament: str
    best: list[Place]
    players: int
    scores: int
    last_scored_at: datetime
