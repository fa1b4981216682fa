"""What the scorers of a cricket match send: deliveries, the facts of an innings, and the match sheet.

The names of the fields are cricsheet's. Of two events about the same thing the higher revision is valid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Wicket:
    kind: str
    player_out: str
    fielders: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ball:
    """One delivery. A higher revision of the same innings, over and ball replaces it."""

    innings: int  # from 1, super overs included
    over: int  # from 0
    ball: int  # the position in the over from 1, wides and no-balls included
    batter: str
    bowler: str
    non_striker: str
    runs_batter: int
    runs_extras: int
    runs_total: int
    wides: int = 0
    noballs: int = 0
    byes: int = 0
    legbyes: int = 0
    penalty: int = 0
    non_boundary: bool = False  # four or six runs that were all run
    wickets: list[Wicket] = field(default_factory=list)
    revision: int = 0


@dataclass(frozen=True)
class Innings:
    """What is known of an innings besides its deliveries."""

    number: int
    team: str
    balls_per_over: int = 6
    target_runs: int | None = None  # announced or revised (DLS); None: one more than the other side
    target_balls: int | None = None
    penalty_runs: int = 0  # awarded before or after the innings
    miscounted_overs: dict[str, int] = field(default_factory=dict)  # balls in overs of another length
    absent: int = 0  # batters who could not bat: the side is all out without them
    declared: bool = False
    forfeited: bool = False
    super_over: bool = False
    revision: int = 0


@dataclass(frozen=True)
class Outcome:
    """The officials' announcement: a winner with a margin, or "tie", "draw" or "no result"."""

    result: str | None = None
    winner: str | None = None
    innings: int | None = None
    runs: int | None = None
    wickets: int | None = None
    method: str | None = None  # "D/L", "Awarded", …: deliveries alone do not decide the match
    eliminator: str | None = None  # the winner of the super over of a tied match
    bowl_out: str | None = (
        None  # the same where the bowlers aimed at the stumps, before there were super overs
    )


@dataclass(frozen=True)
class Sheet:
    """The match sheet, sent at the toss and again when the match has ended."""

    title: str
    teams: list[str]
    overs: int | None = None  # per innings; None: not limited, two innings a side
    ended: bool = False
    outcome: Outcome | None = None
    revision: int = 0


@dataclass(frozen=True)
class Event:
    """One message of a match: exactly one of `ball`, `innings` and `sheet`."""

    match: str
    at: datetime
    ball: Ball | None = None
    innings: Innings | None = None
    sheet: Sheet | None = None
