"""The electricity bill: meter files as they are, and every number equal to plain Python's in every gear."""

from __future__ import annotations

import dataclasses
import doctest
import gzip
import re
import zipfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from gearshift.errors import WrongFileError
from tests import stories
from tests.demos import tell

if TYPE_CHECKING:
    from gearshift.testing import Run

DATA = Path(__file__).parents[1] / "data" / "electricity_bill"

bill = stories.load("electricity_bill", "electricity_bill")
loader = stories.load("electricity_bill", "loader")
simulator = stories.load("electricity_bill", "simulator")
truth = stories.load("electricity_bill", "truth")
reading = stories.load("electricity_bill", "reading")


def read(path: Path, **options: Any) -> list[tuple[str, str, str | None]]:
    """The readings of a file: meter, time in UTC, kWh."""
    return [
        (
            value.meter_id,
            f"{value.read_at:%Y-%m-%d %H:%M:%S}",
            None if value.kwh is None else f"{value.kwh.normalize():f}",
        )
        for value in loader.load(path, **options)
    ]


def test_the_london_file_is_read_with_its_nulls_duplicates_and_readings_off_the_grid() -> None:
    assert read(DATA / "london.csv") == [
        ("MAC000002", "2012-10-12 00:30:00", "0.143"),
        ("MAC000003", "2012-10-12 00:30:00", "1.024"),
        ("MAC000002", "2012-10-12 01:00:00", "0.2610001"),
        ("MAC000002", "2012-10-12 01:00:00", "0.2610001"),
        ("MAC000002", "2012-10-12 01:30:00", "0"),
        ("MAC000002", "2012-10-12 02:00:40", "0.088"),
        ("MAC000002", "2012-10-12 02:13:41", None),
        ("MAC000003", "2012-10-31 23:30:00", "0.511"),
        ("MAC000003", "2012-11-01 00:00:00", "0.25"),
    ]
    assert {value.tariff for value in loader.load(DATA / "london.csv")} == {"Std", "ToU"}


def test_the_hour_that_comes_twice_is_two_hours_in_a_german_file() -> None:
    assert read(DATA / "berlin.csv") == [
        ("B-1", "2024-10-26 21:30:00", "0.5"),
        ("B-1", "2024-10-27 00:00:00", "0.1"),
        ("B-1", "2024-10-27 00:30:00", "0.2"),
        ("B-1", "2024-10-27 01:00:00", "0.3"),
        ("B-1", "2024-10-27 01:30:00", "0.4"),
        ("B-1", "2024-10-27 23:00:00", None),
    ]


def test_german_quarter_hours_become_half_hours_of_a_day_that_has_46() -> None:
    found = loader.load(DATA / "lastgang.csv")
    assert len(found) == 46
    assert {(value.meter_id, value.zone) for value in found} == {("lastgang", "Europe/Berlin")}
    assert found[0].read_at == datetime(2024, 3, 30, 23, tzinfo=UTC)
    assert found[0].kwh == Decimal("0.201")  # 0,100 + 0,101
    lines = (DATA / "lastgang.csv").read_text().splitlines()[2:]
    assert sum(value.kwh for value in found) == sum(
        Decimal(line.partition(";")[2].replace(",", ".")) for line in lines
    )


def test_a_half_hour_that_lacks_a_quarter_is_null(tmp_path: Path) -> None:
    file = tmp_path / "meter.csv"
    quarters = [f"2024-01-01T{hour:02}:{minute:02}:00Z" for hour in range(3) for minute in (0, 15, 30, 45)]
    file.write_text(
        "time,kwh\n" + "".join(f"{quarter},0.25\n" for quarter in quarters if quarter != quarters[3])
    )
    assert [value.kwh for value in loader.load(file)] == [Decimal("0.5"), None, *[Decimal("0.5")] * 4]


def test_readings_of_an_hour_are_refused_because_half_of_each_bill_would_be_an_estimate(
    tmp_path: Path,
) -> None:
    file = tmp_path / "meter.csv"
    file.write_text("time,kwh\n" + "".join(f"2024-01-01 {hour:02}:00,1.0\n" for hour in range(9)))
    with pytest.raises(WrongFileError, match="the readings of meter meter are 60 minutes apart") as raised:
        loader.load(file)
    assert (raised.value.file, raised.value.line) == (str(file), 2)


def test_a_line_may_hold_a_day_of_48_half_hours() -> None:
    found = loader.load(DATA / "block_0.csv")
    assert len(found) == 96
    assert found[0].read_at == datetime(2012, 10, 13, tzinfo=UTC)
    assert [value.kwh for value in found[:3]] == [Decimal("0.100"), Decimal("0.101"), Decimal("0.102")]
    assert [value.read_at.hour for value in found if value.kwh is None] == [2, 3]


def test_columns_may_be_named_by_the_end_of_their_half_hour_after_a_line_of_notes() -> None:
    found = loader.load(DATA / "solar_homes.csv", zone="Australia/Sydney")
    assert [value.kwh for value in found[48:51]] == [Decimal(0), Decimal("0.001"), Decimal("0.002")]
    assert (
        found[48].read_at.astimezone(ZoneInfo("Australia/Sydney")).isoformat() == "2010-10-06T00:00:00+11:00"
    )


def test_numbered_half_hours_are_those_that_pass_on_a_day_whose_clocks_change() -> None:
    found = loader.load(DATA / "half_hourly.csv", zone="Europe/London")
    days = [value.read_at.astimezone(ZoneInfo("Europe/London")).date() for value in found if value.kwh]
    assert [days.count(day) for day in sorted(set(days))] == [48, 46, 50]
    with pytest.raises(WrongFileError, match="has energy at a time that did not exist in UTC") as raised:
        loader.load(DATA / "half_hourly.csv")  # UTC has no day of 50 half hours
    assert raised.value.line == 4


def test_a_customers_own_export_has_offsets_and_no_meter() -> None:
    assert read(DATA / "octopus.csv")[:3] == [
        ("octopus", "2023-03-26 00:00:00", "0.111"),
        ("octopus", "2023-03-26 00:30:00", "0.112"),
        ("octopus", "2023-03-26 01:00:00", "0.113"),
    ]


def test_energy_is_found_by_its_unit_in_any_language_and_other_units_are_refused(tmp_path: Path) -> None:
    assert read(DATA / "energieverbruik.csv", zone="Europe/Amsterdam") == [
        ("8716", "2024-03-30 23:00:00", "0.12"),
        ("8716", "2024-03-30 23:30:00", "1012.5"),
    ]
    for header in ("meter,time,consumption_wh", "meter,time,power (W)"):
        (tmp_path / "readings.csv").write_text(f"{header}\nA,2024-01-01 00:00,250\n")
        with pytest.raises(WrongFileError, match=r"no column kwh; .*readings\.csv:1"):
            loader.load(tmp_path / "readings.csv")


def test_london_files_that_were_joined_repeat_their_header() -> None:
    assert read(DATA / "joined.csv") == [
        ("MAC000018", "2012-12-07 09:30:00", "0.057"),
        ("MAC000018", "2012-12-13 10:00:00", "0.066"),
        ("MAC000019", "2012-12-13 10:00:00", None),
    ]


def test_archives_and_folders_are_read(tmp_path: Path) -> None:
    plain = loader.load(DATA / "london.csv")
    with zipfile.ZipFile(tmp_path / "files.zip", "w") as archive:
        archive.write(DATA / "london.csv", "small/LCL-June2015v2_0.csv")
        archive.writestr("__MACOSX/small/._LCL-June2015v2_0.csv", b"\0\xff")
    assert loader.load(tmp_path / "files.zip") == plain
    with gzip.open(tmp_path / "london.csv.gz", "wb") as packed:
        packed.write((DATA / "london.csv").read_bytes())
    assert loader.load(tmp_path / "london.csv.gz") == plain
    (tmp_path / "._london.csv").write_bytes(b"\0\xff")
    assert len(loader.load(tmp_path)) == 2 * len(plain)


@pytest.mark.parametrize(
    "written",
    ["2024-02-03 00:30", "03/02/2024 00:30", "03.02.2024 00:30", "2024-02-03T00:30:00.0000000Z", "3 Feb 2024 00:30",
     "03-Feb-24 00:30", "2024-02-03T01:30:00+01:00", "03/02/2024 12:30 AM", "20240203 0030", "02.02.2024 24:30"],
)  # fmt: skip
def test_one_time_is_written_in_many_ways(tmp_path: Path, written: str) -> None:
    file = tmp_path / "meter.csv"
    # The last line proves that days come first.
    file.write_text(f"meter;time;kWh\nA;{written};0,1\nA;13/02/2024 00:00;0,2\n")
    if written.endswith("24:30"):
        with pytest.raises(WrongFileError, match="is not a time"):
            loader.load(file)
    else:
        assert loader.load(file)[0].read_at == datetime(2024, 2, 3, 0, 30, tzinfo=UTC)


def test_the_order_of_day_and_month_is_proven_by_the_whole_file_or_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "meter.csv"
    file.write_text("meter,time,kwh\nA,01/02/2024 00:00,1\nA,01/02/2024 00:30,1\n")
    with pytest.raises(WrongFileError, match="may be day-first or month-first, and no line") as raised:
        loader.load(file)
    assert (raised.value.file, raised.value.line) == (str(file), 2)
    assert loader.load(file, dates="month-first")[0].read_at.month == 1
    assert loader.load(file, dates="day-first")[0].read_at.month == 2
    file.write_text("meter,time,kwh\nA,01/02/2024 23:30,1\nA,01/03/2024 00:00,1\n")
    assert [value.read_at.day for value in loader.load(file)] == [2, 3]  # one day after the other
    file.write_text("meter,time,kwh\nA,01/02/2024 23:30,1\nA,01/13/2024 00:00,1\n")
    assert {value.read_at.month for value in loader.load(file)} == {1}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("meter,time,kwh\nA,2024-01-01 00:00,much\n", 2, "'much' is not a number of kWh"),
        ("meter,time,kwh\n\nA,2024-13-01 00:00,1\n", 3, "is not a time: month must be in 1..12"),
        ("meter,time,kwh\nA,noon,1\n", 2, "'noon' is not a time"),
        ("meter,time,kwh\nA,2024-01-01 00:00\n", 2, "the line has 2 columns, at least 3 are needed"),
        ("meter,time,kwh\n,2024-01-01 00:00,1\n", 2, "the line has no meter"),
        ("meter,tariff,time,kwh\nA,Eco,2024-01-01 00:00,1\n", 2, "unknown tariff 'Eco'"),
        ("meter,time,kwh,zone\nA,2024-01-01 00:00,1,Mars\n", 2, "unknown time zone 'Mars'"),
        ("meter,time,kwh\nA,2024-01-01 00:00,12345678\n", 2, "is out of range"),
        ("meter,when\nA,2024-01-01 00:00\n", 1, "the file has no column time, kwh"),
        ('meter,time,kwh\nA,"2024-01-01 00:00,1\n', 2, "the line is not valid CSV"),
        ("meter,time,kwh,zone\nA,2024-03-31 02:30,1,Europe/Berlin\n", 2, "at a time that did not exist in Europe/Berlin"),
        ("date," + ",".join(map(str, range(1, 25))) + "\n", 1, "a line has 24 readings of a day"),
    ],
)  # fmt: skip
def test_an_error_names_the_file_and_the_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    file = tmp_path / "readings.csv"
    file.write_text(text)
    with pytest.raises(WrongFileError, match=re.escape(problem)) as raised:
        loader.load(file)
    assert (raised.value.file, raised.value.line) == (str(file), line)


def test_a_file_without_readings_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "readings.csv"
    file.write_text("meter,time,kwh\n")
    with pytest.raises(WrongFileError, match="it has no readings"):
        loader.load(file)
    with pytest.raises(WrongFileError, match="it does not exist"):
        loader.load(tmp_path / "missing.csv")


@pytest.mark.parametrize("module", ["times", "sheets"])
def test_what_the_docstrings_show_is_so(module: str) -> None:
    failed, tried = doctest.testmod(stories.load("electricity_bill", module))
    assert (failed, tried > 0) == (0, True)


FIRST, LAST = date(2024, 3, 1), date(2024, 4, 30)


@pytest.fixture(scope="module")
def readings() -> list[Any]:
    """Two months of six customers: in one of them the clocks are put forward, in Sydney back."""
    return list(simulator.simulate(7, first=FIRST, last=LAST))


def test_a_seed_makes_the_same_readings_with_everything_that_is_wrong_with_them(readings: list[Any]) -> None:
    assert readings == list(simulator.simulate(7, first=FIRST, last=LAST))
    assert readings != list(simulator.simulate(8, first=FIRST, last=LAST))
    used = truth.usable(readings)
    assert any(value.kwh is None for value in readings)
    assert any(half_hour.off_grid for half_hour in used)  # a clock that is late
    assert len(used) < sum(value.kwh is not None for value in readings)  # between the half hours
    bills = truth.bills(readings)
    assert any(made["missing"] for made in bills.values())
    assert bills["MAC000003", "2024-03"]["days"] == 18  # who moved in on the 14th
    expected = {key: made["half_hours"] + made["missing"] for key, made in bills.items()}
    assert expected["BER000007", "2024-03"] == 31 * 48 - 2
    assert expected["SYD000017", "2024-04"] == 30 * 48 + 2
    assert expected["KTM000013", "2024-03"] == 31 * 48


def test_each_reading_finds_its_half_hour_in_every_gear(gearshift_run: Run, readings: list[Any]) -> None:
    some = readings[:3000]
    results = gearshift_run(
        bill.app,
        bill.clean_readings,
        {"raw-readings": some},
        late=0.05,
        repeated=0.02,
        disorder=timedelta(days=2),
    )
    expected = {(used.meter_id, used.begins_at): half_hour(used) for used in truth.usable(some)}
    results.assert_each(expected.values(), key=("meter_id", "begins_at"))
    assert results.gears == ("batch", "near-real-time", "real-time")


def half_hour(used: Any) -> Any:
    """What the pipeline makes of it."""
    return bill.HalfHour(
        used.meter_id,
        used.tariff,
        used.zone,
        used.begins_at,
        used.wall_time.replace(tzinfo=UTC),
        used.kwh,
        round(used.off_grid.total_seconds() * 1_000_000),
    )


def test_the_month_so_far_is_that_of_plain_python_in_every_gear(
    gearshift_run: Run, readings: list[Any]
) -> None:
    some = [each for each in readings if each.meter_id in ("KTM000013", "SYD000017")]
    results = gearshift_run(
        bill.app,
        bill.month_so_far,
        {"half-hours": [half_hour(used) for used in truth.usable(some)]},
        late=0.05,
        repeated=0.02,
        disorder=timedelta(days=2),
        event_time="begins_at",
    )
    expected = [bill.MonthSoFar(**made) for made in truth.months_so_far(some).values()]
    results.assert_each(expected, key=("meter_id", "month"))
    assert results.gears == ("batch", "near-real-time", "real-time")
    assert len(expected) == 4


def test_the_best_reading_of_a_half_hour_stays_whichever_comes_first(
    gearshift_run: Run, readings: list[Any]
) -> None:
    some = [half_hour(used) for used in truth.usable(readings[:1000])]
    off = [
        dataclasses.replace(each, off_grid=each.off_grid + 40_000_000, kwh=Decimal(9)) for each in some[::9]
    ]
    dearer = [dataclasses.replace(each, kwh=each.kwh + 1) for each in some[::7]]
    values = [*off[::2], *dearer[::2], *some, *off[1::2], *dearer[1::2]]
    results = gearshift_run(bill.app, bill.keep_half_hours, {"half-hours": values}, repeated=0.02)
    results.assert_each([dataclasses.asdict(each) for each in some], key=("meter_id", "begins_at"))
    assert results.gears == ("batch", "near-real-time")


def test_every_bill_is_that_of_plain_python_to_the_cent(gearshift_run: Run, readings: list[Any]) -> None:
    rows = [
        {**dataclasses.asdict(half_hour(used)), "nearness": 0, "saving": -used.kwh}
        for used in truth.best(readings).values()
    ]
    results = gearshift_run(bill.app, bill.monthly_bills, {"half_hours": rows})
    expected = list(truth.bills(readings).values())
    results.assert_each(expected, key=("meter_id", "month"))
    assert len(expected) == 12


def test_the_demo_fills_its_boards_and_proves_that_nothing_was_lost(tmp_path: Path) -> None:
    told = tell("electricity_bill", tmp_path, seconds=12)
    for gears in ("real-time → near-real-time", "near-real-time → real-time"):
        assert f"month_so_far: {gears}" in told.output
    [(kept, distinct)] = told.ask("select count(*), count(distinct (meter_id, begins_at)) from half_hours")
    assert kept == distinct > 1000
