"""The same scorecards and results in plain Python: one pass over the valid deliveries, counting up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from match_events import Ball, Event, Innings, Outcome, Sheet
from scorecards import BatterCard, BowlerCard, Scorecard, Standing

NOT_WICKETS = {"retired hurt", "retired not out"}
NOT_THE_BOWLERS = {
    "run out",
    "retired out",
    "obstructing the field",
    "hit the ball twice",
    "handled the ball",
    "timed out",
}


@dataclass
class Match:
    """The events of a match, each once."""

    balls: set[str] = field(default_factory=set)  # every report, by its text: a wicket is no key of a set
    reports: list[tuple[Ball, datetime]] = field(default_factory=list)
    innings: dict[int, list[tuple[Innings, datetime]]] = field(default_factory=lambda: defaultdict(list))
    sheets: list[tuple[Sheet, datetime]] = field(default_factory=list)


def collected(events: Iterable[Event]) -> dict[str, Match]:
    """The matches with their events."""
    found: dict[str, Match] = defaultdict(Match)
    for event in events:
        match = found[event.match]
        if event.ball is not None and repr(event.ball) not in match.balls:
            match.balls.add(repr(event.ball))
            match.reports.append((event.ball, event.at))
        if event.innings is not None:
            match.innings[event.innings.number].append((event.innings, event.at))
        if event.sheet is not None:
            match.sheets.append((event.sheet, event.at))
    return found


def scorecards(events: Iterable[Event]) -> dict[tuple[str, int], Scorecard]:
    """The final card of each innings."""
    return {
        (name, number): _scorecard(name, number, match)
        for name, match in collected(events).items()
        for number in match.innings
    }


def standings(events: Iterable[Event]) -> dict[str, Standing]:
    """Where each match stands after all its events."""
    events = list(events)
    cards = scorecards(events)
    return {
        name: _standing(name, [card for (of, _), card in sorted(cards.items()) if of == name], match)
        for name, match in collected(events).items()
        if match.sheets
    }


def _scorecard(name: str, number: int, match: Match) -> Scorecard:
    facts = max((facts for facts, _ in match.innings[number]), key=lambda facts: facts.revision)
    reports = [(ball, at) for ball, at in match.reports if ball.innings == number]
    valid: dict[tuple[int, int], Ball] = {}
    for ball, _ in sorted(reports, key=lambda report: report[0].revision):
        valid[ball.over, ball.ball] = ball
    balls = [valid[place] for place in sorted(valid)]
    overs = _overs(balls, facts)
    runs = sum(ball.runs_total for ball in balls) + facts.penalty_runs
    bowled = sum(over.counted for over in overs)
    return Scorecard(
        match=name,
        innings=number,
        team=facts.team,
        runs=runs,
        wickets=sum(wicket.kind not in NOT_WICKETS for ball in balls for wicket in ball.wickets),
        balls=sum(_is_legal(ball) for ball in balls),
        overs=_as_overs(bowled, facts.balls_per_over),
        run_rate=_rate(runs * facts.balls_per_over, bowled),
        extras=sum(ball.runs_extras for ball in balls) + facts.penalty_runs,
        balls_bowled=bowled,
        balls_per_over=facts.balls_per_over,
        target_runs=facts.target_runs,
        target_balls=facts.target_balls,
        absent=facts.absent,
        declared=facts.declared,
        forfeited=facts.forfeited,
        super_over=facts.super_over,
        batters=_batters(balls, [ball for ball, _ in sorted(reports, key=_in_order)]),
        bowlers=_bowlers(overs, facts, [ball for ball, _ in sorted(reports, key=_in_order)]),
        version=len(reports) + facts.revision + 1,
        as_of=max([at for _, at in reports] + [at for _, at in match.innings[number]]),
    )


def _in_order(report: tuple[Ball, datetime]) -> tuple[int, int, int]:
    ball = report[0]
    return ball.over, ball.ball, ball.revision


@dataclass
class Over:
    """The deliveries of an over, and how many balls it counts for."""

    balls: list[Ball]
    is_whole: bool
    counted: int


def _overs(balls: list[Ball], facts: Innings) -> list[Over]:
    numbers = sorted({ball.over for ball in balls})
    overs: list[Over] = []
    for number in numbers:
        inside = [ball for ball in balls if ball.over == number]
        legal = sum(map(_is_legal, inside))
        needed = facts.miscounted_overs.get(str(number), facts.balls_per_over)
        is_whole = number != numbers[-1] or legal >= needed
        overs.append(Over(inside, is_whole, facts.balls_per_over if is_whole else legal))
    return overs


def _batters(balls: list[Ball], ever: list[Ball]) -> list[BatterCard]:
    def named(these: list[Ball]) -> list[str]:
        names = [
            name
            for ball in these
            for name in (ball.batter, ball.non_striker, *(wicket.player_out for wicket in ball.wickets))
        ]
        return list(dict.fromkeys(names))

    still = named(balls)
    cards = {
        name: BatterCard(
            batter=name,
            runs=0,
            balls=0,
            fours=0,
            sixes=0,
            strike_rate=None,
            dismissal=None,
            bowler=None,
            fielders=[],
            withdrawn=name not in still,
        )
        for name in named(ever)
    }
    for ball in balls:
        card = cards[ball.batter]
        card.runs += ball.runs_batter
        card.balls += not ball.wides
        card.fours += ball.runs_batter == 4 and not ball.non_boundary
        card.sixes += ball.runs_batter == 6 and not ball.non_boundary
        for wicket in ball.wickets:
            out = cards[wicket.player_out]
            if wicket.kind in NOT_WICKETS or out.dismissal is not None:
                continue
            out.dismissal, out.fielders = wicket.kind, list(wicket.fielders)
            out.bowler = None if wicket.kind in NOT_THE_BOWLERS else ball.bowler
    for card in cards.values():
        card.strike_rate = _rate(card.runs * 100, card.balls)
    return list(cards.values())


def _bowlers(overs: list[Over], facts: Innings, ever: list[Ball]) -> list[BowlerCard]:
    cards: dict[str, BowlerCard] = {
        name: BowlerCard(
            bowler=name,
            balls=0,
            overs="",
            maidens=0,
            runs=0,
            wickets=0,
            wides=0,
            noballs=0,
            economy=None,
            withdrawn=True,
        )
        for name in dict.fromkeys(ball.bowler for ball in ever)
    }
    counted: dict[str, int] = defaultdict(int)
    for over in overs:
        bowlers = {ball.bowler for ball in over.balls}
        alone = over.is_whole and len(bowlers) == 1
        for ball in over.balls:
            card = cards[ball.bowler]
            card.withdrawn = False
            card.balls += _is_legal(ball)
            card.runs += ball.runs_batter + ball.wides + ball.noballs
            card.wides += ball.wides
            card.noballs += ball.noballs
            kinds = [wicket.kind for wicket in ball.wickets]
            card.wickets += sum(kind not in NOT_WICKETS | NOT_THE_BOWLERS for kind in kinds)
            counted[ball.bowler] += _is_legal(ball) and not alone
        if alone:
            [name] = bowlers
            counted[name] += facts.balls_per_over
            cards[name].maidens += not any(
                ball.runs_batter + ball.wides + ball.noballs for ball in over.balls
            )
    for name, card in cards.items():
        card.overs = _as_overs(counted[name], facts.balls_per_over)
        card.economy = _rate(card.runs * facts.balls_per_over, counted[name])
    return list(cards.values())


def _standing(name: str, cards: list[Scorecard], match: Match) -> Standing:
    sheet = max((sheet for sheet, _ in match.sheets), key=lambda sheet: sheet.revision)
    played = [card for card in cards if not card.super_over]
    now = played[-1] if played else None
    chase = _chase(played, sheet)
    computed = _decided(played, cards, sheet, chase)
    announced = sheet.outcome
    limit = _limit(now, sheet) if now is not None else None
    is_over = sheet.ended or now is None or chase is None or now.runs >= chase or _is_closed(now, sheet)
    needed = None if is_over or now is None or chase is None else chase - now.runs
    left = limit - now.balls_bowled if needed is not None and limit is not None and now is not None else None
    times = [card.as_of for card in cards] + [at for _, at in match.sheets]
    return Standing(
        match=name,
        title=sheet.title,
        totals=", ".join(_total(card) for card in cards[:4]),
        innings=now.innings if now else None,
        batting=now.team if now else None,
        score=_score(now) if now else None,
        overs=now.overs if now else None,
        run_rate=now.run_rate if now else None,
        target=chase,
        needed=needed,
        balls_left=left,
        required_rate=_rate(needed * now.balls_per_over, left)
        if now and needed is not None and left
        else None,
        result=_words(announced or computed),
        computed=_words(computed),
        confirmed=_same(computed, announced) if computed and announced else None,
        version=sum(card.version for card in cards[:4]) + sheet.revision + 1,
        as_of=max(times),
    )


def _chase(played: list[Scorecard], sheet: Sheet) -> int | None:
    """The target of the last innings, once it has begun."""
    if not played or played[-1].innings != (4 if sheet.overs is None else 2):
        return None
    batting = played[-1]
    ours = sum(card.runs for card in played[:-1] if card.team == batting.team)
    theirs = sum(card.runs for card in played[:-1] if card.team != batting.team)
    return batting.target_runs if batting.target_runs is not None else theirs - ours + 1


def _limit(card: Scorecard, sheet: Sheet) -> int | None:
    if card.target_balls is not None:
        return card.target_balls
    return None if sheet.overs is None else sheet.overs * card.balls_per_over


def _is_closed(card: Scorecard, sheet: Sheet) -> bool:
    limit = _limit(card, sheet)
    is_out = card.wickets + card.absent >= 10
    is_used_up = sheet.overs is not None and limit is not None and card.balls_bowled >= limit
    return is_out or is_used_up or card.declared or card.forfeited


def _decided(
    played: list[Scorecard], cards: list[Scorecard], sheet: Sheet, chase: int | None
) -> Outcome | None:
    """The outcome that follows from the deliveries."""
    announced = sheet.outcome or Outcome()
    if not played or announced.method not in (None, "D/L", "DLS", "VJD"):
        return None
    now = played[-1]
    [other] = set(sheet.teams) - {now.team}
    ours = [card for card in played if card.team == now.team]
    theirs = [card for card in played if card.team == other]
    lead = sum(card.runs for card in theirs) - sum(card.runs for card in ours)
    if chase is not None and now.runs >= chase:
        return Outcome(winner=now.team, wickets=10 - now.wickets)
    if chase is not None and _is_closed(now, sheet):
        if now.runs == chase - 1:
            return Outcome(result="tie", eliminator=_super_over(cards[2:4], ended=sheet.ended))
        return Outcome(winner=other, runs=chase - 1 - now.runs)
    if sheet.overs is not None:
        return None
    if _is_closed(now, sheet) and len(ours) == 2 and len(theirs) == 1 and lead > 0:
        return Outcome(winner=other, innings=1, runs=lead)
    is_drawn = sheet.ended and announced.winner is None and announced.result != "no result"
    return Outcome(result="draw") if is_drawn else None


def _super_over(cards: list[Scorecard], *, ended: bool) -> str | None:
    if len(cards) < 2 or not all(card.super_over for card in cards):
        return None
    first, second = cards
    if second.runs > first.runs:
        return second.team
    is_bowled = ended or second.wickets >= 2 or second.balls_bowled >= second.balls_per_over
    return first.team if is_bowled and first.runs > second.runs else None


def _same(computed: Outcome, announced: Outcome) -> bool:
    def margin(outcome: Outcome) -> tuple[int | None, ...]:
        return outcome.innings, outcome.runs, outcome.wickets

    if computed.winner != announced.winner or computed.result != announced.result:
        return False
    if any(part is not None for part in margin(announced)) and margin(computed) != margin(announced):
        return False
    return None in (computed.eliminator, announced.eliminator) or computed.eliminator == announced.eliminator


def _words(outcome: Outcome | None) -> str | None:
    if outcome is None or not (outcome.winner or outcome.result):
        return None
    method = f" ({outcome.method})" if outcome.method else ""
    if outcome.winner is None:
        after = f"; {outcome.eliminator} won the super over" if outcome.eliminator else ""
        if not after and outcome.bowl_out:
            after = f"; {outcome.bowl_out} won the bowl-out"
        return f"{outcome.result}{method}{after}"
    runs = f"{outcome.runs} run{'' if outcome.runs == 1 else 's'}"
    if outcome.innings is not None:
        by = " by an innings" + (f" and {runs}" if outcome.runs is not None else "")
    elif outcome.runs is not None:
        by = f" by {runs}"
    elif outcome.wickets is not None:
        by = f" by {outcome.wickets} wicket{'' if outcome.wickets == 1 else 's'}"
    else:
        by = ""
    return f"{outcome.winner} won{by}{method}"


def _total(card: Scorecard) -> str:
    return f"{card.team} {_score(card)}{' (super over)' if card.super_over else ''}"


def _score(card: Scorecard) -> str:
    wickets = f"/{card.wickets}" if card.wickets < 10 else ""
    return f"{card.runs}{wickets}{' dec' if card.declared else ' forfeited' if card.forfeited else ''}"


def _is_legal(ball: Ball) -> bool:
    return not ball.wides and not ball.noballs


def _as_overs(balls: int, per_over: int) -> str:
    whole, rest = divmod(balls, per_over)
    return f"{whole}.{rest}"


def _rate(amount: int, of: int) -> Decimal | None:
    """Two decimals, rounded half up.

    >>> _rate(200, 3), _rate(1, 200), _rate(1, 0)
    (Decimal('66.67'), Decimal('0.01'), None)
    """
    if not of:
        return None
    scaled = Fraction(amount, of) * 100
    whole = scaled.numerator // scaled.denominator
    return Decimal(whole + (scaled - whole >= Fraction(1, 2))).scaleb(-2)
