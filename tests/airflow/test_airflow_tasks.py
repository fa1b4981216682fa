"""Intervals run as Airflow's tasks: by the real command, on a real app, with a failure, a retry, restarts and a kill."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from gearshift import tables
from tests.airflow.conftest import GEARSHIFT, Airflow, write_app
from tests.support import eventually

APP = """
import sys
import time
from pathlib import Path
import gearshift as gs
from pyspark.sql import functions as F

HERE = Path(__file__).parent
app = gs.App("shop", timezone="Europe/Berlin")
sales, daily, monthly = app.table("sales"), app.table("daily"), app.table("monthly")

@app.pipeline(source=daily, to=monthly, freshness="1 month", event_time="first_at")
def per_month(daily):
    return daily.groupBy("shop").agg(F.sum("amount").alias("amount"))

@app.pipeline(source=sales, to=daily, freshness="1 day", event_time="sold_at")
def per_day(sales, interval):
    print(f"adding up {interval.start:%Y-%m-%d}", file=sys.stderr, flush=True)
    if (HERE / "jammed").exists():
        (HERE / "jammed").unlink()
        raise RuntimeError("the till is jammed")
    for step in range(1200 if (HERE / "slow").exists() else 0):
        print(f"step {step}.", file=sys.stderr, flush=True)
        time.sleep(0.25)
    return sales.groupBy("shop").agg(F.sum("amount").alias("amount"), F.min("sold_at").alias("first_at"))
"""
DAG = """
from datetime import datetime, timedelta
from airflow_provider_gearshift import gearshift_dag

dag = gearshift_dag(
    {file!r},
    start_date=datetime(2026, 3, 28),
    default_args={{"retries": 1, "retry_delay": timedelta(seconds=1)}},
)
"""
WAITING = """
from datetime import datetime
from airflow.sdk import DAG
from airflow_provider_gearshift import GearshiftBatchOperator

with DAG("waiting", start_date=datetime(2026, 3, 28), schedule="@daily"):
    GearshiftBatchOperator(
        task_id="wait", file={file!r}, pipeline="per_day", deferrable=False, command={command!r}
    )
"""
OTHERS = """
from datetime import datetime, timedelta
from airflow.sdk import DAG
from airflow_provider_gearshift import GearshiftBatchOperator, GearshiftFreshnessSensor

with DAG("others", start_date=datetime(2026, 3, 28), schedule="@daily"):
    sensor = {{"file": {file!r}, "pipeline": "per_day", "mode": "poke", "poke_interval": 1, "timeout": 1}}
    GearshiftFreshnessSensor(task_id="complete", until="{{{{ data_interval_end }}}}", **sensor)
    GearshiftFreshnessSensor(task_id="promised", soft_fail=True, **sensor)

    day = {{"interval_start": "2026-03-28", "interval_end": "2026-03-29", "file": {file!r}, "pipeline": "per_day"}}
    GearshiftBatchOperator(
        task_id="too_long", command="sh -c 'sleep 600'", execution_timeout=timedelta(seconds=5), **day
    )
    GearshiftBatchOperator(task_id="wrong", command="sh -c 'echo error: misspelt >&2; exit 2'", retries=3, **day)
    GearshiftBatchOperator(task_id="unknown", file={file!r}, pipeline="per_dya", retries=3)
"""
SALES = [
    ("north", 1, datetime(2026, 3, 28, 23, 30, tzinfo=UTC)),  # the 29th in Berlin, a day of 23 hours
    ("north", 2, datetime(2026, 3, 29, 21, 59, tzinfo=UTC)),
    ("south", 4, datetime(2026, 3, 29, 22, 0, tzinfo=UTC)),
    ("south", 8, datetime(2026, 3, 30, 21, 0, tzinfo=UTC)),
]


@pytest.fixture(scope="module")
def shop(airflow: Airflow, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app above in its own folder, its table of sales, and its DAG."""
    folder = tmp_path_factory.mktemp("shop")
    file = write_app(folder, APP)
    columns = zip(*SALES, strict=True)
    made = pa.table(dict(zip(("shop", "amount", "sold_at"), map(pa.array, columns), strict=True)))
    write_deltalake(folder / ".gearshift" / "warehouse" / "sales", made)
    airflow.write_dag("shop", DAG.format(file=str(file)))
    return file


def daily(shop: Path) -> list[tuple[object, ...]]:
    warehouse = (shop.parent / ".gearshift" / "warehouse").as_uri()
    return list(tables.sql(warehouse, "SELECT interval_start, shop, amount FROM daily ORDER BY 1, 2").rows)


def working_in(folder: Path) -> list[int]:
    """The processes that run in a folder: the command, and the Java of its Spark."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder and (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def states(output: str, state: str) -> int:
    """How many tasks reached a state, from the output of `dags test`."""
    return output.count(f" new_state={state} ")


def test_two_intervals_run_one_of_them_after_a_failure(airflow: Airflow, shop: Path) -> None:
    (shop.parent / "jammed").touch()
    first = airflow("dags", "test", "shop", "2026-03-30")
    # Gearshift's output is in the task's log, its error fails the task, and the retry succeeds.
    assert first.count("adding up 2026-03-29") >= 2
    assert "RuntimeError: the till is jammed" in first
    assert states(first, "up_for_retry") == 1
    assert "2026-03-29T00:00:00+01:00 to 2026-03-30T00:00:00+02:00: 1 rows" in first
    # No month ends then.
    assert "no interval of per_month (1 month) ends at 2026-03-29T22:00:00+00:00" in first
    assert states(first, "skipped") == 1
    assert daily(shop) == [("2026-03-29T00:00:00+01:00", "north", 3)]

    second = airflow("dags", "test", "shop", "2026-03-31")
    assert states(second, "up_for_retry") == 0
    assert daily(shop) == [
        ("2026-03-29T00:00:00+01:00", "north", 3),
        ("2026-03-30T00:00:00+02:00", "south", 12),
    ]
    assert not airflow.runs.exists(), "runs that are over leave nothing behind"

    airflow.write_dag("others", OTHERS.format(file=str(shop)))
    others = airflow("dags", "test", "others", "2026-03-30", code=1)
    # The sensors see what was run; the last interval that is over by now, long after, is not among it.
    assert others.count("complete up to 2026-03-31T00:00:00+02:00 (last interval)") >= 2
    assert (states(others, "success"), states(others, "skipped")) == (1, 1)
    # What takes too long is ended; a mistake is not tried again.
    assert "stopped after the execution_timeout of 0:00:05" in others
    assert "error: misspelt" in others
    assert "unknown pipeline 'per_dya' in" in others and "use per_month, per_day" in others
    assert (states(others, "failed"), states(others, "up_for_retry")) == (3, 0)
    assert not working_in(shop.parent)
    assert not airflow.runs.exists()


def test_a_run_outlives_those_who_follow_it_and_ends_when_its_task_is_marked(
    airflow: Airflow, shop: Path, tmp_path: Path
) -> None:
    (shop.parent / "slow").touch()
    log = tmp_path / "dags-test.log"
    tester = airflow.start("dags", "test", "shop", "2026-04-01", log=log)
    try:
        eventually(lambda: "step 1." in log.read_text(encoding="utf-8"))
    finally:
        tester.kill()
        tester.wait()
    working = working_in(shop.parent)
    assert len(working) >= 2, "the command and its Java keep running"
    # `dags test` is scheduler and worker in one, and so leaves the task in a state between the two.
    _set_state(airflow, "deferred")
    with _Triggerer(airflow, tmp_path / "triggerer-1.log"):
        first = eventually(lambda: _told(airflow, 0))
    assert set(working_in(shop.parent)) >= set(working), (
        "a triggerer that stops leaves the run to the next one"
    )
    with _Triggerer(airflow, tmp_path / "triggerer-2.log"):
        both = eventually(lambda: _told(airflow, len(first) + 5))
        # Each line is in the task's log exactly once.
        assert both[: len(first)] == first
        assert len(set(both)) == len(both)
        _set_state(airflow, "failed")
        eventually(lambda: not working_in(shop.parent))


def test_a_task_that_is_killed_takes_its_command_along(airflow: Airflow, shop: Path, tmp_path: Path) -> None:
    # The real command prints the graph; the batch run is a slow script.
    script = shop.with_name("slow-gearshift")
    script.write_text(
        f'#!/bin/sh\n[ "$1" = graph ] && exec {GEARSHIFT} "$@"\necho "waiting with $*" >&2\nsleep 600\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    airflow.write_dag("waiting", WAITING.format(file=str(shop), command=str(script)))
    log = tmp_path / "dags-test.log"
    tester = airflow.start("dags", "test", "waiting", "2026-03-30", log=log)
    eventually(lambda: "waiting with batch run" in log.read_text(encoding="utf-8"))
    working = working_in(shop.parent)
    assert len(working) >= 2
    tester.send_signal(signal.SIGTERM)
    tester.wait(timeout=120)
    eventually(lambda: not working_in(shop.parent))
    output = log.read_text(encoding="utf-8")
    assert "per_day --from 2026-03-28T23:00:00+00:00 --to 2026-03-29T22:00:00+00:00" in output
    assert "gearshift was terminated by signal 15" in output
    assert states(output, "failed") == 1


class _Triggerer:
    """Airflow's own, for as long as the test wants it."""

    def __init__(self, airflow: Airflow, log: Path) -> None:
        self._process: subprocess.Popen[bytes] = airflow.start("triggerer", "--skip-serve-logs", log=log)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        os.kill(self._process.pid, signal.SIGTERM)
        self._process.wait(timeout=120)


def _told(airflow: Airflow, more_than: int) -> list[str]:
    """The steps in the task's logs, once there are more of them."""
    found: list[str] = []
    for log in sorted((airflow.home / "logs").glob("dag_id=shop/**/*.trigger.*.log")):
        whole_lines = log.read_text(encoding="utf-8").rpartition("\n")[0]
        for line in whole_lines.splitlines():
            if '"event":"step ' in line:
                found.append(line.split('"event":"', 1)[1].split('"', 1)[0])
    return found if len(found) > more_than else []


def _set_state(airflow: Airflow, state: str) -> None:
    """What marking a task does in Airflow's database."""
    with sqlite3.connect(airflow.home / "airflow.db", timeout=60) as database:
        done = database.execute(
            "UPDATE task_instance SET state = ? WHERE dag_id = 'shop' AND task_id = 'per_day' AND end_date IS NULL",
            (state,),
        )
        assert done.rowcount == 1
    database.close()
