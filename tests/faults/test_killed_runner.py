"""`kill -9` of a runner, in every gear and between the steps of a shift: run again, and nothing is missing."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import Ledger, count_between
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.settings import Settings
from gearshift.tables import rows, table_uri
from gearshift.topics import Admin, read
from gearshift.topics.dead_letters.letters import Letter
from tests.faults.apps import copy_and_count, keep, republish
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


def test_a_runner_killed_in_every_gear_and_between_the_steps_of_a_shift_goes_on_and_nothing_is_lost(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    declared = copy_and_count(unique)
    admin = Admin(connection)
    admin.ensure([declared.events])
    before, after = {"copy": NEAR, "count": REAL}, {"copy": REAL, "count": NEAR}
    with ExitStack() as flowing:
        flow = flowing.enter_context(
            Flow(connection, declared.events, rate=200, at_once=10_000, corrupt_every=20)
        )
        eventually(lambda: flow.sent > 5000)
        with RunnerProcess.of_file(settings, folder, "in_batch.py") as runner:
            assert runner.gears() == {"copy": BATCH, "count": BATCH}
            wait_for_output(admin, declared.copies)
            runner.kill()
        for copy_at, count_at in (("check", "boundary"), ("start", "stop"), ("done", "verify")):
            at = {"copy": copy_at, "count": count_at}
            points = [word for name in at for word in (name, after[name], at[name])]
            with RunnerProcess.of_module(
                settings, folder, "tests.faults.runner_process", unique, *points
            ) as runner:
                runner.wait_killed()
            for ledger in find_ledgers(settings.checkpoints_uri):
                name = ledger.pipeline
                goes_on_in = ledger.gear_to_run(Gear.named(before[name]))
                assert goes_on_in == (after if at[name] == "done" else before)[name], at
        with RunnerProcess.of_file(settings, folder, "in_two.py") as runner:
            assert runner.gears() == {"copy": after["copy"], "count": before["count"]}
            flowing.close()
            with ThreadPoolExecutor(2) as pool:
                for done in pool.map(lambda name: runner.shift(name, BATCH), before):
                    assert done["after"] == BATCH
            runner.stop()
    ledgers = {ledger.pipeline: ledger for ledger in find_ledgers(settings.checkpoints_uri)}
    copied = values(connection, declared.copies)
    assert {event.n for event in copied} == set(range(flow.sent))
    assert sum(highest_counts(values(connection, declared.counts)).values()) == flow.sent
    letters = Counter(
        (letter.failed_in, letter.origin)
        for letter in map(Letter.of, read(connection, declared.events.dead_letters))
    )
    assert set(letters.values()) == {1}, "a dead letter was written twice"
    for ledger in ledgers.values():
        assert ledger.gap == 0
        assert sum(run.records for run in ledger.runs) == flow.sent + flow.corrupt
        assert count_between({}, ledger.ends) == flow.sent + flow.corrupt
        assert sum(failed_in == f"{ledger.app}.{ledger.pipeline}" for failed_in, _ in letters) == flow.corrupt
        assert ledger.letters == {"observed": flow.corrupt, "written": flow.corrupt, "lost": 0, "pending": 0}
    assert ledgers["copy"].replayed == seen_twice(copied)
    killed_in_batch = ledgers["copy"].runs[0]
    assert not killed_in_batch.verified
    assert killed_in_batch.replayed, "the first batch was not killed in its middle"


def test_a_runner_killed_in_the_middle_of_a_table_write_neither_loses_nor_doubles_a_row(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    declared = keep(unique)
    Admin(connection).ensure([declared.events])
    with ExitStack() as flowing:
        flow = flowing.enter_context(Flow(connection, declared.events, rate=200))
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
    assert sum(run.records for run in ledger.runs) == flow.sent


def test_a_runner_killed_in_the_middle_of_a_batch_from_a_table_to_a_topic_counts_what_it_writes_again(
    unique: str, settings: Settings, folder: Path, connection: Connection
) -> None:
    declared = republish(unique)
    text = f"from tests.faults.apps import republish\n\napp = republish({unique!r}).app\n"
    (folder / "publishing.py").write_text(text, encoding="utf-8")
    admin = Admin(connection)
    admin.ensure([declared.events, declared.copies])
    with Flow(connection, declared.events, rate=1, at_once=40_000) as flow:
        eventually(lambda: flow.sent >= 40_000)
    with RunnerProcess.of_file(settings, folder, "publishing.py") as runner:
        wait_for_output(admin, declared.copies)
        runner.kill()
    with RunnerProcess.of_file(settings, folder, "publishing.py") as runner:
        runner.gears()
        eventually(lambda: publishing(settings).replayed)
        runner.stop()
    copied = values(connection, declared.copies)
    assert {event.n for event in copied} == set(range(flow.sent))
    killed, whole = publishing(settings).runs
    assert seen_twice(copied) > 0, "the batch was killed before it wrote anything"
    assert (killed.replayed, whole.written, whole.retried) == (seen_twice(copied), flow.sent, 0)


def publishing(settings: Settings) -> Ledger:
    return next(each for each in find_ledgers(settings.checkpoints_uri) if each.pipeline == "publish")


def wait_for_output(admin: Admin, topic: Topic) -> None:
    """Return at the first new record on a topic: in the middle of the batch that writes it."""

    def count() -> int:
        return sum(admin.end_offsets([topic.name]).values())

    before = count()
    eventually(lambda: count() > before, every=0.002)
