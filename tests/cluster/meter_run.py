"""One life of the meter app on a remote store: shifted, killed, restarted, and counted."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gearshift import tables
from gearshift.connection import Connection
from gearshift.errors import StorageUnreachableError
from gearshift.pipelines.ledger.ledger import count_between
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.settings import Settings, load
from gearshift.topics import Admin
from tests.cluster.apps import Meter, meter
from tests.command import GEARSHIFT
from tests.faults.processes import RunnerProcess, write_settings
from tests.flow import Flow, highest_counts, values
from tests.support import cluster, eventually

_ROOT = Path(__file__).parents[2]

STREAMS = ("alert", "count", "keep", "follow")
NEAR, REAL, BATCH = "near-real-time", "real-time", "batch"


def settings_on(store: dict[str, Any], connection: Connection, folder: Path) -> Settings:
    """The settings of a new user whose checkpoints and tables are there."""
    common = {"home": folder / "home", "checkpoint_interval": "5 seconds", **cluster(connection)}
    return load({**common, **store}, folder=folder, environ={})


class MeterRun(AbstractContextManager["MeterRun"]):
    """The app's folder, its records, and the runner that is up."""

    def __init__(self, name: str, settings: Settings, folder: Path, connection: Connection) -> None:
        self.declared: Meter = meter(name)
        self.folder, self.settings = folder, settings
        self._connection = connection
        write_settings(settings, folder)
        text = f"from tests.cluster.apps import meter\n\napp = meter({name!r}).app\n"
        (folder / "meter.py").write_text(text, encoding="utf-8")
        self.admin = Admin(connection)
        self.admin.ensure([self.declared.events])
        self.flow = Flow(connection, self.declared.events, rate=50)

    def __enter__(self) -> Self:
        self.flow.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flow.__exit__()

    def runner(self) -> RunnerProcess:
        """`gearshift run` in the folder."""
        return RunnerProcess.of_file(self.settings, self.folder, "meter.py")

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder."""
        return subprocess.run(
            [GEARSHIFT, *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},  # its app is declared by these tests
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def data(self, *words: str) -> Any:
        """What a command that succeeds prints as JSON."""
        done = self.command(*words, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refusal(self, *words: str) -> str:
        """What a command that fails prints: a sentence and a hint, and no traceback."""
        done = self.command(*words)
        assert done.returncode == 1, f"{done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stderr

    def read_without_spark(self) -> None:
        """The commands that read ledgers, tables and intervals show what is on the store."""
        sent = self.flow.sent
        ledgers = {entry["pipeline"]: entry for entry in self.data("ledger")}
        assert set(STREAMS) <= set(ledgers)
        assert {ledgers[name]["gap"] for name in STREAMS} == {0}
        assert {entry["table"] for entry in self.data("table", "list")} == {"history", "newest", "monthly"}
        assert self.data("table", "show", "history")["rows"] == sent
        (counted,) = self.data("table", "sql", "SELECT count(*) AS n FROM history")
        assert counted == {"n": sent}
        listed = self.data("batch", "list", "meter.py", "bill")
        assert "done" in {entry["state"] for entry in listed}
        assert sum(row["readings"] for row in self.data("table", "sql", "SELECT readings FROM monthly")) > 0

    def shift_five_times(self, runner: RunnerProcess) -> None:
        """Bring the alerts, the counts and the history through the gears; then the counts have more partitions."""
        runner.gears()
        for pipeline, gear in (
            ("alert", NEAR),
            ("alert", REAL),
            ("count", REAL),
            ("keep", BATCH),
            ("keep", NEAR),
        ):
            assert runner.shift(pipeline, gear)["after"] == gear
        scaled = runner.post("count/scale", {"parallelism": 4})["scaled"]
        assert (scaled["gear"], scaled["before"], scaled["after"], scaled["replayed"]) == (REAL, 2, 4, 0)

    def in_mid_batch(self) -> None:
        """Return when the alerts and the history have just grown."""
        for grown in (self._written, self._batches):
            before = grown()
            eventually(lambda grown=grown, before=before: grown() > before, every=0.01)

    def kill_in_mid_batch(self, kill: Callable[[], None]) -> None:
        """Kill something while records are written, and see that every file of a ledger is whole."""
        self.in_mid_batch()
        kill()

    def whole_ledgers(self) -> None:
        """Read every ledger: half a file would be an error."""
        assert {ledger.pipeline for ledger in find_ledgers(self.settings.checkpoints_uri)} >= set(STREAMS)

    def await_all(self) -> None:
        """Wait until everything that was sent is in every ledger."""
        total = self.flow.sent

        def done() -> bool:
            ends = [
                count_between({}, ledger.ends)
                for ledger in find_ledgers(self.settings.checkpoints_uri)
                if ledger.pipeline in STREAMS
            ]
            return len(ends) == len(STREAMS) and min(ends) >= total

        eventually(done, every=0.5)

    def await_bills(self) -> None:
        """Wait until the scheduler has run the month's interval."""
        eventually(lambda: tables.exists(f"{self.settings.warehouse_uri}/monthly"), every=0.5)

    def verify(self) -> None:
        """Nothing is missing, nothing in a table is doubled, and no ledger has a gap."""
        sent, declared = self.flow.sent, self.declared
        everything = set(range(sent))
        assert {event.n for event in values(self._connection, declared.alerts)} == everything
        assert sum(highest_counts(values(self._connection, declared.counts)).values()) == sent
        history = tables.sql(self.settings.warehouse_uri, "SELECT n FROM history").rows
        assert sorted(n for (n,) in history) == list(range(sent))
        newest = tables.sql(self.settings.warehouse_uri, "SELECT key, n FROM newest").rows
        assert dict(newest) == {f"k{n % 50}": n for n in range(sent)}
        assert len(newest) == min(sent, 50)
        for ledger in find_ledgers(self.settings.checkpoints_uri):
            assert ledger.gap == 0, ledger.pipeline
            if ledger.pipeline in STREAMS:
                assert count_between({}, ledger.ends) == sent, ledger.pipeline

    def _written(self) -> int:
        return sum(self.admin.end_offsets([self.declared.alerts.name]).values())

    def _batches(self) -> int:
        uri = tables.table_uri(self.settings.warehouse_uri, "history")
        try:
            return tables.newest_version(uri) if tables.exists(uri) else -1
        except StorageUnreachableError:
            return -1
