"""What the pipelines make of a match: cards of batters and bowlers, a scorecard per innings, the standing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import gearshift as gs

Rate = Annotated[Decimal, gs.DecimalOf(8, 2)]


@dataclass(kw_only=True)
class BatterCard:
    batter: str
    runs: int
    balls: int  # faced
    fours: int
    sixes: int
    strike_rate: Rate | None
    dismissal: str | None  # None: not out
    bowler: str | None  # who is credited with the wicket
    fielders: list[str]
    withdrawn: bool  # named only in deliveries that were corrected since


@dataclass(kw_only=True)
class BowlerCard:
    bowler: str
    balls: int  # legal deliveries
    overs: str
    maidens: int
    runs: int
    wickets: int
    wides: int
    noballs: int
    economy: Rate | None
    withdrawn: bool


@dataclass(kw_only=True)
class Scorecard:
    """An innings as of `version`, the number of its events; of two cards the higher version is valid."""

    match: str
    innings: int
    team: str
    runs: int
    wickets: int
    balls: int  # legal deliveries
    overs: str
    run_rate: Rate | None
    extras: int
    balls_bowled: int  # as overs count them: an over that the umpire miscounted is a whole one
    balls_per_over: int
    target_runs: int | None
    target_balls: int | None
    absent: int
    declared: bool
    forfeited: bool
    super_over: bool
    batters: list[BatterCard]
    bowlers: list[BowlerCard]
    version: int
    as_of: datetime


@dataclass(kw_only=True)
class Standing:
    """A match: all its innings, the present one, the chase, and the result."""

    match: str
    title: str
    totals: str  # of every innings, such as "India 180/6, Australia 164"
    innings: int | None  # None before the first ball
    batting: str | None
    score: str | None
    overs: str | None
    run_rate: Rate | None
    target: int | None
    needed: int | None
    balls_left: int | None
    required_rate: Rate | None
    result: str | None  # the officials', once they have announced it; before that the computed one
    computed: str | None  # by the deliveries alone; None as long as they do not decide the match
    confirmed: bool | None  # whether the two are equal, once there are two
    version: int
    as_of: datetime
