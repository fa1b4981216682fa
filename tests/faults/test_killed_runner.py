"""`kill -9` of a runner, in every gear and between the steps of a shift: run again, and nothing is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from gearshift.connection import Connection
from gearshift.pipelines.ledger import Ledger, count_between
from gearshift.pipelines.ledgers import find_ledgers
from gearshift.settings import Settings
from gearshift.tables import rows, table_uri
from gearshift.topics import Admin
from tests.faults.apps import BATCH, EVERY_GEAR, NEAR, REAL, Pipelines, copies_and_counts, keep
from tests.faults.processes import RunnerProcess, write_settings
from tests.flow import Flow, highest_counts, seen_twice, values
from tests.support import eventually

_OUTPUT_WITHIN = 120
_KILLED = "tests.faults.runner_process"


@pytest.fixture
def folder(settings: Settings, tmp_path: Path) -> Path:
    """A user's folder with the settings in it."""
    write_settings(settings, tmp_path)
    return tmp_path


def write_app(folder: Path, text: str) -> str:
    """Leave a file that declares an app as `tests.faults.apps` does; its name."""
    (folder / "app.py").write_text(f"from tests.faults.apps import *\n\napp = {text}.app\n", encoding="utf-8")
    return "app.py"


@pytest.mark.timeout(480)
def test_a_runner_killed_in_every_gear_goes_on_and_nothing_is_lost(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    declared = copies_and_counts(unique, EVERY_GEAR)
    file = write_app(folder, f"copies_and_counts({unique!r}, EVERY_GEAR)")
    admin = Admin(connection)
    admin.ensure([declared.events, *declared.targets.values()])
    in_batch = [name for name, gear in EVERY_GEAR.items() if gear == BATCH]
    with ExitStack() as flowing:
        flow = flowing.enter_context(Flow(connection, declared.events, rate=300))
        with RunnerProcess.of_file(settings, folder, file) as runner, ThreadPoolExecutor(2) as pool:
            assert runner.gears() == EVERY_GEAR
            wait_for_output(admin, declared, EVERY_GEAR, more_than=0)
            sent = flow.sent
            eventually(lambda: flow.sent > sent + 3000, within=60)
            for name in in_batch:
                pool.submit(runner.shift, name, BATCH)  # it never hears of its end
            wait_for_output(admin, declared, ["copy_in_batch"])
            runner.kill()
        with RunnerProcess.of_file(settings, folder, file) as runner:
            assert runner.gears() == EVERY_GEAR
            wait_for_output(admin, declared, EVERY_GEAR.keys() - in_batch)
            flowing.close()
            finish(runner, EVERY_GEAR)
    ledgers = assert_exact(settings, connection, declared, flow)
    killed_in_batch = ledgers["copy_in_batch"].stretches[1]
    assert not killed_in_batch.verified
    assert killed_in_batch.replayed, "the batch was not killed in its middle"


@pytest.mark.timeout(480)
def test_a_runner_killed_between_the_steps_of_a_shift_goes_on_and_nothing_is_lost(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    kills = (("check", "boundary", "stop"), ("start", "verify", "done"))
    before = {f"copy_{n}": NEAR for n in range(3)} | {f"count_{n}": REAL for n in range(3)}
    after = {name: REAL if gear == NEAR else NEAR for name, gear in before.items()}
    declared = copies_and_counts(unique, before)
    file = write_app(folder, f"copies_and_counts({unique!r}, {before!r})")
    admin = Admin(connection)
    admin.ensure([declared.events])
    expected = before
    with ExitStack() as flowing:
        flow = flowing.enter_context(Flow(connection, declared.events, rate=100))
        for steps in kills:
            at = {name: steps[int(name[-1])] for name in before}
            points = [f"{name}={after[name]}:{step}" for name, step in at.items()]
            with RunnerProcess.of_module(settings, folder, _KILLED, unique, *points) as runner:
                runner.wait_killed()
            expected = {name: (after if step == "done" else before)[name] for name, step in at.items()}
            for ledger in find_ledgers(settings.checkpoints_uri):
                goes_on_in = ledger.gear_to_run(ledger.stretches[0].declared)
                assert goes_on_in == expected[ledger.pipeline], at[ledger.pipeline]
        with RunnerProcess.of_file(settings, folder, file) as runner:
            assert runner.gears() == expected
            flowing.close()
            finish(runner, expected)
    assert_exact(settings, connection, declared, flow)


def test_a_runner_killed_in_the_middle_of_a_table_write_neither_loses_nor_doubles_a_row(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    points = {"keep_files": "files", "keep_rows": "rows"}
    declared = keep(unique, points)
    file = write_app(folder, f"keep({unique!r}, {list(points)!r})")
    Admin(connection).ensure([declared.events])
    with ExitStack() as flowing:
        flow = flowing.enter_context(Flow(connection, declared.events, rate=500))
        words = [f"{name}:{point}" for name, point in points.items()]
        with RunnerProcess.of_module(settings, folder, _KILLED, unique, *words) as runner:
            runner.wait_killed()
        with RunnerProcess.of_file(settings, folder, file) as runner:
            assert runner.gears() == dict.fromkeys(points, NEAR)
            flowing.close()
            finish(runner, points)
    for table in declared.kept.values():
        kept = sorted(row["n"] for row in rows(table_uri(settings.warehouse_uri, table.name)))
        assert kept == list(range(flow.sent)), table.name
    ledgers = find_ledgers(settings.checkpoints_uri)
    assert {ledger.pipeline for ledger in ledgers} == points.keys()
    for ledger in ledgers:
        assert (ledger.gap, ledger.replayed) == (0, 0)
        assert sum(stretch.records for stretch in ledger.stretches) == flow.sent


def wait_for_output(
    admin: Admin, declared: Pipelines, pipelines: Iterable[str], *, more_than: int | None = None
) -> None:
    """Return when each pipeline has written a new record: of one of them, in the middle of the batch that writes it."""
    topics = [declared.targets[name].name for name in pipelines]

    def counts() -> dict[str, int]:
        found = dict.fromkeys(topics, 0)
        for (topic, _), end in admin.end_offsets(topics).items():
            found[topic] += end
        return found

    before = counts() if more_than is None else dict.fromkeys(topics, more_than)
    eventually(
        lambda: all(count > before[topic] for topic, count in counts().items()),
        within=_OUTPUT_WITHIN,
        every=0.002,
    )


def finish(runner: RunnerProcess, pipelines: Iterable[str]) -> None:
    """Process all there is, all pipelines at the same time, and end."""
    names = list(pipelines)
    with ThreadPoolExecutor(len(names)) as pool:
        for done in pool.map(lambda name: runner.shift(name, BATCH), names):
            assert done["after"] == BATCH
    runner.stop()


def assert_exact(
    settings: Settings, connection: Connection, declared: Pipelines, flow: Flow
) -> Mapping[str, Ledger]:
    """None lost, the state exact, and the ledger right about it."""
    ledgers = {ledger.pipeline: ledger for ledger in find_ledgers(settings.checkpoints_uri)}
    assert ledgers.keys() == declared.targets.keys()
    for name, ledger in ledgers.items():
        assert ledger.gap == 0, name
        assert sum(stretch.records for stretch in ledger.stretches) == flow.sent, name
        assert count_between({}, ledger.ends) == flow.sent, name
        written = values(connection, declared.targets[name])
        if name.startswith("copy_"):
            assert {event.n for event in written} == set(range(flow.sent)), name
            assert ledger.replayed == seen_twice(written), name
        else:
            assert sum(highest_counts(written).values()) == flow.sent, name
    return ledgers
