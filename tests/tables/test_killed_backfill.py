"""`kill -9` in the middle of a backfill: no row lost or doubled, and no reader sees half of an interval."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gearshift import tables
from tests.arrow_frames import ArrowFrame, declared
from tests.command import GEARSHIFT

_ROOT = Path(__file__).parents[2]
_WITHIN = 180.0

APP = """
import gearshift as gs

app = gs.App("shop", timezone="Europe/Berlin")
sales = app.table("sales")

@app.pipeline(source=sales, to=app.table("totals", partition_by="item"), freshness="1 month", event_time="sold_at")
def totals(sales):
    from pyspark.sql import functions as F
    return sales.groupBy("item").agg(F.count("*").alias("n"), F.sum("amount").alias("amount"))
"""

Month = dict[str, tuple[int, int]]  # item → sales and amount


class Shop:
    """A year of sales in a folder, in which `gearshift batch run` is started and killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse = (folder / ".gearshift" / "warehouse").as_uri()
        (folder / "shop.py").write_text(APP, encoding="utf-8")

    def sell(self, extra: int) -> dict[str, Month]:
        """Write the year's sales, each dearer by `extra`; the truth by the start of the month in UTC."""
        rows = [
            ("abc"[n % 3], n + extra, datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=5 * n))
            for n in range(1756)
        ]
        columns = {"item": "string", "amount": "long", "sold_at": "timestamp"}
        tables.overwrite(declared("sales"), f"{self.warehouse}/sales", ArrowFrame(columns, rows))
        truth: dict[str, Month] = defaultdict(dict)
        for item, amount, sold_at in rows:
            local = sold_at + timedelta(hours=2 if SUMMER[0] <= sold_at < SUMMER[1] else 1)
            n, total = truth[f"{local:%Y-%m}"].get(item, (0, 0))
            truth[f"{local:%Y-%m}"][item] = (n + 1, total + amount)
        return {month: truth[month] for month in truth if month < "2024-07"}

    def totals(self) -> dict[str, Month]:
        """What a reader sees."""
        found: dict[str, Month] = defaultdict(dict)
        if tables.exists(f"{self.warehouse}/totals"):
            for row in tables.rows(f"{self.warehouse}/totals"):
                month = found[row["interval_start"][:7]]
                assert row["item"] not in month, "a row was there twice"
                month[row["item"]] = (row["n"], row["amount"])
        return found

    def start(self, *dies_in: str) -> subprocess.Popen[str]:
        """`gearshift batch run` over half the year, which dies in the interval of this number if one is named."""
        words = [
            "batch",
            "run",
            "shop.py",
            "totals",
            "--from",
            "2024-01-01",
            "--to",
            "2024-07-01",
            "-o",
            "json",
        ]
        command = (
            [sys.executable, "-m", "tests.tables.backfill_process", *dies_in] if dies_in else [str(GEARSHIFT)]
        )
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
        return subprocess.Popen(
            [*command, *words],
            cwd=self.folder,
            env={
                **clean,
                "PYTHONPATH": os.pathsep.join([*filter(None, [clean.get("PYTHONPATH")]), str(_ROOT)]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )


SUMMER = (datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(2024, 10, 27, 1, tzinfo=UTC))


@contextmanager
def reading(shop: Shop, *truths: dict[str, Month]) -> Iterator[None]:
    """A reader that looks again and again: every month it sees is whole, the old one or the new one."""
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.05):
            for month, found in shop.totals().items():
                assert found in [truth[month] for truth in truths], f"half of {month} was there: {found}"

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(read)
        try:
            yield
        finally:
            over.set()
        watching.result()


def test_a_killed_backfill_leaves_whole_months_and_goes_on_exactly(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    old = shop.sell(0)
    with reading(shop, old):
        process = shop.start("3")
        said, failed = process.communicate(timeout=_WITHIN)
        assert process.returncode == -signal.SIGKILL, failed
        assert [json.loads(line)["start"][:7] for line in said.splitlines()] == ["2024-01", "2024-02"]
        assert shop.totals() == {month: old[month] for month in list(old)[:2]}
    new = shop.sell(10_000)
    with reading(shop, old, new):
        process = shop.start()
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["rows"] == 3
        process.send_signal(signal.SIGTERM)
        said, told = process.communicate(timeout=_WITHIN)
        done = 1 + len(said.splitlines())
        assert process.returncode == 1, told
        assert f"stopped after {done} of 6 intervals" in told
        assert "Traceback" not in told
        assert done < 6
        process = shop.start()
        said, told = process.communicate(timeout=_WITHIN)
        assert process.returncode == 0, told
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["start"][:7] for line in lines] == list(new)
    assert shop.totals() == new
    listed = subprocess.run(
        [GEARSHIFT, "batch", "list", "shop.py", "totals", "-o", "json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=_WITHIN, check=True,
    )  # fmt: skip
    known = [entry for entry in json.loads(listed.stdout) if entry["start"] < "2024-07"]
    assert [(entry["state"], entry["rows"], entry["version"]) for entry in known] == [
        ("done", line["rows"], line["version"]) for line in lines
    ]
