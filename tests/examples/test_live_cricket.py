"""Live cricket: cricsheet's files, scorecards and results in every gear and in plain Python, and the demo."""

from __future__ import annotations

import json
import random
import re
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gearshift.errors import WrongFileError
from gearshift.freshness import Gear
from gearshift.testing import Run
from tests import stories
from tests.demos import tell

DATA = Path(__file__).parents[1] / "data" / "live_cricket"
cricket = stories.load("live_cricket", "live_cricket")
loader = stories.load("live_cricket", "loader")
simulator = stories.load("live_cricket", "simulator")
truth = stories.load("live_cricket", "truth")

FILES = list(loader.load(DATA))
SEASON = list(simulator.season(random.Random(7), 6, overs=5))
MATCHES = SEASON + FILES
AWKWARD = {"late": 0.05, "repeated": 0.02, "disorder": timedelta(minutes=10), "event_time": "at"}
CARD = ("match", "innings")
EVERY_GEAR = (Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME)


@pytest.mark.parametrize(
    ("match", "totals", "result", "confirmed"),
    [
        ("1100001", "Aland 28/2, Borneo 30/1", "Borneo won by 9 wickets", True),
        ("1000002", "Aland 39/0, Borneo 28/2", "Aland won by 2 runs (D/L)", True),
        (
            "1200003",
            "Aland 20/0 dec, Borneo 6/9, Borneo 4",
            "Aland won by an innings and 10 runs",
            True,
        ),
        (
            "1100004",
            "Aland 6/0, Borneo 6/0, Borneo 24/0 (super over), Aland 6/2 (super over)",
            "tie; Borneo won the super over",
            True,
        ),
        ("1200005", "Aland 2/0", "no result", None),
        (
            "1200006",
            "Aland 4/0 dec, Borneo 0/0 forfeited, Aland 0/0 forfeited, Borneo 6/0",
            "Borneo won by 10 wickets",
            True,
        ),
        ("1300007", "Aland 7/2, Borneo 4/1", "Aland won by 3 runs", True),
    ],
)
def test_totals_and_results_of_cricsheets_files_are_those_of_the_scorecards(
    match: str, totals: str, result: str, confirmed: bool | None
) -> None:
    standing = truth.standings(FILES)[match]
    assert (standing.totals, standing.result, standing.confirmed) == (totals, result, confirmed)


def test_a_scorecard_counts_every_kind_of_run_for_whom_it_belongs() -> None:
    card = truth.scorecards(FILES)["1100001", 1]
    assert (card.runs, card.wickets, card.overs, card.extras, str(card.run_rate)) == (
        28,
        2,
        "2.0",
        10,
        "14.00",
    )
    assert [
        (each.batter, each.runs, each.balls, each.fours, each.sixes, each.dismissal) for each in card.batters
    ] == [
        ("A1", 1, 2, 0, 0, "caught"),
        ("A2", 15, 4, 1, 1, "run out"),  # a wide is not faced; four runs that were run are no four
        ("A3", 0, 4, 0, 0, None),  # retired hurt
        ("A4", 2, 3, 0, 0, None),
    ]
    assert card.batters[0].fielders == ["substitute"]  # whose name the file does not have
    assert [
        (each.bowler, each.overs, each.runs, each.wickets, each.wides, each.noballs) for each in card.bowlers
    ] == [
        ("B1", "1.0", 18, 1, 1, 1),  # leg byes are not charged
        ("B2", "1.0", 2, 0, 0, 0),  # nor byes, nor penalties, and a run out is nobody's wicket
    ]


def test_an_over_of_five_balls_that_the_umpire_miscounted_is_a_whole_one() -> None:
    card = truth.scorecards(FILES)["1000002", 1]
    assert (card.balls, card.overs, card.extras) == (17, "3.0", 5)  # the penalty came before the innings
    assert [(each.bowler, each.overs, each.maidens) for each in card.bowlers] == [
        ("B1", "2.0", 1),
        ("B2", "1.0", 0),
    ]
    chase = truth.scorecards(FILES)["1000002", 2]
    assert (chase.target_runs, chase.target_balls, chase.overs) == (31, 10, "1.4")


def test_a_set_of_the_hundred_has_five_balls_and_who_retires_out_is_out() -> None:
    card = truth.scorecards(FILES)["1300007", 1]
    assert (card.balls, card.overs, card.wickets) == (5, "1.0", 2)
    assert [(each.batter, each.runs, each.dismissal) for each in card.batters] == [
        ("A1", 5, "stumped"),
        ("A2", 1, "retired out"),
        ("A3", 0, None),
        ("A4", 0, None),
    ]
    assert truth.scorecards(FILES)["1300007", 2].overs == "1.0"


def test_an_archive_is_read_like_the_files_in_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "matches_json.zip", "w") as archive:
        archive.writestr("README.txt", "cricsheet")
        for file in DATA.glob("*.json"):
            archive.write(file, f"json/{file.name}")
        archive.writestr("__MACOSX/json/._1100001.json", b"\0\xff")
    assert list(loader.load(tmp_path / "matches_json.zip")) == FILES
    (tmp_path / "._1100001.json").write_bytes(b"\0\xff")
    assert list(loader.load(tmp_path)) == FILES
    [one] = {event.match for event in loader.load(DATA / "1200005.json")}
    assert one == "1200005"


def changed(**parts: Any) -> str:
    """A match of two deliveries, the second on line 8, with other parts."""
    innings = parts.pop("innings", '"team": "Aland"')
    ball = parts.pop("ball", '"batter": "A1", "bowler": "B1", "non_striker": "A2"')
    runs = parts.pop("runs", '"batter": 1, "extras": 0, "total": 1')
    info = {"dates": ["2024-06-01"], "teams": ["Aland", "Borneo"], "overs": 2} | parts
    good = '{"batter": "A1", "bowler": "B1", "non_striker": "A2", "runs": {"batter": 0, "extras": 0, "total": 0}}'
    return (
        f'{{"info": {json.dumps(info)},\n'
        f'"innings": [\n{{{innings},\n"overs": [\n{{"over": 0,\n"deliveries": [\n{good},\n'
        f'{{{ball},\n"runs": {{{runs}}}}}]}}]}}]}}\n'
    )


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        (
            changed(runs='"batter": 1, "extras": 0'),
            "innings[0].overs[0].deliveries[1].runs: it has no total",
            9,
        ),
        (changed(runs='"batter": -1, "extras": 0, "total": 1'), "runs.batter: -1 is not a number", 9),
        (changed(runs='"batter": "1", "extras": 0, "total": 1'), "runs.batter: '1' is not a number", 9),
        (changed(ball='"batter": "A1", "bowler": "B1"'), "deliveries[1]: it has no non_striker", 8),
        (changed(innings='"team": "Corfu"'), "innings[0].team: 'Corfu' does not play", 3),
        (changed(teams=["Aland"]), "info: the match has 1 teams", 1),
        (changed(dates=["01/06/2024"]), "info.dates[0]: '01/06/2024' is not a date", 1),
        (changed(dates=[]), "info: it has no dates", 1),
        ('{"meta": {},\n "innings": []}', "it has no info", 1),
        ("[]", "it is not an object", 1),
        ('{"info": {\n"teams": ["Aland" "Borneo"]}}', "it is not JSON", 2),
        ("---\nmeta:\n", "it is not JSON", 1),
    ],
)
def test_a_wrong_file_is_refused_with_its_line_and_its_place(
    tmp_path: Path, content: str, message: str, line: int
) -> None:
    (tmp_path / "1.json").write_text(content)
    with pytest.raises(WrongFileError, match=re.escape(message)) as refused:
        list(loader.load(tmp_path / "1.json"))
    assert f"1.json:{line}" in str(refused.value)
    assert refused.value.hint


def test_files_that_are_no_json_are_refused_with_their_name(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_bytes(b'{\n"info": "\xff"}')
    with pytest.raises(WrongFileError, match=r"not UTF-8.*1\.json:2"):
        list(loader.load(tmp_path / "1.json"))
    (tmp_path / "no.zip").write_text("this is no archive")
    with pytest.raises(WrongFileError, match=r"cannot be unpacked.*no\.zip"):
        list(loader.load(tmp_path / "no.zip"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(WrongFileError, match=r"no \.json files"):
        list(loader.load(tmp_path / "empty"))
    with pytest.raises(WrongFileError, match="does not exist"):
        list(loader.load(tmp_path / "other.json"))


def test_the_season_is_the_same_for_a_seed_and_as_awkward_as_real_matches() -> None:
    assert list(simulator.season(random.Random(7), 6, overs=5)) == SEASON
    assert list(simulator.season(random.Random(8), 6, overs=5)) != SEASON
    whole = list(simulator.season(random.Random(7), 12))
    results = truth.standings(whole).values()
    assert all(standing.confirmed for standing in results if standing.result != "no result")
    words = " ".join(standing.result for standing in results)
    assert all(each in words for each in ("won the super over", "(D/L)", "no result", "runs", "wickets"))
    corrected = [event for event in whole if event.ball is not None and event.ball.revision]
    assert len(corrected) > 20
    named = [batter for card in truth.scorecards(whole).values() for batter in card.batters]
    assert any(batter.withdrawn for batter in named)


def test_scorecards_and_results_are_the_same_in_every_gear_and_in_plain_python(gearshift_run: Run) -> None:
    scored = gearshift_run(cricket.app, cricket.score_innings, {"match-feed": MATCHES}, **AWKWARD)
    scored.assert_each(truth.scorecards(MATCHES).values(), key=CARD)
    assert scored.gears == EVERY_GEAR
    cards = scored[Gear.REAL_TIME]  # every version of each, as the next pipeline reads them
    sheets = [event for event in MATCHES if event.sheet is not None]
    shuffled = random.Random(7).sample(cards, len(cards))
    standings = gearshift_run(
        cricket.app, cricket.follow_matches, {"scorecards": shuffled, "match-feed": sheets}, repeated=0.02
    )
    standings.assert_each(truth.standings(MATCHES).values(), key="match")
    assert standings.gears == EVERY_GEAR
    kept = gearshift_run(
        cricket.app, cricket.keep_batting, {"scorecards": cards}, gears=[Gear.NEAR_REAL_TIME]
    )
    kept.assert_each(
        [
            {"match": match, "innings": innings, "batter": batter.batter, "runs": batter.runs}
            for (match, innings), card in truth.scorecards(MATCHES).items()
            for batter in card.batters
            if not batter.withdrawn
        ]
    )


def test_the_demo_ends_with_the_results_of_cricsheets_files(tmp_path: Path) -> None:
    told = tell("live_cricket", tmp_path, "--data", str(DATA))
    assert "score_innings: real-time → near-real-time" in told.output
    assert "score_innings: near-real-time → real-time" in told.output
    found = told.ask("SELECT match, totals, result, confirmed FROM matches")
    assert {match: rest for match, *rest in found} == {
        name: [standing.totals, standing.result, standing.confirmed]
        for name, standing in truth.standings(FILES).items()
    }
    batted = told.ask("SELECT match, innings, batter, runs FROM batting")
    assert sorted(batted) == sorted(
        (*place, batter.batter, batter.runs)
        for place, card in truth.scorecards(FILES).items()
        for batter in card.batters
    )
