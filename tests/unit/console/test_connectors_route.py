"""Connectors through the console's API: whose they are, and how they are paused, resumed and restarted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gearshift as gs
from gearshift.settings import load
from gearshift.sources.cdc.capture import Capture
from tests.consoles import NOWHERE, FakeRun, open_console
from tests.fake_connect import fake_connect
from tests.support import closed_port, eventually


@dataclass
class Order:
    id: int


def shop() -> gs.App:
    app = gs.App("shop")
    app.cdc("orders-db", tables={"public.orders": Order})
    return app


def running_shop() -> FakeRun:
    return FakeRun(shop(), captures=[{"name": "orders-db", "connector": "shop.orders-db"}])


def test_without_an_app_all_connectors_are_shown(tmp_path: Path) -> None:
    with (
        fake_connect(a="RUNNING", b="FAILED") as connect,
        open_console(tmp_path, connect_url=connect.url) as client,
    ):
        found = client.get("/api/connectors").data
    assert [(each["name"], each["state"], each["capture"]) for each in found] == [
        ("a", "running", None),
        ("b", "failed", None),
    ]
    assert found[0]["tasks"] == [{"number": 0, "state": "running", "cause": None}]
    assert found[0]["cause"] is None
    assert "connector b" in found[1]["cause"]


def test_with_an_app_only_its_own_connectors_are_shown_and_changed(tmp_path: Path) -> None:
    with fake_connect(**{"shop.orders-db": "RUNNING", "other": "RUNNING"}) as connect:
        with open_console(tmp_path, running_shop(), connect_url=connect.url) as client:
            [found] = client.get("/api/connectors").data
            assert (found["name"], found["capture"]) == ("shop.orders-db", "orders-db")
            refused = client.post("/api/connectors/other/pause")
            assert (refused.status, refused.error["kind"]) == (404, "ConnectError")
        assert connect.changes() == []


def test_a_connector_is_paused_resumed_and_restarted(tmp_path: Path) -> None:
    with fake_connect(a="RUNNING") as connect, open_console(tmp_path, connect_url=connect.url) as client:
        assert client.post("/api/connectors/a/pause").data == {"state": "paused"}
        assert client.post("/api/connectors/a/resume").data == {"state": "running"}
        assert client.post("/api/connectors/a/restart").data == {"state": "running"}
        assert client.post("/api/connectors/a/delete").status == 400
        for name in ("b", "..", "a%2Frestart", "%00"):
            assert client.post(f"/api/connectors/{name}/pause").status in (404, 405)
    assert [each.partition("?")[0] for each in connect.changes()] == [
        "PUT /connectors/a/pause",
        "PUT /connectors/a/resume",
        "POST /connectors/a/restart",
    ]


def test_without_connect_there_are_no_connectors(tmp_path: Path) -> None:
    with open_console(tmp_path) as client:
        assert client.get("/api/connectors").data == []
        assert client.post("/api/connectors/a/pause").status == 404
    with open_console(tmp_path, FakeRun(gs.App("shop")), connect_url="http://127.0.0.1:1") as client:
        assert client.get("/api/connectors").data == []


def test_a_connect_that_does_not_answer_is_reported_as_such(tmp_path: Path) -> None:
    with open_console(tmp_path, connect_url=f"http://127.0.0.1:{closed_port()}") as client:
        response = client.get("/api/connectors")
    assert (response.status, response.error["kind"]) == (503, "ConnectUnreachableError")


def test_a_paused_connector_with_a_failed_task_is_left_alone_by_its_capture(tmp_path: Path) -> None:
    with fake_connect(**{"shop.orders-db": "PAUSED"}) as connect:
        connect.tasks["shop.orders-db"] = "FAILED"
        settings = load(
            {"home": tmp_path, "connect_url": connect.url, "postgres": "postgresql://ann:b@127.0.0.1:1/shop"},
            folder=tmp_path,
            environ={},
        )
        capture = Capture(shop().graph.captures["orders-db"], settings, NOWHERE)
        capture._thread.start()  # pyright: ignore[reportPrivateUsage]
        try:
            eventually(lambda: len(connect.asked) >= 4)
            assert connect.changes() == []
            assert (capture.error, capture.restarts) == (None, 0)
        finally:
            capture.close()
