"""What panels show of rows: the latest of each key, numbers, lines, places; always within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import gearshift as gs
from gearshift.boards import Panel
from gearshift.console.boards.states import MOST_KEYS, MOST_POINTS, state_of
from gearshift.console.boards.table_rows import query_of

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Event:
    name: str
    value: float
    group: str = "a"
    at: datetime | None = None


app = gs.App("panels")
events = app.topic("events", value=Event, key="name")
table = app.table("events")


def shown(panel: Panel, *rows: dict[str, Any], at: datetime | None = NOON) -> dict[str, Any]:
    state = state_of(panel, BERLIN)
    for row in rows:
        state.take(row, at)
    return state.data()


def row(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "value": value, **more}


def test_a_leaderboard_has_the_latest_value_of_each_key_and_shared_places() -> None:
    panel = gs.Leaderboard(events, by="value", label="name", top=3)
    found = shown(panel, row("x", 9), row("x", 1), row("y", 5), row("z", 5), row("w", None), row("v", 0))
    assert found == {"columns": ["place", "name", "value"], "rows": [[1, "y", 5], [1, "z", 5], [3, "x", 1]]}


def test_rows_that_no_longer_match_leave_the_board() -> None:
    panel = gs.TableView(events, columns=("name",), where={"value": 1})
    assert shown(panel, row("x", 1), row("y", 1), row("x", 2))["rows"] == [["y"]]


def test_only_the_newest_window_is_shown() -> None:
    panel = gs.Leaderboard(events, by="value", label="name", key=("name", "at"), newest="at")
    earlier, later = NOON, NOON + timedelta(minutes=1)
    found = shown(panel, row("x", 9, at=earlier), row("y", 1, at=later), row("z", 2, at=later))
    assert [each[1] for each in found["rows"]] == ["z", "y"]


def test_keys_are_bounded_and_the_ones_without_changes_make_room() -> None:
    panel = gs.Number(events, key="name")
    rows = [row(str(number), 1) for number in range(MOST_KEYS)]
    assert shown(panel, *rows, *rows, row("one more", 1))["value"] == MOST_KEYS


def test_numbers_count_sum_and_take_the_latest() -> None:
    rows = [row("x", 1.5), row("y", Decimal(2)), row("x", None), row("z", float("nan"))]
    assert shown(gs.Number(events), *rows) == {"value": 4, "unit": ""}
    assert shown(gs.Number(events, value="value", unit="kW"), *rows) == {"value": 2.0, "unit": "kW"}
    assert shown(gs.Number(events, value="value", how="sum"), *rows)["value"] == 3.5
    assert shown(gs.Number(events, value="value", how="mean"))["value"] is None
    assert shown(gs.Number(events, where={"name": "x"}), *rows)["value"] == 2
    assert (
        shown(gs.Number(events, value="value", how="sum"), row("x", 1e308), row("x", 1e308))["value"] is None
    )


def test_a_number_of_today_leaves_out_yesterday_in_the_apps_time_zone() -> None:
    midnight = datetime.now(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)
    state = state_of(gs.Number(events, today=True), BERLIN)
    for at in (midnight - timedelta(seconds=1), midnight, None):
        state.take(row("x", 1), at)
    assert state.data()["value"] == 1


def test_a_series_has_a_point_per_step_oldest_first_and_is_bounded() -> None:
    panel = gs.Series(events, value="value", at="at", step="1 minute")
    rows = [row("x", number, at=NOON + timedelta(seconds=30 * number)) for number in range(4)]
    assert shown(panel, *reversed(rows), row("x", 1, at=None), row("x", None, at=NOON)) == {
        "points": [
            {"at": "2026-03-01T12:00:00+00:00", "value": 0.5},
            {"at": "2026-03-01T12:01:00+00:00", "value": 2.5},
        ]
    }
    many = [row("x", 1, at=NOON + timedelta(minutes=number)) for number in range(MOST_POINTS + 50)]
    points = shown(panel, *many, many[0])["points"]
    assert (len(points), points[0]["at"]) == (MOST_POINTS, "2026-03-01T12:50:00+00:00")


def test_a_series_with_a_line_per_value_counts_records_and_has_ten_lines_at_most() -> None:
    panel = gs.Series(events, by="group")
    found = shown(panel, *(row("x", 1, group=f"g{number}") for number in range(12)), row("x", 1, group="g3"))
    assert list(found["lines"]) == [f"g{number}" for number in range(10)]
    assert found["lines"]["g3"] == [{"at": "2026-03-01T12:00:00+00:00", "value": 2}]


def test_a_feed_is_text_of_fields_newest_first() -> None:
    panel = gs.Feed(events, text="{name} at {at}: {value} {{kW}}", top=2, level="warning")
    found = shown(panel, row("x", 1), row("y", 2.0, at=NOON), row("z", Decimal("2.50"), at=None))
    assert found["items"] == [
        {"at": "2026-03-01T12:00:00+00:00", "text": "z at –: 2.50 {kW}", "level": "warning"},
        {"at": "2026-03-01T12:00:00+00:00", "text": "y at 2026-03-01 13:00:00: 2 {kW}", "level": "warning"},
    ]


def test_zones_have_a_capacity_from_a_field_a_mapping_or_one_number() -> None:
    rows = [row("food", 12, group=500), row("cinema", None, group=None)]
    for capacity, expected in (
        ("group", [None, 500]),
        ({"food": 7}, [None, 7]),
        (9, [9, 9]),
        (None, [None, None]),
    ):
        panel = gs.Zones(events, name="name", value="value", capacity=capacity)
        assert shown(panel, *rows)["zones"] == [
            {"name": "cinema", "value": None, "capacity": expected[0]},
            {"name": "food", "value": 12, "capacity": expected[1]},
        ]


def test_candles_are_the_latest_version_of_each_bar_in_the_order_of_time() -> None:
    panel = gs.Candles(events, at="at", open="o", high="h", low="l", close="c", volume="v", top=2)
    bars = [
        {"name": "A", "at": NOON + timedelta(minutes=n), "o": Decimal(1), "h": 2, "l": 1, "c": n, "v": 10}
        for n in (2, 0, 1, 2)
    ]
    bars[-1]["c"] = 7
    found = shown(panel, *bars)["bars"]
    assert [(bar["at"][14:16], bar["open"], bar["close"]) for bar in found] == [
        ("01", 1.0, 1),
        ("02", 1.0, 7),
    ]


def test_a_tables_query_reads_only_what_is_shown_and_quotes_names_and_values() -> None:
    newest = gs.Leaderboard(
        table, by="value", label='na"me', newest="at", where={"name": "O'Hara", "group": None}
    )
    assert query_of(newest) == (
        'SELECT "at", "value", "na""me" FROM "events" WHERE "name" = \'O\'\'Hara\' AND "group" IS NULL AND '
        '"at" = (SELECT max("at") FROM "events" WHERE "name" = \'O\'\'Hara\' AND "group" IS NULL) '
        'ORDER BY "value" DESC NULLS LAST LIMIT 10'
    )
    assert query_of(gs.Number(table, where={"is_open": True})) == (
        'SELECT count(*) FROM "events" WHERE "is_open" = true'
    )
    assert query_of(gs.Number(table, value="value", how="mean")) == 'SELECT avg("value") FROM "events"'
