"""The warehouse as a person at a terminal sees it, and as Spark, a stream and another user do."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.topics.producer import Producer
from tests.arrow_frames import ArrowFrame, declared
from tests.command import GEARSHIFT
from tests.support import eventually

COLUMNS = {"id": "long", "day": "date", "price": "decimal(12,2)"}
ROWS = [(number, date(2026, 1, 1 + number % 3), f"{number}.50") for number in range(9)]
Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def bills(tmp_path: Path) -> str:
    """A table of three batches in a warehouse of its own."""
    uri = tables.table_uri((tmp_path / "warehouse").as_uri(), "bills")
    for batch_id in range(3):
        rows = [(n, day, Decimal(price)) for n, day, price in ROWS[batch_id * 3 : batch_id * 3 + 3]]
        tables.append(declared("bills", "day"), uri, ArrowFrame(COLUMNS, rows), writer="w", batch_id=batch_id)
    return uri


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """`gearshift table …` over that warehouse."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
    environ["GEARSHIFT_WAREHOUSE"] = (tmp_path / "warehouse").as_uri()

    def run(*words: str, verb: tuple[str, ...] = ("table",), **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [GEARSHIFT, *verb, *words],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **how,
        )

    return run


def data(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_person_lists_shows_and_asks_tables(bills: str, ask: Ask) -> None:
    (listed,) = data(ask("list", "-o", "json"))
    assert (listed["table"], listed["rows"], listed["files"], listed["version"]) == ("bills", 9, 9, 2)
    shown = data(ask("show", "bills", "-o", "json"))
    assert shown["columns"][2] == {"name": "price", "type": "decimal(12,2)"}
    assert shown["partition_by"] == ["day"]
    assert [change["batch"] for change in data(ask("history", "bills", "-o", "json"))] == [2, 1, 0]
    query = "SELECT day, sum(price) AS total FROM bills GROUP BY day ORDER BY day LIMIT 1"
    assert data(ask("sql", query, "-o", "json")) == [{"day": "2026-01-01", "total": "10.50"}]
    assert data(ask("sql", "-", "-o", "json", input="SELECT count(*) AS n FROM bills@v0")) == [{"n": 3}]
    for words in (("list",), ("show", "bills"), ("history", "bills"), ("sql", query)):
        done = ask(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False)
        assert "bills" in done.stdout or "10.50" in done.stdout or "append" in done.stdout


def test_spark_answers_the_same_question_in_the_same_words(bills: str, ask: Ask, tmp_path: Path) -> None:
    point = {
        "type": "struct",
        "fields": [{"name": "x", "type": "timestamp", "nullable": True, "metadata": {}}],
    }
    columns = {
        "at": "timestamp",
        "local": "timestamp_ntz",
        "raw": "binary",
        "points": {"type": "array", "elementType": point, "containsNull": True},
        "counts": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    }
    at = datetime(2026, 7, 1, 12, 30, 0, 5, UTC)
    kinds = ArrowFrame(columns, [(at, at.replace(tzinfo=None), b"\x01", [{"x": at}], {"k": 1})])
    uri = tables.table_uri((tmp_path / "warehouse").as_uri(), "kinds")
    tables.append(declared("kinds"), uri, kinds, writer="w", batch_id=0)
    query = (
        "SELECT kinds.*, total, early FROM kinds, (SELECT sum(price) AS total FROM bills) AS b, "
        "(SELECT count(*) AS early FROM bills@v0) AS c"
    )
    by_duckdb = data(ask("sql", query, "-o", "json"))
    assert [(row["total"], row["early"]) for row in by_duckdb] == [("40.50", 3)]
    assert data(ask("sql", query, "--engine", "spark", "-o", "json", verb=())) == by_duckdb


def test_a_person_compacts_and_vacuums_a_table(bills: str, ask: Ask) -> None:
    assert ask("compact", "bills").stdout == "bills: 9 files became 3\n"
    assert ask("compact", "bills").stdout == "bills: nothing to do\n"
    assert data(ask("vacuum", "bills", "--dry-run", "-o", "json"))["files"] == []
    assert len(tables.rows(bills)) == 9


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("show", "bils"), 1, "error: table bils does not exist in file://.*\nhint: did you mean bills"),
        (("sql", ""), 2, "QUERY: is empty; write one"),
        (("sql", " \n"), 2, "QUERY: is empty; write one"),
        (("sql", "\udcff"), 2, "QUERY: is not UTF-8 text"),
        (("sql", "/* nothing */"), 1, "error: the query is empty\nhint: write one"),
        (("sql", "SELECT * FROM nothing"), 1, "(?s)the query failed: .*nothing does not exist.*the tables in .* are bills"),
        (("sql", "FROM bills@v7"), 1, "table bills has no version 7 *\nhint: use a version from 0 to 2"),
        (("sql", "FROM bills", "--as-of", "2020-01-01T00:00Z"), 1, "has no version at 2020-01-01T00:00:00"),
        (("sql", "FROM bills", "--as-of", "2020-01-01"), 2, "has no time zone"),
        (("sql", "FROM bills", "--engine", "hive"), 2, "must be duckdb or spark"),
        (("vacuum", "bills", "--older-than", "5 minutes"), 1, "files of table bills that are younger than an hour"),
        (("vacuum", "bills", "--older-than", "soon"), 2, "'soon' is not a duration"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("bills")
def test_what_is_wrong_is_said_by_name(ask: Ask, words: tuple[str, ...], code: int, message: str) -> None:
    done = ask(*words)
    assert done.returncode == code, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert re.search(message, done.stderr), done.stderr


_AS_NOBODY = """
import os, sys
from gearshift import tables
from gearshift.errors import TableError
from gearshift.tables.write.parquet_files import require_writable
from gearshift.storage.location import local_path

warehouse, user = sys.argv[1:]
tables.sql(warehouse, "FROM bills")
os.chmod(local_path(warehouse), 0)
os.setuid(int(user))
for ask in (lambda: tables.sql(warehouse, "FROM bills"), lambda: require_writable(warehouse + "/new")):
    try:
        ask()
    except TableError as error:
        print(error)
"""


@pytest.mark.usefixtures("bills")
def test_a_warehouse_without_permission_is_said_to_be_one(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    # Root may do everything, so the process becomes somebody else; the folders of pytest are closed to others.
    user = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else os.getuid()
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, warehouse.as_uri(), str(user)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    warehouse.chmod(0o755)
    said = done.stdout.splitlines()
    assert len(said) == 2, done.stderr
    assert said[0].startswith(f"cannot read the warehouse {warehouse}: no permission in /")
    assert said[1].startswith("table new cannot be written: no permission in /")
    assert said[1].endswith("grant this user access, or choose another folder with the warehouse setting")


@dataclass
class Order:
    order_id: int
    at: int
    state: str


def test_a_stream_upserts_and_batches_follow_and_spark_reads_the_same(
    unique: str, settings: Settings
) -> None:
    app = gs.App(unique)
    changes = app.topic(f"{unique}-changes", value=Order, key="order_id", partitions=2)
    orders = app.table("orders", key="order_id", sequence_by="at", deleted="gone")
    counts = app.table("counts", key="state")

    @app.pipeline(source=changes, to=orders, gear="near-real-time", freshness="2 seconds")
    def keep(changes: DataFrame) -> DataFrame:
        return changes.withColumn("gone", F.col("state") == "deleted")

    @app.pipeline(source=orders, to=counts, freshness="1 day")
    def count(orders: DataFrame) -> DataFrame:
        return orders.groupBy("state").agg(F.count("*").alias("orders"))

    latest = {id_: (id_ * 7 % 5, "deleted" if id_ % 4 == 0 else "paid") for id_ in range(200)}
    with Runner(app, settings) as runner:
        uri = runner.context.table_uri(orders)
        with Producer(runner.context.connection) as producer:
            for id_, (at, state) in latest.items():
                for older in (at - 1, at, at - 2):  # the newest in the middle
                    producer.send(changes, Order(id_, older, state if older == at else "new"))
        expected = {id_: at for id_, (at, state) in latest.items() if state == "paid"}
        eventually(
            lambda: (
                tables.exists(uri)
                and {row["order_id"]: row["at"] for row in tables.rows(uri)} == expected
                and runner.supervisors["keep"].ledger.gap == 0
            ),
            every=0.5,
        )
        loaded = tables.load(runner.spark, uri)
        assert loaded.columns == ["order_id", "at", "state"]
        assert {row.order_id: row.at for row in loaded.collect()} == expected
        tables.compact(uri)
        assert {row.order_id: row.at for row in tables.load(runner.spark, uri).collect()} == expected
        runner.shift("count", Gear.BATCH)
    found = dict(tables.sql(settings.warehouse_uri, "SELECT state, orders FROM counts").rows)
    assert found["paid"] == len(expected)
