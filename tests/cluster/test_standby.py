"""One runner at a time, and another that takes over."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from gearshift.connection import Connection
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.pipelines.records.replays import STAMP
from gearshift.settings import Settings
from gearshift.topics import ConsumedRecord, read
from tests.cluster.meter_run import NEAR, REAL, MeterRun, settings_on
from tests.cluster.object_store import ObjectStore
from tests.faults.processes import RunnerProcess, write_settings
from tests.support import eventually

TAKES_OVER_WITHIN = 10.0


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

    def written_by(self, runs: range, *, since: dict[int, int]) -> int:
        return sum(run_of(record) in runs for record in self._read(since))

    def _read(self, since: dict[int, int] | None = None) -> list[ConsumedRecord]:
        return list(read(self._connection, self._topic, start=since))


def run_of(record: ConsumedRecord) -> int:
    """The number of the run that wrote a record in real-time; -1 for other gears."""
    stamp = record.header(STAMP)
    return int(stamp.split(b"/")[1]) if stamp is not None else -1


def test_a_standby_takes_over_within_ten_seconds_and_who_stood_still_meanwhile_writes_nothing(
    unique: str, store: ObjectStore, tmp_path: Path, connection: Connection
) -> None:
    settings = settings_on(store.settings(unique), connection, tmp_path)
    with MeterRun(unique, settings, tmp_path, connection) as run:
        machines, alerts = Machines(run, tmp_path, settings), Alerts(run, connection)
        with run.runner() as first:
            first.gears()
            first.shift("count", REAL)
            first.shift("keep", "batch")
            with machines.standby("second") as second:
                second.await_said("standing by: another runner has the checkpoints")
                run.in_mid_batch()
                last, killed_at = alerts.newest_run(), datetime.now(UTC)
                first.kill()
                took = (alerts.first_after(last) - killed_at).total_seconds()
                print(f"\nkilled: the first alert of the standby came after {took:.1f} s")
                gears = second.gears()
                assert (gears["alert"], gears["count"], gears["keep"]) == (REAL, REAL, "batch")
                assert took < TAKES_OVER_WITHIN
                run.flow.__exit__()
                second.shift("keep", NEAR)
                run.await_all()
                run.await_bills()
                second.stop()
        run.verify()
