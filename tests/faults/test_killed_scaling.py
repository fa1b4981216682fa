"""`kill -9` of a runner at every step of a scaling: run again, with the old number or the new one, and counts are exact."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from gearshift.connection import Connection
from gearshift.pipelines.ledger.checkpoint import Checkpoint
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.settings import Settings
from gearshift.storage.folders import open_folder
from gearshift.topics import Admin
from tests.faults.apps import four_counts
from tests.faults.processes import RunnerProcess, write_settings
from tests.flow import Flow, highest_counts, values
from tests.support import eventually

PIPELINES = ("near", "nearer", "real", "realer")


def test_a_runner_killed_at_every_step_of_a_scaling_goes_on_with_exact_counts(
    unique: str, settings: Settings, tmp_path: Path, connection: Connection
) -> None:
    write_settings(settings, tmp_path)
    text = f"from tests.faults.apps import four_counts\n\napp = four_counts({unique!r}).app\n"
    (tmp_path / "counting.py").write_text(text, encoding="utf-8")
    declared = four_counts(unique)
    Admin(connection).ensure([declared.events])

    def require(**expected: tuple[int, ...]) -> None:
        root = f"{settings.checkpoints_uri}/{unique}"
        for name, numbers in expected.items():
            assert Checkpoint(open_folder(f"{root}/{name}/spark")).partitions() in numbers, name

    def kill(partitions: int, *words: str) -> None:
        module = "tests.faults.scaling_process"
        with RunnerProcess.of_module(settings, tmp_path, module, unique, str(partitions), *words) as runner:
            runner.wait_killed()

    with ExitStack() as flowing:
        flow = flowing.enter_context(Flow(connection, declared.events, rate=200))
        eventually(lambda: flow.sent > 200)
        kill(8, "near", "check", "real", "boundary", "realer", "verify", "nearer")
        # Java ends a moment after Python, and may still finish the move that is in progress.
        require(near=(2,), nearer=(2, 8), real=(2,), realer=(8,))
        kill(3, "near", "repartition", "nearer", "start", "real", "stop", "realer")
        require(near=(2,), nearer=(3,), real=(2,), realer=(8, 3))
        with RunnerProcess.of_file(settings, tmp_path, "counting.py") as runner:
            runner.gears()
            scaled = runner.post("near/scale", {"parallelism": 8})["scaled"]
            assert (scaled["before"], scaled["after"], scaled["replayed"]) == (2, 8, 0)
            flowing.close()
            for name in PIPELINES:
                runner.shift(name, "batch")
            runner.stop()
    require(near=(8,), nearer=(3,), real=(2,), realer=(8, 3))
    expected = Counter(f"k{number % 50}" for number in range(flow.sent))
    for name in PIPELINES:
        assert highest_counts(values(connection, declared.counts[name])) == expected, name
    for ledger in find_ledgers(settings.checkpoints_uri):
        assert ledger.gap == 0
        assert sum(run.records for run in ledger.runs) == flow.sent
        assert all(each.ended is not None for each in ledger.scalings)
        interrupted = [each for each in ledger.scalings if each.error is not None]
        went_back = {"near": ([3],), "nearer": ([8], []), "real": ([],), "realer": ([3], [])}[ledger.pipeline]
        assert [each.after for each in interrupted] in went_back
        assert all("the runner ended before the state was moved" in str(each.error) for each in interrupted)
