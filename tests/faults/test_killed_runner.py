"""`kill -9` of a runner, in every gear and between the steps of a shift: run again, and nothing is missing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.pipelines.ledger import Ledger, count_between
from gearshift.pipelines.ledgers import find_ledgers
from gearshift.settings import Settings
from gearshift.tables import rows, table_uri
from gearshift.topics import Admin
from tests.faults.apps import CopyAndCount, copy_and_count, keep
from tests.faults.processes import RunnerProcess, write_settings
from tests.flow import Flow, highest_counts, seen_twice, values
from tests.support import eventually

BATCH, NEAR, REAL = "batch", "near-real-time", "real-time"


@pytest.fixture
def folder(settings: Settings, tmp_path: Path, unique: str) -> Path:
    """A user's folder: the settings, and an app in each pair of gears that a test starts in."""
    write_settings(settings, tmp_path)
    for name, words in (("in_batch", ""), ("in_two", f", copy_in={NEAR!r}, count_in={REAL!r}")):
        text = (
            f"from tests.faults.apps import copy_and_count\n\napp = copy_and_count({unique!r}{words}).app\n"
        )
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    text = f"from tests.faults.apps import keep\n\napp = keep({unique!r}).app\n"
    (tmp_path / "keeping.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_runner_killed_in_every_gear_goes_on_and_nothing_is_lost(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    declared = copy_and_count(unique)
    admin = Admin(connection)
    admin.ensure([declared.events])
    with ExitStack() as flowing:
        flow = flowing.enter_context(Flow(connection, declared.events, rate=500))
        eventually(lambda: flow.sent > 5000)
        with RunnerProcess.of_file(settings, folder, "in_batch.py") as runner:
            assert runner.gears() == {"copy": BATCH, "count": BATCH}
            wait_for_output(admin, declared.copies)
            runner.kill()
        for gear, before in ((NEAR, BATCH), (REAL, NEAR)):
            with RunnerProcess.of_file(settings, folder, "in_batch.py") as runner:
                assert runner.gears() == {"copy": before, "count": before}
                shift_both(runner, gear)
                for topic in (declared.counts, declared.copies):
                    wait_for_output(admin, topic)
                runner.kill()
        with RunnerProcess.of_file(settings, folder, "in_batch.py") as runner:
            assert runner.gears() == {"copy": REAL, "count": REAL}
            for topic in (declared.counts, declared.copies):
                wait_for_output(admin, topic)
            flowing.close()
            finish(runner)
    ledgers = assert_exact(settings, connection, declared, flow)
    killed_in_batch = ledgers["copy"].stretches[0]
    assert not killed_in_batch.verified
    assert killed_in_batch.replayed, "the first batch was not killed in its middle"


@pytest.mark.timeout(480)
def test_a_runner_killed_between_the_steps_of_a_shift_goes_on_and_nothing_is_lost(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    declared = copy_and_count(unique)
    admin = Admin(connection)
    admin.ensure([declared.events])
    before, after = {"copy": NEAR, "count": REAL}, {"copy": REAL, "count": NEAR}
    with ExitStack() as flowing:
        flow = flowing.enter_context(Flow(connection, declared.events, rate=500))
        for step in ("check", "boundary", "stop", "start", "verify", "done"):
            points = [word for name, gear in after.items() for word in (name, gear, step)]
            with RunnerProcess.of_module(
                settings, folder, "tests.faults.runner_process", unique, *points
            ) as runner:
                runner.wait_killed()
            for ledger in find_ledgers(settings.checkpoints_uri):
                goes_on_in = ledger.gear_to_run(ledger.stretches[0].declared)
                assert goes_on_in == (after if step == "done" else before)[ledger.pipeline], step
        with RunnerProcess.of_file(settings, folder, "in_two.py") as runner:
            assert runner.gears() == after
            flowing.close()
            finish(runner)
    assert_exact(settings, connection, declared, flow)


def test_a_runner_killed_in_the_middle_of_a_table_write_neither_loses_nor_doubles_a_row(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    declared = keep(unique)
    Admin(connection).ensure([declared.events])
    with ExitStack() as flowing:
        flow = flowing.enter_context(Flow(connection, declared.events, rate=500))
        for point in ("files", "rows"):
            with RunnerProcess.of_module(
                settings, folder, "tests.faults.runner_process", unique, point
            ) as runner:
                runner.wait_killed()
        with RunnerProcess.of_file(settings, folder, "keeping.py") as runner:
            assert runner.gears() == {"keep": NEAR}
            flowing.close()
            runner.shift("keep", BATCH)
            runner.stop()
    kept = sorted(row["n"] for row in rows(table_uri(settings.warehouse_uri, declared.kept.name)))
    assert kept == list(range(flow.sent))
    (ledger,) = find_ledgers(settings.checkpoints_uri)
    assert (ledger.gap, ledger.replayed) == (0, 0)
    assert sum(stretch.records for stretch in ledger.stretches) == flow.sent


def wait_for_output(admin: Admin, topic: Topic) -> None:
    """Return at the first new record on a topic: in the middle of the batch that writes it."""

    def count() -> int:
        return sum(admin.end_offsets([topic.name]).values())

    before = count()
    eventually(lambda: count() > before, every=0.002)


def finish(runner: RunnerProcess) -> None:
    """Process all there is, and end."""
    shift_both(runner, BATCH)
    runner.stop()


def shift_both(runner: RunnerProcess, gear: str) -> None:
    """Shift both pipelines at the same time."""
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda name: runner.shift(name, gear), ("copy", "count")):
            assert done["after"] == gear


def assert_exact(
    settings: Settings, connection: Connection, declared: CopyAndCount, flow: Flow
) -> dict[str, Ledger]:
    """None lost, the state exact, and the ledger right about it."""
    ledgers = {ledger.pipeline: ledger for ledger in find_ledgers(settings.checkpoints_uri)}
    copied = values(connection, declared.copies)
    assert {event.n for event in copied} == set(range(flow.sent))
    assert sum(highest_counts(values(connection, declared.counts)).values()) == flow.sent
    for ledger in ledgers.values():
        assert ledger.gap == 0
        assert sum(stretch.records for stretch in ledger.stretches) == flow.sent
        assert count_between({}, ledger.ends) == flow.sent
    assert ledgers["copy"].replayed == seen_twice(copied)
    return ledgers
