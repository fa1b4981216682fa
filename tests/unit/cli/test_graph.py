"""`gearshift graph` shows what an app declares, as text and JSON, without starting anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GEARSHIFT = Path(sys.executable).with_name("gearshift")

APP = """
from dataclasses import dataclass
import gearshift as gs

print("a word on stdout while the file is imported")

@dataclass
class Order:
    id: int

app = gs.App("shop", timezone="Europe/Berlin")
orders = app.topic("orders", value=Order, key="id", partitions=2)
shop_db = app.cdc("shop-db", tables={"public.prices": Order})
kept = app.table("kept", partition_by="day")
daily = app.table("daily")
monthly = app.table("monthly", key="id")

@app.source(to=orders, rate=5)
def sell():
    yield Order(1)

@app.pipeline(source={"daily": daily, "so_far": monthly}, to=monthly, cron="@monthly")
def per_month(daily, so_far):
    return daily

@app.pipeline(source=orders, to=kept, freshness="1 minute")
def keep(orders):
    return orders

@app.pipeline(source=kept, to=daily, freshness="1 day", event_time="at", grace="1 hour")
def per_day(kept):
    return kept

@app.delivery(orders, to=gs.destinations.Sms(account="AC1", token="hush-hush", sender="+15005550006"))
def text(order: gs.Record[Order]):
    return None
"""


def graph(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [GEARSHIFT, "graph", "shop.py", *words], cwd=folder, capture_output=True, text=True, timeout=60
    )


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The graph of the app above, as JSON."""
    done = graph(tmp_path_factory.mktemp("shop"), APP, "-o", "json")
    assert done.returncode == 0, done.stderr
    assert "a word on stdout" in done.stderr
    return json.loads(done.stdout)


def test_every_declaration_is_told_with_its_file_and_line(described: dict[str, Any]) -> None:
    assert (described["app"], described["timezone"]) == ("shop", "Europe/Berlin")
    kinds = ("topics", "tables", "sources", "captures", "pipelines", "deliveries")
    names = {kind: [each["name"] for each in described[kind]] for kind in kinds}
    assert names == {
        "topics": ["shop-db.public.prices", "orders"],
        "tables": ["kept", "daily", "monthly"],
        "sources": ["sell"],
        "captures": ["shop-db"],
        "pipelines": ["per_month", "keep", "per_day"],
        "deliveries": ["text"],
    }
    lines = APP.splitlines()
    for kind in kinds:
        for each in described[kind]:
            assert each["file"] == "shop.py"
            assert lines[each["line"] - 1].startswith(
                ("@app.", f"{each['name']} = ", "orders = ", "shop_db = ")
            )


def test_a_batch_pipeline_says_its_calendar_and_whom_it_comes_after(described: dict[str, Any]) -> None:
    by_name = {each["name"]: each for each in described["pipelines"]}
    assert by_name["keep"]["calendar"] is None
    assert by_name["per_day"]["calendar"] == "1 day"
    assert by_name["per_month"]["calendar"] == "0 0 1 * *"
    assert by_name["per_month"]["intervals"] is None
    assert by_name["per_day"]["intervals"] == {
        "event_time": {"kept": "at"},
        "grace_seconds": 3600,
        "allowed_lateness_seconds": None,
        "since": None,
    }
    assert by_name["per_day"]["after"] == ["keep"]
    # It reads what it writes itself, and comes after the other one only.
    assert by_name["per_month"]["after"] == ["per_day"]
    assert by_name["per_month"]["sources"] == {"daily": {"table": "daily"}, "so_far": {"table": "monthly"}}


def test_a_destination_is_told_by_its_kind_and_no_secret(described: dict[str, Any]) -> None:
    assert described["deliveries"][0]["target"] == {"destination": "Sms"}
    assert "hush-hush" not in json.dumps(described)


def test_people_get_a_tree_that_reads_as_the_way_of_a_record(tmp_path: Path) -> None:
    done = graph(tmp_path, APP)
    assert done.returncode == 0, done.stderr
    lines = [line.strip("│├└─ ") for line in done.stdout.splitlines()]
    assert [line.split("  ")[0] for line in lines] == [
        "shop",
        "topic shop-db.public.prices",
        "topic orders",
        "keep",
        "table kept",
        "per_day",
        "table daily",
        "per_month with table monthly",
        "table monthly",
        "per_month with table daily",
        "table monthly, see above",
        "delivery text → Sms",
    ]
    assert "from source sell" in done.stdout and "from capture shop-db" in done.stdout


def test_a_file_without_an_app_and_a_missing_one_are_refused_in_words(tmp_path: Path) -> None:
    empty = graph(tmp_path, "x = 1\n", "-o", "json")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "no App in the file (shop.py)" in empty.stderr
    missing = subprocess.run(
        [GEARSHIFT, "graph", "nowhere.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert missing.returncode == 2
    assert "no such file (nowhere.py)" in missing.stderr
