"""The mall counter: public counts as they are, and every number equal to plain Python's in every gear."""

from __future__ import annotations

import dataclasses
import doctest
import logging
import random
import re
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from gearshift.errors import WrongFileError
from tests import stories
from tests.demos import tell

if TYPE_CHECKING:
    from gearshift.testing import Deliver, Run

DATA = Path(__file__).parents[1] / "data" / "mall_counter"
AMSTERDAM = ZoneInfo("Europe/Amsterdam")

counter = stories.load("mall_counter", "mall_counter")
loader = stories.load("mall_counter", "loader")
simulator = stories.load("mall_counter", "simulator")
truth = stories.load("mall_counter", "truth")
DoorReport = stories.load("mall_counter", "values").DoorReport


def read(name: str, **options: Any) -> list[tuple[str, str, int, int]]:
    """The reports of a file: sensor, time in UTC, entered, left."""
    return [
        (report.door, f"{report.counted_at:%Y-%m-%d %H:%M}", report.entered, report.left)
        for report in loader.load(DATA / name, **options)
    ]


def test_old_files_of_melbourne_are_read_with_their_city_and_without_hidden_duplicates(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        found = read("melbourne_2019.csv")
    assert found == [
        ("Alfred Place", "2019-11-01 06:00", 604, 604),  # five in the afternoon in Melbourne's summer
        ("Flinders St-Spark La", "2019-11-01 06:00", 300, 300),
        ("Alfred Place", "2019-11-01 07:00", 1204, 1204),
        ("Alfred Place", "2019-11-01 13:00", 7, 7),
    ]
    assert f"1 repeated rows dropped; the first at {DATA / 'melbourne_2019.csv'}:4" in caplog.text


def test_new_files_of_melbourne_have_directions_and_the_last_of_two_counts_is_the_correction(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        found = read("melbourne_2023.csv")
    assert found == [("3", "2023-04-24 21:00", 10, 12), ("3", "2023-04-24 23:00", 5, 0)]
    assert "1 rows without a count skipped" in caplog.text
    assert "1 counts corrected by a later row" in caplog.text


def test_the_hour_that_comes_twice_is_two_hours_and_the_one_that_the_clock_skips_has_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        found = read("melbourne_monthly.csv")
    assert found == [
        ("Bou283_T", "2025-04-05 14:00", 30, 40),
        ("Bou283_T", "2025-04-05 15:00", 20, 21),
        ("Bou283_T", "2025-04-05 16:00", 10, 11),
        ("Bou283_T", "2025-04-05 17:00", 5, 6),
        ("Bou283_T", "2025-10-04 15:00", 1, 2),
        ("2", "2025-10-04 16:00", 3, 4),  # a row without a name
    ]
    skipped = "1 rows skipped at a time that the clocks of Australia/Melbourne skip; the first at"
    assert f"{skipped} {DATA / 'melbourne_monthly.csv'}:7" in caplog.text


def test_york_counts_in_and_out_on_the_clock_of_london() -> None:
    assert read("york.csv") == [
        ("Coney Street, York", "2025-10-26 00:00", 10, 11),
        ("Coney Street, York", "2025-10-26 01:00", 20, 21),
        ("Coney Street, York", "2025-10-26 02:00", 5, 6),
    ]


def test_a_file_that_is_not_utf8_keeps_its_names() -> None:
    assert read("hystreet.csv") == [
        ("Königstraße", "2024-03-31 00:00", 120, 120),
        ("Königstraße", "2024-03-31 01:00", 80, 80),
    ]


def test_a_file_may_have_a_column_for_each_sensor() -> None:
    assert read("June_2009.csv", zone="Australia/Melbourne") == [
        ("Collins Place (South)", "2009-06-12 13:00", 1218, 1218),
        ("State Library", "2009-06-12 13:00", 37, 37),
        ("Flagstaff Station", "2009-06-12 14:00", 3, 3),
        ("State Library", "2009-06-12 14:00", 35, 35),
    ]
    assert read("dublin.csv", zone="Europe/Dublin") == [
        ("Aston Quay/Fitzgeralds", "2023-03-25 23:00", 4, 6),
        ("Bachelors walk/Bachelors way", "2023-03-25 23:00", 30, 30),
        ("Aston Quay/Fitzgeralds", "2023-03-26 01:00", 7, 0),
    ]
    assert [door for door, *_ in read("fremont.csv")] == [
        "Fremont Bridge East Sidewalk",
        "Fremont Bridge West Sidewalk",
    ]


def test_a_file_of_one_door_has_its_name(tmp_path: Path) -> None:
    assert read("north_door.csv") == [("north_door", "2024-03-29 09:00", 12, 3)]
    wide = tmp_path / "north_door.csv"  # as Excel saves Unicode text
    wide.write_bytes((DATA / "north_door.csv").read_text("utf-8-sig").encode("utf-16"))
    assert loader.load(wide) == loader.load(DATA / "north_door.csv")


@pytest.mark.parametrize("header", ["", "FlowID,Date(MM/DD/YY),Time,Count\n"])
def test_the_two_flows_of_calit2_are_the_doors_of_one_zone(tmp_path: Path, header: str) -> None:
    file = tmp_path / "CalIt2.csv"
    file.write_text(header + (DATA / "CalIt2.data").read_text())
    reports = loader.load(file)
    assert {report.zone for report in reports} == {"CalIt2"}
    [(people, entered, left, last)] = [
        found
        for (zone, _), found in truth.people(reports, ZoneInfo("America/Los_Angeles")).items()
        if zone == "CalIt2"
    ]
    assert (people, entered, left) == (4, 5, 1)
    assert last == datetime(2005, 7, 24, 8, 0, tzinfo=UTC)
    assert loader.zone_of(file) == "America/Los_Angeles"


def test_a_folder_and_an_archive_are_the_files_in_them(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "counts.zip", "w") as archive:
        archive.write(DATA / "york.csv", "2025/york.CSV")
        archive.writestr("__MACOSX/2025/._york.CSV", b"\0\1")
    assert loader.load(tmp_path / "counts.zip") == loader.load(DATA / "york.csv")
    both = tmp_path / "both"
    both.mkdir()
    for name in ("york.csv", "melbourne_2019.csv"):
        (both / name).write_bytes((DATA / name).read_bytes())
    (both / "._york.csv").write_bytes(b"\0\1")
    (both / "README.md").write_text("Counts of doors.")
    assert len(loader.load(both)) == 7


@pytest.mark.parametrize(
    "written",
    ["01/11/2019 17:00", "2019-11-01 17:00", "1 November 2019 17:00", "01.11.2019 17:00", "20191101 17:00",
     "November 01, 2019 05:00:00 PM", "2019-11-01T16:00:00Z", "1-Nov-2019 5:00 pm"],
)  # fmt: skip
def test_one_moment_is_written_in_many_ways(tmp_path: Path, written: str) -> None:
    file = tmp_path / "counts.csv"
    # The last row proves that days come first.
    file.write_text(f'sensor;datetime;count\nA;{written};1\nA;"13/12/2019 00:00";2\n')
    assert loader.load(file)[0].counted_at == datetime(2019, 11, 1, 16, 0, tzinfo=UTC)


def test_the_order_of_day_and_month_is_proven_by_the_whole_file_or_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    file.write_text("sensor,datetime,count\nA,03/04/2019 12:00,1\nA,05/06/2019 12:00,2\n")
    with pytest.raises(
        WrongFileError, match="'03/04/2019' may be day-first or month-first, and no row"
    ) as raised:
        loader.load(file)
    assert (raised.value.file, raised.value.line) == (str(file), 2)
    assert [report.counted_at.month for report in loader.load(file, dates="day-first")] == [4, 6]
    assert [report.counted_at.month for report in loader.load(file, dates="month-first")] == [3, 5]
    file.write_text("sensor,datetime,weekday,count\nA,03/04/2019 12:00,Monday,1\n")
    assert loader.load(file)[0].counted_at.month == 3  # the fourth of March was a Monday
    file.write_text("sensor,datetime,count\nA,13/04/2019 12:00,1\nA,04/14/2019 12:00,2\n")
    with pytest.raises(WrongFileError, match="is month-first, but earlier ones are day-first") as raised:
        loader.load(file)
    assert raised.value.line == 3


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("sensor,datetime,count\nA,2019-11-01 17:00,many\n", 2, "'many' is not a whole number of people"),
        ("sensor,datetime,count\nA,2019-11-01 17:00,-1\n", 2, "'-1' is not a whole number of people"),
        ("sensor,datetime,count\n\nA,2019-11-01 27:00,1\n", 3, "the time '27:00' cannot be read"),
        ("sensor,datetime,count\nA,31.02.2019 17:00,1\n", 2, "the date '31.02.2019' cannot be read"),
        ("sensor,datetime,count\nA,2019-11-01 17:00\n", 2, "2 columns instead of 3"),
        ("sensor,datetime,count\n,2019-11-01 17:00,1\n", 2, "a row without a sensor"),
        ("\nwhere,datetime,count\nA,2019-11-01 17:00,1\n", 2, "no column for a sensor among where"),
        ("id,datetime,where\n1,2019-11-01 17:00,A\n", 2, "'A' is not a whole number of people"),
    ],
)
def test_an_error_names_the_file_and_the_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    file = tmp_path / "counts.csv"
    file.write_text(text)
    with pytest.raises(WrongFileError, match=re.escape(problem)) as raised:
        loader.load(file)
    assert (raised.value.file, raised.value.line) == (str(file), line)


def test_nothing_to_count_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    file.write_text("sensor,datetime,count\n")
    with pytest.raises(WrongFileError, match="it has no counts"):
        loader.load(file)
    with pytest.raises(WrongFileError, match="cannot be read"):
        loader.load(tmp_path / "missing.csv")


def test_a_seed_makes_the_same_crowd_and_everyone_has_left_before_the_next_day() -> None:
    reports = list(simulator.simulate(random.Random(7), days=2))
    assert reports == list(simulator.simulate(random.Random(7), days=2))
    assert reports != list(simulator.simulate(random.Random(8), days=2))
    assert len({truth.business_day(report.counted_at, AMSTERDAM) for report in reports}) == 2
    # Sensors miss people, so the empty mall seems not empty.
    assert all(truth.drift(reports, AMSTERDAM).values())
    assert {zone for zone, _ in truth.crowding(reports, AMSTERDAM, counter.CAPACITY)} == {*counter.CAPACITY}


@pytest.mark.parametrize("module", ["dates", "wide"])
def test_what_the_docstrings_show_is_so(module: str) -> None:
    failed, tried = doctest.testmod(stories.load("mall_counter", module))
    assert (failed, tried > 0) == (0, True)


@pytest.fixture(scope="module")
def reports() -> list[Any]:
    """Two business days in reports of a quarter of an hour; the night between them has an hour twice."""
    return list(simulator.simulate(random.Random(7), days=2, every=15))


def test_people_now_are_those_of_plain_python_in_every_gear(gearshift_run: Run, reports: list[Any]) -> None:
    results = gearshift_run(
        counter.app,
        counter.count_people,
        {"door-reports": reports},
        late=0.05,
        repeated=0.02,
        disorder=timedelta(hours=1),
    )
    expected = [
        counter.PeopleNow(zone, day, *numbers)
        for (zone, day), numbers in truth.people(reports, AMSTERDAM).items()
    ]
    results.assert_each(expected, key=("zone", "business_day"))
    assert results.gears == ("batch", "near-real-time", "real-time")
    assert len(expected) == 8


def test_a_zone_is_full_as_often_as_in_plain_python_in_every_gear(
    gearshift_run: Run, reports: list[Any]
) -> None:
    results = gearshift_run(
        counter.app,
        counter.watch_capacity,
        {"door-reports": reports},
        late=0.05,
        repeated=0.02,
        disorder=timedelta(hours=1),
    )
    expected = [
        counter.Crowding(zone, day, counter.CAPACITY[zone], *numbers)
        for (zone, day), numbers in truth.crowding(reports, AMSTERDAM, counter.CAPACITY).items()
    ]
    results.assert_each(expected, key=("zone", "business_day"))
    assert results.gears == ("batch", "near-real-time", "real-time")
    assert len(expected) >= 4


def test_the_guard_is_called_once_per_crossing(gearshift_deliver: Deliver) -> None:
    at = datetime(2025, 10, 25, 15, 30, tzinfo=UTC)
    first = counter.Crowding("food", at.date(), 500, 505, True, 1, at)
    later = dataclasses.replace(first, people=530)
    second = dataclasses.replace(first, crossings=2, full_since=at + timedelta(hours=2))
    delivered = gearshift_deliver(counter.app, counter.call_guard, [first, later, first, second, second])
    assert sorted(call.text for call in delivered.values) == [
        "food is full: 505 of 500 at 15:30 UTC",
        "food is full: 505 of 500 at 17:30 UTC",
    ]


def test_the_warehouse_keeps_every_report_once(gearshift_run: Run, reports: list[Any]) -> None:
    results = gearshift_run(counter.app, counter.keep_reports, {"door-reports": reports}, repeated=0.05)
    results.assert_each(reports)
    assert results.gears == ("batch", "near-real-time")
    assert all(len(results[gear]) == len(reports) for gear in results.gears)


def spring() -> list[Any]:
    """A night visitor of the cinema before and after the hour that the clock skips."""
    midnight = datetime(2026, 3, 28, 23, 0, tzinfo=UTC)
    return [
        DoorReport("late-exit", "cinema", "street", 2, 1, midnight + timedelta(minutes=30 * number))
        for number in range(8)
    ]


@pytest.mark.parametrize("night", ["autumn", "spring"])
def test_footfall_is_right_across_the_hour_that_comes_twice_and_the_one_that_is_missing(
    gearshift_run: Run, reports: list[Any], night: str
) -> None:
    those = reports if night == "autumn" else spring()
    results = gearshift_run(counter.app, counter.sum_footfall, {"door_reports": those})
    expected = [
        {"zone": zone, "hour": hour, "entered": entered, "left": left}
        for (zone, hour), (entered, left) in truth.footfall(those, AMSTERDAM).items()
    ]
    results.assert_each(expected, key=("zone", "hour"))
    hours = {row["hour"] for row in expected if row["zone"] == "cinema"}
    if night == "autumn":
        assert {"2025-10-26T02:00+02:00", "2025-10-26T02:00+01:00"} <= hours
    else:
        assert hours == {
            f"2026-03-29T{hour}" for hour in ("00:00+01:00", "01:00+01:00", "03:00+02:00", "04:00+02:00")
        }


def test_the_drift_of_a_night_is_what_the_sensors_missed(gearshift_run: Run, reports: list[Any]) -> None:
    results = gearshift_run(counter.app, counter.close_day, {"door_reports": reports})
    expected = [
        {"zone": zone, "business_day": day, "drift": drift}
        for (zone, day), drift in truth.drift(reports, AMSTERDAM).items()
    ]
    results.assert_each(expected, key=("zone", "business_day"))
    assert len(expected) == 8


def test_the_demo_fills_its_boards_and_proves_that_nothing_was_lost(tmp_path: Path) -> None:
    told = tell("mall_counter", tmp_path, seconds=20)
    for gears in ("real-time → near-real-time", "near-real-time → real-time"):
        assert f"count_people: {gears}" in told.output
    [(kept, distinct)] = told.ask("select count(*), count(distinct (door, counted_at)) from door_reports")
    assert kept == distinct > 1000
    [(more, less)] = told.ask("select count(*), count(distinct (zone, hour)) from footfall")
    assert more == less
    # Which hours pass in the demo, and who came in them, depends on the machine.
    [(zones, strangers)] = told.ask(
        "select count(distinct zone), count(*) filter (zone not in (select zone from door_reports)) from footfall"
    )
    assert (zones > 0, strangers) == (True, 0)
