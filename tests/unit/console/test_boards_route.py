"""Boards on tables through the console's API; those on topics are in tests/console."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import gearshift as gs
from gearshift import tables
from gearshift.console.boards.describing import boards_of
from tests.arrow_frames import ArrowFrame, declared
from tests.consoles import FakeRun, open_console
from tests.support import eventually


def shop() -> gs.App:
    app = gs.App("shop")
    totals = app.table("totals")
    app.board(
        "sales",
        gs.Leaderboard(totals, by="sold", label="item", top=2),
        gs.Number(totals, value="sold", how="sum", title="sold"),
        title="Sales today",
    )
    app.board("broken", gs.Number(app.table("nowhere")), gs.Leaderboard(totals, by="amount", label="item"))
    return app


class Warehouse:
    """The table that the boards show."""

    def __init__(self, folder: Path) -> None:
        self.uri = (folder / "warehouse").as_uri()

    def write(self, *rows: tuple[str, int]) -> None:
        frame = ArrowFrame({"item": "string", "sold": "long"}, list(rows))
        tables.overwrite(declared("totals"), tables.table_uri(self.uri, "totals"), frame)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    made = Warehouse(tmp_path)
    made.write(("pen", 3), ("ink", 5), ("cap", 4))
    return made


def readers() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("board ")]


def test_boards_are_listed_with_their_panels(tmp_path: Path) -> None:
    with open_console(tmp_path, FakeRun(shop())) as client:
        assert client.get("/api/boards").data[0] == {
            "name": "sales",
            "title": "Sales today",
            "panels": [
                {"name": "leaderboard-1", "title": "totals", "kind": "leaderboard"},
                {"name": "number-2", "title": "sold", "kind": "number"},
            ],
        }
    assert boards_of(shop().graph)[0] == {"name": "sales", "title": "Sales today"}


def test_a_page_gets_all_panels_then_only_those_that_changed(tmp_path: Path, warehouse: Warehouse) -> None:
    with (
        open_console(tmp_path, FakeRun(shop()), warehouse=warehouse.uri) as client,
        client.events("/api/boards/sales/events") as events,
    ):
        shown: dict[str, Any] = {}
        while len(shown) < 2:
            name, event = next(events)
            assert name == "panels"
            shown |= event["panels"]
        assert shown["leaderboard-1"]["rows"] == [[1, "ink", 5], [2, "cap", 4]]
        assert shown["number-2"] == {"value": 12, "unit": ""}
        warehouse.write(("pen", 3), ("ink", 5), ("cap", 4), ("hat", 1))
        assert next(events)[1]["panels"] == {"number-2": {"value": 13, "unit": ""}}
        warehouse.write(("pen", 30), ("ink", 5), ("cap", 4))
        found: dict[str, Any] = {}
        while "leaderboard-1" not in found:
            found |= next(events)[1]["panels"]
        assert found["leaderboard-1"]["rows"][0] == [1, "pen", 30]


def test_all_pages_of_a_board_share_one_reader_which_ends_with_the_last_page(
    tmp_path: Path, warehouse: Warehouse
) -> None:
    with open_console(tmp_path, FakeRun(shop()), warehouse=warehouse.uri) as client:
        with client.events("/api/boards/sales/events") as first:
            next(first)
            with client.events("/api/boards/sales/events") as second:
                next(second)
                assert readers() == ["board sales"]
            warehouse.write(("pen", 1))
            next(first)
            assert readers() == ["board sales"]
        eventually(lambda: not readers())


def test_a_reader_ends_with_the_server(tmp_path: Path, warehouse: Warehouse) -> None:
    with open_console(tmp_path, FakeRun(shop()), warehouse=warehouse.uri) as client:
        stream = client.events("/api/boards/sales/events")
        next(stream.__enter__())
        assert readers() == ["board sales"]
    eventually(lambda: not readers())
    stream.__exit__(None, None, None)


def test_a_panel_that_cannot_be_read_says_why_and_the_others_go_on(
    tmp_path: Path, warehouse: Warehouse
) -> None:
    with (
        open_console(tmp_path, FakeRun(shop()), warehouse=warehouse.uri) as client,
        client.events("/api/boards/broken/events") as events,
    ):
        shown: dict[str, Any] = {}
        while len(shown) < 2:
            shown |= next(events)[1]["panels"]
    assert shown["number-1"]["error"]["kind"] == "TableMissingError"
    assert "amount" in shown["leaderboard-2"]["error"]["what"]


def test_an_unknown_board_and_a_console_without_app_are_404(tmp_path: Path) -> None:
    with open_console(tmp_path, FakeRun(shop())) as client:
        response = client.get("/api/boards/nothing/events")
        assert (response.status, response.error["hint"]) == (404, "use one of sales, broken")
    with open_console(tmp_path) as client:
        assert client.get("/api/boards").status == 404
        assert client.get("/api/boards/sales/events").status == 404
