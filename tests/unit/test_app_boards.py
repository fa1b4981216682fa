"""What a user may declare on a board, and what is refused where it is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import gearshift as gs
from gearshift.boards import parts_of
from gearshift.errors import DefinitionError


@dataclass
class Alert:
    meter_id: str
    load_kw: float


def declared() -> tuple[gs.App, gs.Topic, gs.Table]:
    app = gs.App("smart-meter")
    return app, app.topic("load-alerts", value=Alert, key="meter_id"), app.table("monthly_bills")


def test_a_board_is_declared_in_one_call_and_part_of_the_graph() -> None:
    app, alerts, bills = declared()
    board = app.board(
        "meter-alerts",
        gs.Number(alerts, title="alerts today", today=True),
        gs.Feed(alerts, text="{meter_id}: {load_kw} kW", level="warning"),
        gs.Leaderboard(bills, by="amount", label="meter_id"),
    )
    assert app.graph.boards == {"meter-alerts": board}
    assert board.title == "Meter alerts"
    assert list(board.by_name) == ["number-1", "feed-2", "leaderboard-3"]
    assert board.defined_at.file.endswith("test_app_boards.py")


Declare = Callable[[gs.Topic, gs.Table], Any]


@pytest.mark.parametrize(
    ("panel", "what", "hint"),
    [
        (lambda t, _: gs.Leaderboard(t, by="load_kv", label="meter_id"),
         "Leaderboard has by, but Alert of topic load-alerts has no field 'load_kv'", "did you mean 'load_kw'"),
        (lambda t, _: gs.Number(t, where={"meter": "m1"}), "has no field 'meter'", "did you mean 'meter_id'"),
        (lambda t, _: gs.Feed(t, text="{meter_id} {owner}"), "has no field 'owner'", "meter_id, load_kw"),
        (lambda t, _: gs.Feed(t, text="{meter_id.__class__}"), "is not just a field", "in braces"),
        (lambda t, _: gs.Feed(t, text="{load_kw:>10}"), "is not just a field", "in braces"),
        (lambda t, _: gs.Feed(t, text="{load_kw!r}"), "is not just a field", "in braces"),
        (lambda t, _: gs.Feed(t, text="{0}"), "is not just a field", "in braces"),
        (lambda t, _: gs.Feed(t, text="{load_kw"), "expected '}'", "in braces"),
        (lambda t, _: gs.Feed(t, text="x", level="loud"), "has level='loud'", "'info'"),  # pyright: ignore[reportArgumentType]
        (lambda t, _: gs.Series(t, value="load_kw", step="soon"), "step", "a number and a unit"),
        (lambda t, _: gs.Series(t, how="mean"), "has how='mean' and no value", "value="),
        (lambda t, _: gs.Number(t, value="load_kw", how="median"), "has how='median'", "'mean'"),  # pyright: ignore[reportArgumentType]
        (lambda t, _: gs.TableView(t, columns="meter_id"), "has columns='meter_id'", "tuple"),  # pyright: ignore[reportArgumentType]
        (lambda t, _: gs.TableView(t, columns=("meter_id",), top=0), "has top=0", "1 to 500"),
        (lambda t, _: gs.TableView(t, columns=("meter_id",), key="meter"), "key='meter'", "did you mean"),
        (lambda t, _: gs.Zones(t, name="meter_id", value="load_kw", capacity="room"), "'room'", "use one of"),
        (lambda t, _: gs.Candles(t, at="load_kw"), "has no field 'open'", "use one of"),
        (lambda _, t: gs.Feed(t, text="{amount}"), "of table monthly_bills has no time", "at="),
        (lambda _, t: gs.Series(t, value="amount"), "of table monthly_bills has no time", "at="),
        (lambda _, t: gs.Number(t, value="amount"), "has how=latest", "how='sum'"),
        (lambda _, t: gs.Number(t, today=True), "has today", "how='sum'"),
        (lambda _, t: gs.Number(t, where={"month": ["may"]}), "has where=", "text, a number"),  # pyright: ignore[reportArgumentType]
        (lambda _, __: gs.Number("load-alerts"), "which this app does not declare", "app.topic"),  # pyright: ignore[reportArgumentType]
        (lambda _, __: "alerts", "has the panel 'alerts'", "gs.Number"),
        (lambda _, __: gs.Panel(declared()[1]), "has the panel", "gs.Number"),
    ],
)  # fmt: skip
def test_a_panel_that_cannot_be_shown_is_refused_at_its_line(panel: Declare, what: str, hint: str) -> None:
    app, alerts, bills = declared()
    with pytest.raises(DefinitionError) as caught:
        app.board("meters", panel(alerts, bills))
    assert what in caught.value.what
    assert hint in (caught.value.hint or "")
    assert (caught.value.file or "").endswith("test_app_boards.py")
    assert caught.value.line


def test_another_apps_topic_and_captured_changes_are_refused() -> None:
    app = declared()[0]
    with pytest.raises(DefinitionError, match="'load-alerts', which this app does not declare"):
        app.board("meters", gs.Number(declared()[1]))
    changes = app.cdc("db", tables={"public.meters": Alert}).topics["public.meters"]
    with pytest.raises(DefinitionError, match="shows the changes of topic"):
        app.board("meters", gs.Number(changes))


def test_a_board_needs_a_name_of_its_own_and_panels() -> None:
    app, alerts, _ = declared()
    with pytest.raises(DefinitionError, match="has 0 panels"):
        app.board("meters")
    app.board("meters", gs.Number(alerts))
    with pytest.raises(DefinitionError, match="board meters is declared twice"):
        app.board("meters", gs.Number(alerts))
    with pytest.raises(DefinitionError, match="invalid board name"):
        app.board("my meters", gs.Number(alerts))


def test_braces_are_written_twice_in_a_feeds_text() -> None:
    assert parts_of("{{{load_kw}}}") == [("{", None), ("", "load_kw"), ("}", None)]
