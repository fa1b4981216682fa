"""Loads matches of cricsheet in its JSON format (versions 1.0.0 and later): a file, a folder, or a zip of them.

A file has no times of day: the first delivery is at ten in the morning (UTC) of the first date, and the others follow
every half minute. The name of the file identifies the match. What cricsheet knows about an innings afterwards, such as
a declaration, is sent after its last delivery, and the outcome after the last innings, as in a real match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from pathlib import Path

from documents import Node, documents
from match_events import Ball, Event, Innings, Outcome, Sheet, Wicket

STARTS = time(10, tzinfo=UTC)
BETWEEN_BALLS = timedelta(seconds=30)
OVERS = {"T20": 20, "IT20": 20, "ODI": 50, "ODM": 50}
"""The overs of matches whose file does not say them; those of other types are not limited."""
SUBSTITUTE = "substitute"
"""The name of a fielder whose name the file does not have."""


def load(path: Path) -> Iterator[Event]:
    """The events of all matches, match by match; none of a match whose file is wrong."""
    for name, match in documents(path):
        yield from list(_events(name, match))


def _events(name: str, match: Node) -> Iterator[Event]:
    info = match.need("info")
    sheet = _sheet(info)
    times = (datetime.combine(_first_day(info), STARTS) + number * BETWEEN_BALLS for number in count())
    yield Event(name, next(times), sheet=sheet)
    for number, innings in enumerate(match.items("innings"), 1):
        before, after = _innings(number, innings, info, sheet)
        yield Event(name, next(times), innings=before)
        for ball in _balls(number, innings):
            yield Event(name, next(times), ball=ball)
        yield Event(name, next(times), innings=after)
    yield Event(
        name,
        next(times),
        sheet=Sheet(sheet.title, sheet.teams, sheet.overs, ended=True, outcome=_outcome(info), revision=1),
    )


def _sheet(info: Node) -> Sheet:
    teams = info.texts("teams")
    if len(set(teams)) != 2:
        raise info.error(f"the match has {len(set(teams))} teams", "name both in info.teams")
    parts = (" v ".join(teams), *_event(info.part("event")))
    overs = info.number_of("overs") or OVERS.get(info.text_of("match_type") or "")
    return Sheet(", ".join(part for part in parts if part), teams, overs)


def _event(event: Node | None) -> tuple[str | None, ...]:
    """The name of the competition, and the match in it."""
    if event is None:
        return ()
    if isinstance(event.value, str):
        return (event.text(),)
    number = event.part("match_number")
    return event.text_of("name"), event.text_of("stage") or (f"match {number.value}" if number else None)


def _first_day(info: Node) -> date:
    for day in info.items("dates"):
        try:
            return date.fromisoformat(day.text())
        except ValueError:
            raise day.error(f"{day.value!r} is not a date", "write it as 2024-06-29") from None
    raise info.error("it has no dates", 'add them, such as "dates": ["2024-06-29"]')


def _innings(number: int, innings: Node, info: Node, sheet: Sheet) -> tuple[Innings, Innings]:
    """What is known of an innings at its beginning, and at its end."""
    team = innings.need("team")
    if team.text() not in sheet.teams:
        raise team.error(f"{team.value!r} does not play", f"use {' or '.join(sheet.teams)}")
    per_over = info.number_of("balls_per_over") or 6
    runs, balls = _target(innings.part("target"), per_over)
    awarded = innings.part("penalty_runs")
    pre, post = ((awarded and awarded.number_of(when)) or 0 for when in ("pre", "post"))
    before = Innings(
        number,
        team.text(),
        per_over,
        target_runs=runs,
        target_balls=balls,
        penalty_runs=pre,
        super_over=innings.flag("super_over"),
    )
    after = Innings(
        number,
        team.text(),
        per_over,
        target_runs=runs,
        target_balls=balls,
        penalty_runs=pre + post,
        miscounted_overs=_miscounted(innings.part("miscounted_overs")),
        absent=len(innings.texts("absent_hurt")),
        declared=innings.flag("declared"),
        forfeited=innings.flag("forfeited"),
        super_over=before.super_over,
        revision=1,
    )
    return before, after


def _target(target: Node | None, per_over: int) -> tuple[int | None, int | None]:
    """The runs and balls of a target; 12.4 overs are 12 overs and 4 balls."""
    if target is None:
        return None, None
    overs = target.part("overs")
    if overs is None:
        return target.number_of("runs"), None
    whole, part = divmod(overs.decimal(), 1)
    return target.number_of("runs"), int(whole) * per_over + int(part * 10)


def _miscounted(overs: Node | None) -> dict[str, int]:
    return (
        {name: overs.need(name).need("balls").number() for name in overs.value} if overs is not None else {}
    )


def _balls(innings_number: int, innings: Node) -> Iterator[Ball]:
    bowled: Counter[int] = Counter()
    for over in innings.items("overs"):
        number = over.need("over").number()
        for delivery in over.items("deliveries"):
            bowled[number] += 1
            yield _ball(innings_number, number, bowled[number], delivery)


def _ball(innings: int, over: int, number: int, delivery: Node) -> Ball:
    runs, extras = delivery.need("runs"), delivery.part("extras")
    kinds = ("wides", "noballs", "byes", "legbyes", "penalty")
    wides, noballs, byes, legbyes, penalty = ((extras and extras.number_of(kind)) or 0 for kind in kinds)
    return Ball(
        innings,
        over,
        number,
        delivery.need("batter").text(),
        delivery.need("bowler").text(),
        delivery.need("non_striker").text(),
        runs.need("batter").number(),
        runs.need("extras").number(),
        runs.need("total").number(),
        wides,
        noballs,
        byes,
        legbyes,
        penalty,
        runs.flag("non_boundary"),
        [_wicket(wicket) for wicket in delivery.items("wickets")],
    )


def _wicket(wicket: Node) -> Wicket:
    fielders = [
        fielder.text() if isinstance(fielder.value, str) else fielder.text_of("name") or SUBSTITUTE
        for fielder in wicket.items("fielders")
    ]
    return Wicket(wicket.need("kind").text(), wicket.need("player_out").text(), fielders)


def _outcome(info: Node) -> Outcome | None:
    found = info.part("outcome")
    if found is None:
        return None
    by = found.part("by")
    innings, runs, wickets = ((by and by.number_of(name)) for name in ("innings", "runs", "wickets"))
    return Outcome(
        found.text_of("result"),
        found.text_of("winner"),
        innings,
        runs,
        wickets,
        found.text_of("method"),
        found.text_of("eliminator"),
        found.text_of("bowl_out"),
    )
