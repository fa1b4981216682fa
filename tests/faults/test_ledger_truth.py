"""Ways to make the ledger lie, each with what a user is told instead."""

from __future__ import annotations

from pathlib import Path

from gearshift.connection import Connection
from gearshift.freshness import Gear
from gearshift.pipelines.ledger import Ledger
from gearshift.pipelines.ledgers import find_ledgers
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.topics import Producer
from tests.faults.apps import CopyAndCount, copy_and_count
from tests.flow import Event, values

NEAR = "near-real-time"


def send(declared: CopyAndCount, connection: Connection, first: int, count: int) -> None:
    with Producer(connection) as producer:
        for n in range(first, first + count):
            producer.send(declared.events, Event(key=f"k{n % 7}", n=n))


def ledger_of(settings: Settings, pipeline: str) -> Ledger:
    return next(each for each in find_ledgers(settings.checkpoints_uri) if each.pipeline == pipeline)


def test_a_project_that_was_moved_goes_on(unique: str, settings: Settings, tmp_path: Path) -> None:
    declared = copy_and_count(unique, copy_in=NEAR, count_in=NEAR)
    for turn, home in enumerate(("here", "moved")):
        if turn:
            (tmp_path / "here").rename(tmp_path / "moved")
        settings = settings.model_copy(update={"home": tmp_path / home})
        with Runner(declared.app, settings) as runner:
            send(declared, runner.engine.connection, turn * 250, 250)
            for name in ("copy", "count"):
                runner.shift(name, Gear.BATCH)
            runner.shift("copy", Gear.NEAR_REAL_TIME)
            copied = values(runner.engine.connection, declared.copies)
    for name in ("copy", "count"):
        ledger = ledger_of(settings, name)
        print(name, ledger.as_json())
        assert (sum(s.records for s in ledger.stretches), ledger.gap, ledger.replayed) == (500, 0, 0), name
    assert sorted(event.n for event in copied) == list(range(500))
