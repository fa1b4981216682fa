"""A seeded season of invented sides: the same matches for the same seed, two at a time.

It has what makes scoring awkward: wrong reports that are corrected some balls later, wickets that the umpires take back,
a chase that rain shortens, a match without a result, a tie with a super over (and another one, if that is a tie too), an
over that the umpire miscounted, penalty runs, batters who retire hurt and return, and matches of two innings a side with
declarations and follow-ons. The source in `live_cricket.py` adds late and repeated reports.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, permutations

from match_events import Ball, Event, Innings, Outcome, Sheet, Wicket

OPENS = datetime(2026, 4, 4, 10, tzinfo=UTC)
BALL = timedelta(seconds=30)
TEAMS = {
    "Harbour": "Adair Bose Carew Dunn Ellis Farooq Grant Hale Iqbal Joyce Kerr",
    "Hills": "Lamb Mehta Nash Okafor Perera Quinn Rao Singh Tait Unwin Vance",
    "Rivers": "Walsh Xavier Yates Zaman Abbott Bravo Chand Dias Easton Flower Gomez",
    "Valley": "Hussey Imran Jansen Khan Logan Mills Naidu Oram Patel Ravi Shaw",
}
PLAYERS = {team: names.split() for team, names in TEAMS.items()}
KINDS = ("plain", "tie", "rain", "plain", "two innings", "no result")
WRONG = 0.02  # the share of reports that are corrected later
HITS = {0: 40, 1: 32, 2: 7, 3: 1, 4: 11, 6: 4}
DISMISSALS = ("bowled", "caught", "caught", "caught", "lbw", "run out", "stumped")
ENDLESS = 1_000  # overs

Part = Ball | Innings | Sheet
Parts = Generator[Part, None, Outcome]


@dataclass
class Side:
    """An innings as the umpires see it, while it is played."""

    number: int
    team: str
    other: str
    overs: int
    wickets: int = 10
    target: int | None = None
    declares_at: int | None = None
    is_super_over: bool = False
    runs: int = 0
    out: int = 0
    balls: list[Ball] = field(default_factory=list)

    @property
    def is_won(self) -> bool:
        """Whether it has reached its target."""
        return self.target is not None and self.runs >= self.target

    @property
    def is_declared(self) -> bool:
        """Whether it has the runs that it wanted."""
        return self.declares_at is not None and self.runs >= self.declares_at

    @property
    def is_done(self) -> bool:
        """Whether it ends before its last over."""
        return self.out >= self.wickets or self.is_won or self.is_declared


def season(chance: random.Random, matches: int | None = None, overs: int = 20) -> Iterator[Event]:
    """The events of so many matches, or of a season without an end, in the order of their time."""
    pairs = list(permutations(PLAYERS, 2))
    for first in count(1, 2):
        now = [number for number in (first, first + 1) if matches is None or number <= matches]
        if not now:
            return
        # A generator of random numbers for each match: they are played at the same time.
        grounds = [
            _played(random.Random(chance.random()), number, pairs[number * 5 % len(pairs)], overs)
            for number in now
        ]
        yield from heapq.merge(*grounds, key=lambda event: event.at)


def _played(chance: random.Random, number: int, teams: tuple[str, str], overs: int) -> Iterator[Event]:
    """A match, with a time for each part."""
    name, kind = f"season-{number:03}", KINDS[(number - 1) % len(KINDS)]
    start = OPENS + timedelta(days=(number - 1) // 2, seconds=number % 2)
    parts = _match(chance, kind, f"{teams[0]} v {teams[1]}, match {number}", teams, overs)
    for position, part in enumerate(_reported(parts, chance)):
        at = start + position * BALL
        match part:
            case Ball():
                yield Event(name, at, ball=part)
            case Innings():
                yield Event(name, at, innings=part)
            case Sheet():
                yield Event(name, at, sheet=part)


def _match(
    chance: random.Random, kind: str, title: str, teams: tuple[str, str], overs: int
) -> Iterator[Part]:
    sheet = Sheet(title, list(teams), None if kind == "two innings" else overs)
    yield sheet
    if kind == "two innings":
        outcome = yield from _two_innings(chance, teams, overs)
    elif kind == "no result":
        yield from _innings(chance, Side(1, *teams, overs=max(1, overs // 4)))
        outcome = Outcome(result="no result")
    else:
        outcome = yield from _limited(chance, teams, overs, kind)
    yield replace(sheet, ended=True, outcome=outcome, revision=1)


def _limited(chance: random.Random, teams: tuple[str, str], overs: int, kind: str) -> Parts:
    """An innings a side."""
    one, two = teams
    first = Side(1, one, two, overs)
    yield from _innings(chance, first)
    second = Side(2, two, one, overs, target=first.runs + 1)
    if kind == "tie":
        yield from _same_again(first, second)
        return (yield from _super_overs(chance, teams))
    yield from _innings(chance, second, rain_after=overs // 3 if kind == "rain" else None)
    return _won(second, "D/L" if kind == "rain" else None)


def _two_innings(chance: random.Random, teams: tuple[str, str], overs: int) -> Parts:
    """Two innings a side, without a limit but the time that is left for the last one."""
    one, two = teams
    first = Side(1, one, two, ENDLESS, declares_at=8 * overs)
    second = Side(2, two, one, ENDLESS)
    yield from _innings(chance, first)
    yield from _innings(chance, second)
    ahead = first.runs - second.runs
    if ahead >= 3 * overs:  # the follow-on
        third = Side(3, two, one, ENDLESS)
        yield from _innings(chance, third)
        if third.runs < ahead:
            return Outcome(winner=one, innings=1, runs=ahead - third.runs)
        last = Side(4, one, two, 2 * overs, target=third.runs - ahead + 1)
    else:
        third = Side(3, one, two, ENDLESS, declares_at=6 * overs)
        yield from _innings(chance, third)
        if third.runs + ahead < 0:
            return Outcome(winner=two, innings=1, runs=-ahead - third.runs)
        last = Side(4, two, one, 2 * overs, target=third.runs + ahead + 1)
    yield from _innings(chance, last)
    return _won(last, None) if last.is_won or last.out >= last.wickets else Outcome(result="draw")


def _super_overs(chance: random.Random, teams: tuple[str, str]) -> Parts:
    """As many super overs as are needed."""
    for number in count(3, 2):
        first = Side(number, *teams, overs=1, wickets=2, is_super_over=True)
        yield from _innings(chance, first)
        second = replace(first, number=number + 1, team=teams[1], other=teams[0], balls=[], runs=0, out=0)
        second.target = first.runs + 1
        yield from _innings(chance, second)
        if second.runs != first.runs:
            return Outcome(result="tie", eliminator=max(first, second, key=lambda side: side.runs).team)
    raise AssertionError


def _won(chasing: Side, method: str | None) -> Outcome:
    assert chasing.target is not None
    missing = chasing.target - 1 - chasing.runs
    if chasing.is_won:
        return Outcome(winner=chasing.team, wickets=10 - chasing.out, method=method)
    if missing:
        return Outcome(winner=chasing.other, runs=missing, method=method)
    return Outcome(result="tie", method=method)


def _innings(chance: random.Random, side: Side, rain_after: int | None = None) -> Iterator[Part]:
    """An innings, ball by ball; its facts are sent again whenever they change."""
    facts = Innings(side.number, side.team, super_over=side.is_super_over)
    yield facts
    waiting = list(PLAYERS[side.team])
    pair = [waiting.pop(0), waiting.pop(0)]
    over = 0
    while over < side.overs and not side.is_done:
        bowler = PLAYERS[side.other][6 + over % 5]
        is_miscounted = not side.is_super_over and chance.random() < 0.01
        legal = number = 0
        while legal < (5 if is_miscounted else 6) and not side.is_done:
            number += 1
            ball = _ball(chance, side, Ball(side.number, over, number, pair[0], bowler, pair[1], 0, 0, 0))
            yield ball
            side.balls.append(ball)
            side.runs += ball.runs_total
            side.out += sum(wicket.kind != "retired hurt" for wicket in ball.wickets)
            legal += not ball.wides and not ball.noballs
            if (ball.runs_batter + ball.byes + ball.legbyes) % 2:
                pair.reverse()
            for wicket in ball.wickets:
                if wicket.kind == "retired hurt":
                    waiting.append(wicket.player_out)  # who returns at the end
                if waiting:
                    pair[pair.index(wicket.player_out)] = waiting.pop(0)
        pair.reverse()
        if is_miscounted and legal == 5:
            miscounted = {**facts.miscounted_overs, str(over): 5}
            facts = replace(facts, miscounted_overs=miscounted, revision=facts.revision + 1)
            yield facts
        over += 1
        if over == rain_after and side.target is not None and not side.is_done:
            shortened = side.overs - max(1, side.overs // 4)
            side.target = max(side.runs + 2, side.target * shortened // side.overs)
            side.overs = shortened
            facts = replace(
                facts,
                target_runs=side.target,
                target_balls=shortened * 6,
                revision=facts.revision + 1,
            )
            yield facts
    if side.is_declared and side.out < side.wickets:
        yield replace(facts, declared=True, revision=facts.revision + 1)


def _same_again(first: Side, second: Side) -> Iterator[Part]:
    """The same innings by the other side: that is what makes a tie."""
    names = dict(zip(PLAYERS[first.team], PLAYERS[second.team], strict=True))
    names |= {theirs: ours for ours, theirs in names.items()}
    facts = Innings(2, second.team)
    yield facts
    for ball in first.balls:
        wickets = [
            Wicket(wicket.kind, names[wicket.player_out], [names[name] for name in wicket.fielders])
            for wicket in ball.wickets
        ]
        yield replace(
            ball,
            innings=2,
            batter=names[ball.batter],
            bowler=names[ball.bowler],
            non_striker=names[ball.non_striker],
            wickets=wickets,
        )


def _ball(chance: random.Random, side: Side, ball: Ball) -> Ball:
    """What happens to a delivery."""
    luck = chance.random()
    hit = chance.choices(list(HITS), list(HITS.values()))[0]
    if luck < 0.04:
        runs = chance.choice((1, 1, 1, 2, 5))
        return replace(ball, wides=runs, runs_extras=runs, runs_total=runs)
    if luck < 0.05:
        return replace(ball, noballs=1, runs_extras=1, runs_batter=hit, runs_total=hit + 1)
    if luck < 0.06:
        return replace(ball, byes=1, runs_extras=1, runs_total=1)
    if luck < 0.08:
        return replace(ball, legbyes=1, runs_extras=1, runs_total=1)
    if luck < 0.082:
        return replace(ball, penalty=5, runs_extras=5, runs_batter=hit, runs_total=hit + 5)
    if luck < 0.085 and not side.is_super_over:
        return replace(ball, wickets=[Wicket("retired hurt", ball.batter)])
    if luck < 0.135:
        kind = chance.choice(DISMISSALS)
        fielders = [chance.choice(PLAYERS[side.other])] if kind in ("caught", "run out", "stumped") else []
        out = ball.non_striker if kind == "run out" and chance.random() < 0.5 else ball.batter
        return replace(ball, wickets=[Wicket(kind, out, fielders)])
    return replace(ball, runs_batter=hit, runs_total=hit, non_boundary=hit == 4 and chance.random() < 0.03)


def _reported(parts: Iterable[Part], chance: random.Random) -> Iterator[Part]:
    """The parts as the scorers report them: some deliveries wrong at first, and right up to twelve reports later."""
    later: list[tuple[int, int, Ball]] = []
    for position, part in enumerate(parts):
        if isinstance(part, Ball) and chance.random() < WRONG:
            yield _wrong(part, chance)
            heapq.heappush(later, (position + chance.randint(1, 12), position, replace(part, revision=1)))
        else:
            yield part
        while later and later[0][0] <= position:
            yield heapq.heappop(later)[2]
    while later:
        yield heapq.heappop(later)[2]


def _wrong(ball: Ball, chance: random.Random) -> Ball:
    mistake = chance.randrange(3)
    if mistake == 0 and not ball.wickets:
        return replace(ball, wickets=[Wicket("lbw", ball.batter)])
    if mistake == 1:
        return replace(ball, batter="Twelfth")
    return replace(ball, runs_batter=ball.runs_batter + 4, runs_total=ball.runs_total + 4)
