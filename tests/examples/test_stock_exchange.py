"""The stock exchange: public tick files, the same bars in every gear and in plain Python, and the demo."""

from __future__ import annotations

import gzip
import zipfile
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from gearshift.errors import WrongFileError
from gearshift.freshness import Gear
from gearshift.testing import Run, Transform
from tests import stories
from tests.demos import tell

DATA = Path(__file__).parents[1] / "data" / "stock_exchange"
exchange = stories.load("stock_exchange", "stock_exchange")
loader = stories.load("stock_exchange", "loader")
simulator = stories.load("stock_exchange", "simulator")
truth = stories.load("stock_exchange", "truth")

EVERY_GEAR = (Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME)
BAR = ("symbol", "start")
AWKWARD = {"late": 0.05, "repeated": 0.02, "disorder": timedelta(minutes=2), "event_time": "at"}
MORNING = list(simulator.simulate(until=simulator.OPENS + timedelta(minutes=7)))


@pytest.mark.parametrize(
    ("file", "ticks"),
    [
        (  # a trade that LEAN marks as suspicious is left out
            "20131007_aapl_trade_tick.csv",
            [
                ("AAPL", "181.45", "100", "2013-10-07T13:30:00+00:00"),
                ("AAPL", "181.46", "37", "2013-10-07T13:30:00+00:00"),
                ("AAPL", "181.39", "200", "2013-10-07T13:30:01.003000+00:00"),
                ("AAPL", "181.5075", "1", "2013-10-07T13:31:02.250000+00:00"),
            ],
        ),
        (  # the second quote has one side, the third none
            "20131007_aapl_quote_tick.csv",
            [
                ("AAPL", "181.45", "0", "2013-10-07T13:30:00+00:00"),
                ("AAPL", "181.47", "0", "2013-10-07T13:30:00.120000+00:00"),
                ("AAPL", "181.5025", "0", "2013-10-07T13:31:01+00:00"),
            ],
        ),
        (  # currencies have decimals, and UTC's midnight
            "20140501_eurusd_quote_tick.csv",
            [
                ("EURUSD", "1.354685", "0", "2014-05-01T02:00:00+00:00"),
                ("EURUSD", "1.354685", "0", "2014-05-01T02:00:00.250000+00:00"),
                ("EURUSD", "1.354755", "0", "2014-05-01T02:01:00+00:00"),
            ],
        ),
        (
            "DAT_ASCII_EURUSD_T_201202.csv",
            [
                ("EURUSD", "1.306685", "0", "2012-02-01T05:00:03.660000+00:00"),
                ("EURUSD", "1.306695", "0", "2012-02-01T05:00:03.973000+00:00"),
                ("EURUSD", "1.3066", "0", "2012-02-01T05:01:04+00:00"),
            ],
        ),
        (
            "EURUSD_Ticks_01.07.2024.csv",
            [
                ("EURUSD", "1.07149", "0", "2024-07-01T00:00:00.123000+00:00"),
                ("EURUSD", "1.071505", "0", "2024-07-01T00:00:01.004000+00:00"),
            ],
        ),
        (
            "BTCUSDT-trades-2024-05-01.csv",
            [
                ("BTCUSDT", "60672", "0.00042", "2024-05-01T00:00:00.001000+00:00"),
                ("BTCUSDT", "60672.01", "0.01", "2024-05-01T00:00:00.001000+00:00"),
                ("BTCUSDT", "60671.99", "0.5", "2024-05-01T00:00:00.754000+00:00"),
            ],
        ),
        (
            "taq.csv",
            [
                ("IBM", "162.83", "100", "2024-01-02T09:30:00.123456+00:00"),
                ("IBM", "162.8", "5", "2024-01-02T09:30:01.500000+00:00"),
            ],
        ),
        (
            "trades.csv",
            [
                ("ACME", "182.35", "100", "2024-05-03T13:30:00.123456+00:00"),
                ("GLOBEX", "41.0725", "0.25", "2024-05-03T13:30:00.123456+00:00"),
                ("ACME", "182.36", "3", "2024-05-03T13:30:01.500000+00:00"),
            ],
        ),
        (  # milliseconds since midnight next to their date
            "thetadata.csv",
            [
                ("AAPL", "149.2", "0", "2024-07-01T04:15:00+00:00"),
                ("AAPL", "149.4", "0", "2024-07-01T13:30:00.250000+00:00"),
            ],
        ),
        (  # hours, minutes, seconds and milliseconds next to their date
            "clocks.csv",
            [
                ("X", "10.6", "0", "2024-01-02T12:30:00.123000+00:00"),
                ("X", "10.7", "0", "2024-01-02T12:30:01+00:00"),
            ],
        ),
        ("xetra.csv", [("SAP", "1139.12", "100", "2024-01-02T09:00:00.123000+00:00")]),
    ],
)
def test_public_tick_files_are_read_as_they_are(file: str, ticks: list[tuple[str, str, str, str]]) -> None:
    assert [
        (tick.symbol, tick.price, tick.size, tick.at.isoformat()) for tick in loader.load(DATA / file)
    ] == [(symbol, Decimal(price), Decimal(size), at) for symbol, price, size, at in ticks]


def test_archives_and_folders_are_read_like_the_files_in_them(tmp_path: Path) -> None:
    trades = DATA / "20131007_aapl_trade_tick.csv"
    folder = tmp_path / "equity" / "usa" / "tick" / "aapl"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "20131007_trade.zip", "w") as archive:
        archive.write(trades, "20131007_aapl_Trade_Tick.csv")
        archive.writestr("__MACOSX/._20131007_aapl_Trade_Tick.csv", b"\0\xff")
    (folder / "._20131007_trade.csv").write_bytes(b"\0\xff")
    assert loader.load(folder / "20131007_trade.zip") == loader.load(trades)
    (folder / "20131008_trade.csv.gz").write_bytes(gzip.compress(b"34200000,1800000,5,Q,@,0\n"))
    both = loader.load(tmp_path)
    assert [tick.sequence for tick in both] == [1, 2, 4, 5, 6]
    # The symbol is that of the folder, and the breaker's reference is the first price of each day.
    assert (both[-1].symbol, both[-1].price, both[-1].reference) == ("AAPL", Decimal(180), Decimal(180))
    assert {tick.reference for tick in both[:-1]} == {Decimal("181.45")}


def test_times_of_day_take_the_date_from_the_name_and_sub_dollar_prices_the_scale_of_the_path(
    tmp_path: Path,
) -> None:
    file = tmp_path / "2024-03-11_penny.csv"
    file.write_text("Time;Price;Size\n09:30:00,5;0,4125;10\n")
    [tick] = loader.load(file)
    assert (tick.symbol, tick.price) == ("PENNY", Decimal("0.4125"))
    assert tick.at.isoformat() == "2024-03-11T13:30:00.500000+00:00"
    lean = tmp_path / "20131007_zzz_trade_tick.csv"
    lean.write_text("34200000,4125,100,Q,@,0\n")
    assert loader.load(lean)[0].price == Decimal("0.4125")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "20131007_aapl_trade_tick.csv",
            "34200000,1814500,100\n\n34200001,abc,5\n",
            r"'abc' is not a number .*csv:3",
        ),
        (
            "20131007_aapl_trade_tick.csv",
            "34200000,1814500,100\n34200001\n",
            r"has 1 columns, .* needed .*csv:2",
        ),
        (
            "20131007_aapl_trade_tick.csv",
            "34200000,1814500,1\n34200001,0,1\n",
            r"'0' is not positive .*csv:2",
        ),
        ("aapl_trade.csv", "34200000,1814500,100\n", r"no date for its times since midnight .*csv:1"),
        (
            "t.csv",
            "time,symbol,price\n2024-05-03 09:30:00,A,1\n2024-13-03 09:30:00,A,1\n",
            r"is not a time.*csv:3",
        ),
        ("t.csv", "time,symbol,price\n2024-05-03 09:30:00,,1\n", r"the line has no symbol .*csv:2"),
        ("t.csv", "when,symbol,price\n", r"no column time; it has when, symbol, price .*csv:1"),
        ("t.csv", "time,symbol\n", r"no column price, and no bid and ask.*csv:1"),
        ("t.csv", "Gmt time,Open,High,Low,Close,Volume\n", r"has bars, not ticks .*csv:1"),
        ("t.csv", "20120201 000000;1.3066;1.3067;1.3065;1.3066;0\n", r"has bars, not ticks .*csv:1"),
        ("t.csv", 'time,price\n2024-05-03 09:30:00,"1\n', r"not valid CSV.*csv:2"),
        ("t.csv", "time,price\n", r"it has no ticks .*t\.csv"),
        ("t.zip", "this is no archive", r"cannot be unpacked.*t\.zip"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(WrongFileError, match=message) as refused:
        loader.load(tmp_path / name)
    assert refused.value.hint


def test_a_file_that_is_not_utf_8_is_refused_and_a_missing_one_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"time,price\n2024-05-03 09:30:00,1\n\xff\xfe\x00\n")
    with pytest.raises(WrongFileError, match=r"not UTF-8.*t\.csv:3"):
        loader.load(tmp_path / "t.csv")
    with pytest.raises(WrongFileError, match="does not exist"):
        loader.load(tmp_path / "other.csv")


def test_the_simulated_day_is_the_same_for_a_seed_and_as_awkward_as_real_feeds() -> None:
    again = list(simulator.simulate(until=simulator.OPENS + timedelta(minutes=7)))
    assert again == MORNING
    assert list(simulator.simulate(8, until=simulator.OPENS + timedelta(minutes=7))) != MORNING
    in_one_instant = [(one, other) for one, other in pairwise(MORNING) if one.at == other.at]
    assert any(one.symbol == other.symbol and one.price != other.price for one, other in in_one_instant)
    assert {tick.symbol for tick in MORNING} == set(simulator.SYMBOLS)
    assert truth.halts(MORNING) == {("CRASHY", date(2024, 3, 11))}


def test_minute_bars_are_the_same_in_every_gear_and_in_plain_python(gearshift_run: Run) -> None:
    results = gearshift_run(exchange.app, exchange.minute_bars_live, {"ticks": MORNING}, **AWKWARD)
    results.assert_each(truth.bars(MORNING, timedelta(minutes=1)).values(), key=BAR)
    assert results.gears == EVERY_GEAR


def test_second_bars_are_the_same_in_every_gear_and_in_plain_python(gearshift_run: Run) -> None:
    ticks = MORNING[:400]
    results = gearshift_run(exchange.app, exchange.second_bars_live, {"ticks": ticks}, **AWKWARD)
    results.assert_each(truth.bars(ticks, timedelta(seconds=1)).values(), key=BAR)
    assert results.gears == EVERY_GEAR


def test_the_breaker_trips_at_the_same_prices_in_every_gear_and_in_plain_python(gearshift_run: Run) -> None:
    results = gearshift_run(exchange.app, exchange.circuit_breaker, {"ticks": MORNING}, **AWKWARD)
    results.assert_each(truth.trips(MORNING).values(), key=("symbol", "sequence"))
    assert results.gears == EVERY_GEAR


def test_a_batch_over_the_stored_ticks_settles_the_same_bars(gearshift_run: Run) -> None:
    stored = gearshift_run(
        exchange.app, exchange.keep_ticks, {"ticks": MORNING}, gears=[Gear.NEAR_REAL_TIME], **AWKWARD
    )
    rows = stored[Gear.NEAR_REAL_TIME]
    assert len(rows) == len(MORNING)
    settled = gearshift_run(exchange.app, exchange.settle_minute_bars, {"ticks": rows})
    settled.assert_each(truth.bars(MORNING, timedelta(minutes=1)).values(), key=BAR)


def test_bars_of_quotes_have_no_volume_and_no_vwap(gearshift_transform: Transform) -> None:
    quotes = loader.load(DATA / "DAT_ASCII_EURUSD_T_201202.csv")
    bars = gearshift_transform(exchange.app, exchange.minute_bars_live, {"ticks": quotes})
    assert [(bar.volume, bar.vwap) for bar in bars] == [(0, None)] * 2
    assert {(bar.symbol, bar.start): vars(bar) for bar in bars} == truth.bars(quotes, timedelta(minutes=1))


def test_the_demo_halts_a_symbol_once_and_settles_the_bars_of_real_time(tmp_path: Path) -> None:
    told = tell("stock_exchange", tmp_path)
    assert "minute_bars_live: real-time → near-real-time" in told.output
    assert "minute_bars_live: near-real-time → real-time" in told.output
    assert "delivery halt_trading: 1 delivered" in told.output
    [(equal, different)] = told.ask(
        """SELECT count(*) FILTER (l.ticks = s.ticks AND l.vwap IS NOT DISTINCT FROM s.vwap),
                  count(*) FILTER (l.ticks = s.ticks AND (l.open, l.high, l.low, l.close, l.volume, l.turnover, l.vwap)
                                   IS DISTINCT FROM (s.open, s.high, s.low, s.close, s.volume, s.turnover, s.vwap))
           FROM live_minute_bars l JOIN settled_minute_bars s USING (symbol, start)"""
    )
    assert different == 0
    assert equal > 20
