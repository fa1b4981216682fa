"""One runner at a time, and another that takes over."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from gearshift.connection import Connection
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.pipelines.records.replays import STAMP
from gearshift.settings import Settings
from gearshift.topics import ConsumedRecord, read
from tests.cluster.meter_run import BATCH, NEAR, REAL, MeterRun, settings_on
from tests.cluster.object_store import ObjectStore
from tests.faults.processes import RunnerProcess, write_settings
from tests.support import eventually

TAKES_OVER_WITHIN = 30.0
"""Seconds; the goal is ten, on a machine that does not also run Kafka, a store and other tests."""


class Machines:
    """The folders of runners of one app, which share its checkpoints and nothing else."""

    def __init__(self, run: MeterRun, folder: Path, settings: Settings) -> None:
        self._run, self._folder, self._settings = run, folder, settings

    def standby(self, name: str) -> RunnerProcess:
        """`gearshift run --standby` on another machine, so to speak."""
        folder = self._folder / name
        folder.mkdir()
        settings = self._settings.model_copy(update={"home": folder / "home"})
        write_settings(settings, folder)
        (folder / "meter.py").write_text((self._run.folder / "meter.py").read_text(), encoding="utf-8")
        return RunnerProcess.of_file(settings, folder, "meter.py", "--standby")


class Alerts:
    """What the real-time pipeline wrote, by the run that wrote it."""

    def __init__(self, run: MeterRun, connection: Connection) -> None:
        self._topic, self._admin, self._connection = run.declared.alerts.name, run.admin, connection
        self._checkpoints = run.settings.checkpoints_uri

    def ends(self) -> dict[int, int]:
        ends = self._admin.end_offsets([self._topic])
        return {partition: offset for (_, partition), offset in ends.items()}

    def newest_run(self) -> int:
        (ledger,) = (each for each in find_ledgers(self._checkpoints) if each.pipeline == "alert")
        return ledger.runs[-1].number

    def first_after(self, run: int) -> datetime:
        """When the first record of a later run was written."""
        found = eventually(lambda: [record for record in self._read() if run_of(record) > run], every=0.2)
        return min(record.timestamp for record in found if record.timestamp is not None)

    def written_by(self, run: int, *, since: dict[int, int]) -> int:
        return sum(run_of(record) == run for record in self._read(since))

    def _read(self, since: dict[int, int] | None = None) -> list[ConsumedRecord]:
        return list(read(self._connection, self._topic, start=since))


def run_of(record: ConsumedRecord) -> int:
    """The number of the run that wrote a record in real-time; -1 for other gears."""
    stamp = record.header(STAMP)
    return int(stamp.split(b"/")[1]) if stamp is not None else -1


def state_of(pid: int) -> str:
    """The state of a process as Linux writes it; Z, as for one whose stopped parent cannot notice its end, if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def stopped(pid: int) -> bool:
    return state_of(pid) == "T"


def gone(pid: int) -> bool:
    return state_of(pid) == "Z"


def test_a_standby_takes_over_and_who_stood_still_meanwhile_writes_nothing(
    unique: str, store: ObjectStore, tmp_path: Path, connection: Connection
) -> None:
    settings = settings_on(store.settings(unique), connection, tmp_path)
    with MeterRun(unique, settings, tmp_path, connection) as run, ExitStack() as runners:
        machines, alerts = Machines(run, tmp_path, settings), Alerts(run, connection)
        first = runners.enter_context(run.runner())
        first.gears()
        first.shift("count", REAL)
        first.shift("follow", BATCH)

        second = runners.enter_context(machines.standby("second"))
        second.await_said("standing by: another runner has the checkpoints in ")
        run.in_mid_batch()
        last, killed_at = alerts.newest_run(), datetime.now(UTC)
        first.kill()
        took = (alerts.first_after(last) - killed_at).total_seconds()
        print(f"\nafter kill -9: the first alert of the standby came within {took:.1f} s", flush=True)
        gears = second.gears()
        assert (gears["alert"], gears["count"], gears["follow"]) == (REAL, REAL, BATCH)

        third = runners.enter_context(machines.standby("third"))
        third.await_said("standing by: ")
        run.in_mid_batch()
        last, pids = alerts.newest_run(), second.pids
        for pid in pids:  # the whole machine stands still
            os.kill(pid, signal.SIGSTOP)
        eventually(lambda: all(stopped(pid) for pid in pids))
        third.gears()
        assert alerts.newest_run() > last
        before = alerts.ends()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        said = second.await_refused()
        eventually(lambda: gone(pids[1]))
        assert "error: another runner has the checkpoints in " in said, said
        assert "Traceback" not in said, said
        late = alerts.written_by(last, since=before)
        print(f"after SIGCONT: {late} records of the one that stood still", flush=True)
        assert late == 0

        run.in_mid_batch()
        python, spark = third.pids
        stopped_at = time.monotonic()
        os.kill(python, signal.SIGSTOP)  # while its Spark goes on
        eventually(lambda: gone(spark))
        print(
            f"after SIGSTOP of Python: its Spark ended within {time.monotonic() - stopped_at:.1f} s",
            flush=True,
        )
        os.kill(python, signal.SIGCONT)
        assert "error: this runner stood still for more than 3.5 s" in third.await_refused()

        last_one = runners.enter_context(run.runner())
        assert last_one.gears()["count"] == REAL
        run.flow.__exit__()
        last_one.shift("follow", NEAR)
        run.await_all()
        run.await_bills()
        last_one.stop()
        run.verify()
        assert took < TAKES_OVER_WITHIN


def test_two_runners_of_one_folder_take_turns(unique: str, tmp_path: Path, connection: Connection) -> None:
    settings = settings_on({}, connection, tmp_path)
    with MeterRun(unique, settings, tmp_path, connection) as run, ExitStack() as runners:
        first = runners.enter_context(run.runner())
        first.gears()
        said = run.refusal("run", "meter.py")
        assert f"a runner is already running in {settings.home} ({unique}, process {first.pids[0]})" in said
        assert "--standby" in said
        second = runners.enter_context(RunnerProcess.of_file(settings, tmp_path, "meter.py", "--standby"))
        second.await_said(f"standing by: a runner is already running in {settings.home}")
        alerts = Alerts(run, connection)
        run.in_mid_batch()
        last, killed_at = alerts.newest_run(), datetime.now(UTC)
        first.kill()
        took = (alerts.first_after(last) - killed_at).total_seconds()
        print(
            f"\nafter kill -9 in one folder: the first alert of the standby came within {took:.1f} s",
            flush=True,
        )
        second.gears()
        assert took < TAKES_OVER_WITHIN
        run.flow.__exit__()
        run.await_all()
        run.await_bills()
        second.stop()
        run.verify()
