"""The ledger proves that nothing is missing, in any order of reports, commits and crashes."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.errors import LedgerError
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.checkpoint import Offsets
from gearshift.pipelines.ledger.ledger import Batch, Ledger, count_between
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.pipelines.ledger.reconciliation import describe_restored_checkpoint, rebuild, reconcile
from gearshift.pipelines.ledger.scalings import Scaling
from gearshift.storage.folders import LocalFolder
from tests.spark_logs import SparkLogs

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BATCH, NEAR, REAL = Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME


def ledger_in(folder: Path) -> Ledger:
    return Ledger(LocalFolder(folder), "app", "pipe")


def batch(number: int, start: int, end: int, **other: int) -> Batch:
    return Batch(
        id=number,
        timestamp_ms=1000 + number,
        starts={"t": {0: start}},
        ends={"t": {0: end}},
        records=end - start,
        written=end - start,
        **other,
    )


@dataclass
class Query:
    """A query as Spark runs it, with a reader of its reports that may miss them."""

    folder: Path
    committed: Offsets = field(default_factory=lambda: {"a": {0: 3, 1: 0}, "b": {0: 0}})
    number: int = 0
    partitions: int = 2
    now: datetime = NOON

    def __post_init__(self) -> None:
        self.first = self.committed
        self.logs = SparkLogs(self.folder / "spark").born(self.committed)
        self.ledger = ledger_in(self.folder)
        self.ledger.begin(BATCH, BATCH, "run", self.now)

    def run(self, advance: list[int], *, reported: bool, durable: bool) -> None:
        steps = iter(advance)
        ends = {
            topic: {p: offset + next(steps) for p, offset in parts.items()}
            for topic, parts in self.committed.items()
        }
        if durable:
            self.logs.plan(self.number, ends, timestamp_ms=self.number, partitions=self.partitions)
            self.logs.commit(self.number)
        if reported:
            self.ledger.add(
                Batch(
                    id=self.number,
                    timestamp_ms=self.number,
                    starts=self.committed,
                    ends=ends,
                    records=count_between(self.committed, ends),
                    dead=1,
                )
            )
        if durable:
            self.committed, self.number = ends, self.number + 1

    def move(self, *, finished: bool) -> None:
        """Move the state as Spark does: a batch with the offsets and the time of the one before."""
        if self.number == 0:
            return
        self.partitions += 1
        self.logs.plan(self.number, self.committed, self.number - 1, partitions=self.partitions)
        if finished:
            self.logs.commit(self.number)
            self.number += 1

    def plan(self, advance: list[int]) -> None:
        steps = iter(advance)
        ends = {
            topic: {p: o + next(steps) for p, o in parts.items()} for topic, parts in self.committed.items()
        }
        self.logs.plan(self.number, ends, partitions=self.partitions)

    def restart(self, gear: Gear) -> None:
        self.now += timedelta(seconds=1)
        self.ledger = ledger_in(self.folder)
        unfinished = self.ledger.checkpoint.unfinished_repartition()
        if unfinished is not None:
            self.ledger.checkpoint.discard(unfinished)
            self.partitions -= 1
            assert self.ledger.checkpoint.partitions() == self.partitions
        reconcile(self.ledger)
        self.ledger.begin(gear, BATCH, "restart", self.now)


advances = st.lists(st.integers(0, 9), min_size=3, max_size=3)
happenings = st.one_of(
    st.tuples(st.just("batch"), advances),
    st.tuples(st.just("batch without a report, then a crash"), advances),
    st.tuples(st.just("report of what was not durable, then a crash"), advances),
    st.tuples(st.just("plan, then a crash"), advances),
    st.tuples(st.just("shift"), st.sampled_from(list(Gear))),
    st.tuples(st.just("scale"), st.sampled_from(list(Gear))),
    st.tuples(st.just("scale, then a crash"), st.sampled_from(list(Gear))),
    st.tuples(st.just("scale, and a crash in its middle"), st.sampled_from(list(Gear))),
)


@settings(max_examples=80)
@given(st.lists(happenings, max_size=30))
def test_no_order_of_batches_reports_commits_and_crashes_makes_a_gap(
    history: list[tuple[str, list[int] | Gear]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        query = Query(Path(folder))
        for what, how in history:
            match what, how:
                case "shift", Gear() as gear:
                    reconcile(query.ledger)
                    query.ledger.begin(gear, BATCH, "shift", query.now)
                case "scale", Gear() as gear:
                    query.move(finished=True)
                    reconcile(query.ledger)
                    query.ledger.begin(gear, BATCH, "scaled", query.now)
                case _, Gear() as gear:
                    query.move(finished="middle" not in what)
                    query.restart(gear)
                case "plan, then a crash", list() as advance:
                    query.plan(advance)
                    query.restart(NEAR)
                case _, list() as advance:
                    query.run(
                        advance, reported="without a report" not in what, durable="not durable" not in what
                    )
                    if what != "batch":
                        query.restart(REAL)
        reconcile(query.ledger)
        ledger = ledger_in(query.folder)
        assert ledger.gap == 0
        assert sum(s.records for s in ledger.runs) == count_between(query.first, query.committed)
        if query.number:
            assert ledger.ends == query.committed
        at = query.first
        next_batch = 0
        for run in ledger.runs:
            if run.first_batch is None:
                assert (run.records, run.starts, run.ends) == (0, {}, {})
                continue
            assert run.starts == at
            assert run.first_batch == next_batch
            assert run.last_batch is not None and run.last_batch >= run.first_batch
            at, next_batch = run.ends, run.last_batch + 1
        assert next_batch == query.number
        assert ledger.as_json() == query.ledger.as_json()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=2, max_size=12))
def test_every_offset_that_no_batch_covers_is_counted(history: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = ledger_in(Path(folder))
        at, expected = 0, 0
        for number, (hole, length) in enumerate(history):
            if number % 3 == 0:
                ledger.begin(BATCH, BATCH, "run", NOON)
            start = at + (hole if number else 0)
            expected += start - at
            at = start + length
            ledger.add(batch(number, start, at))
        assert ledger.gap == expected
        assert ledger_in(Path(folder)).as_json()["gap"] == expected


def test_a_batch_that_reads_something_a_second_time_is_no_proof_either(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.begin(NEAR, NEAR, "run", NOON)
    ledger.add(batch(0, 0, 10))
    ledger.add(batch(1, 7, 12))
    assert ledger.gap == 3


def test_a_hole_before_a_batch_that_is_taken_back_is_counted_once(tmp_path: Path) -> None:
    logs = SparkLogs(tmp_path / "spark").born({"t": {0: 0}})
    logs.plan(0, {"t": {0: 10}})
    logs.commit(0)
    ledger = ledger_in(tmp_path)
    ledger.begin(REAL, REAL, "run", NOON)
    ledger.add(batch(0, 0, 10))
    ledger.add(batch(1, 14, 20))
    assert ledger.gap == 4
    reconcile(ledger)
    assert (ledger.gap, ledger.ends) == (0, {"t": {0: 10}})
    ledger.begin(REAL, REAL, "restart", NOON)
    ledger.add(batch(1, 14, 21))
    assert ledger.gap == 4


def test_a_partition_that_is_added_later_starts_at_nothing_and_is_no_gap(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.begin(NEAR, NEAR, "run", NOON)
    ledger.add(batch(0, 0, 10))
    grown = Batch(
        id=1,
        timestamp_ms=2,
        starts={"t": {0: 10, 1: 0}},
        ends={"t": {0: 11, 1: 5}},
        records=6,
    )
    ledger.add(grown)
    assert (ledger.gap, ledger.ends) == (0, {"t": {0: 11, 1: 5}})


def test_a_batch_that_is_reported_again_is_written_down_once(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.begin(NEAR, NEAR, "run", NOON)
    assert ledger.add(batch(0, 0, 10))
    assert not ledger.add(batch(0, 0, 10))
    assert [run.records for run in ledger.runs] == [10]


def history(tmp_path: Path, batches: int, *, run_at: tuple[int, ...] = ()) -> Ledger:
    """A ledger and its checkpoint after batches of ten records each, in runs of near-real-time."""
    logs = SparkLogs(tmp_path / "spark").born({"t": {0: 0}}, "first")
    ledger = ledger_in(tmp_path)
    for number in range(batches):
        if number in (0, *run_at):
            ledger.end(NOON + timedelta(seconds=number))
            ledger.begin(NEAR, NEAR, "run", NOON + timedelta(seconds=number), stamped=False).replayed = 0
        ledger.add(batch(number, number * 10, number * 10 + 10))
        logs.plan(number, {"t": {0: number * 10 + 10}}, timestamp_ms=999 + number)
        logs.commit(number)
    ledger.end(NOON + timedelta(seconds=batches))
    return ledger_in(tmp_path)


def keep_until(tmp_path: Path, durable: int) -> None:
    """Restore the checkpoint as it was after a batch."""
    for log in ("offsets", "commits"):
        for path in (tmp_path / "spark" / log).iterdir():
            if path.name.isdigit() and int(path.name) > durable:
                path.unlink()


@pytest.mark.parametrize("identity", [None, "second"])
def test_a_checkpoint_that_is_gone_or_another_one_is_refused(tmp_path: Path, identity: str | None) -> None:
    ledger = history(tmp_path, 3)
    (tmp_path / "spark").rename(tmp_path / "away")
    if identity is not None:
        SparkLogs(tmp_path / "spark").born({"t": {0: 0}}, identity)
    what = "belongs to another query, second" if identity else "is missing"
    before = ledger.as_json()
    with pytest.raises(
        LedgerError, match=rf"{what}.* batch 2 \(t 0:30\).*restore the checkpoint, or .*gearshift reset pipe"
    ):
        reconcile(ledger)
    assert ledger_in(tmp_path).as_json() == before


def test_an_older_checkpoint_takes_the_later_batches_out_and_has_them_counted_as_replayed(
    tmp_path: Path,
) -> None:
    ledger = history(tmp_path, 9, run_at=(5,))
    keep_until(tmp_path, 2)
    assert describe_restored_checkpoint(ledger) == (
        "the checkpoint is at batch 2 (t 0:30) and the ledger at batch 8 (t 0:90): "
        "an older copy of the checkpoint was restored"
    )
    reconcile(ledger)
    first, second = ledger.runs
    assert (first.records, first.last_batch, first.ends, first.pending_ms) == (30, 2, {"t": {0: 30}}, 1002)
    assert (second.records, second.first_batch, second.ends) == (0, None, {})
    assert second.pending_ms == int(second.began.timestamp() * 1000)
    assert (first.replayed, second.replayed) == (None, None)  # to be counted in the target
    assert second.note is not None and "batch 8 (t 0:90)" in second.note
    assert (ledger.gap, ledger.at_least, ledger.ends) == (0, False, {"t": {0: 30}})
    ledger.begin(NEAR, NEAR, "run", NOON)
    ledger.add(batch(3, 30, 90))
    assert (ledger.gap, ledger_in(tmp_path).gap) == (0, 0)


def test_a_checkpoint_older_than_the_batches_known_one_by_one_is_counted_as_at_least(tmp_path: Path) -> None:
    ledger = history(tmp_path, 60)
    keep_until(tmp_path, 10)
    reconcile(ledger)
    (run,) = ledger.runs
    assert (run.records, run.last_batch, run.ends) == (110, 10, {"t": {0: 110}})
    assert (run.pending_ms, run.at_least, ledger.gap) == (1040, True, 0)
    assert run.note is not None and "batches 11 to 40 are too old" in run.note


def test_a_ledger_that_was_lost_is_rebuilt_from_what_sparks_logs_have(tmp_path: Path) -> None:
    history(tmp_path, 9)
    for number in range(4):  # Spark keeps its last ones
        for log in ("offsets", "commits"):
            (tmp_path / "spark" / log / str(number)).unlink()
    (tmp_path / "ledger.json").unlink()
    ledger = ledger_in(tmp_path)
    assert rebuild(ledger, REAL)
    (run,) = ledger.runs
    assert (run.records, run.last_batch, ledger.ends) == (90, 8, {"t": {0: 90}})
    assert (ledger.gap, ledger.at_least, ledger.query_id) == (0, True, "first")
    assert run.note is not None and "unknown" in run.note
    assert not rebuild(ledger, REAL)
    assert not rebuild(ledger_in(tmp_path / "new"), REAL)


@pytest.mark.parametrize(
    "text", ["", "  ", '{"app": "app", "pipel', "[]", "null", "{}", '{"runs": 1}', "<html>"]
)
def test_a_damaged_or_foreign_ledger_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    history(tmp_path, 3, run_at=(2,))
    (tmp_path / "ledger.json").write_text(text)
    with pytest.raises(LedgerError) as refused:
        ledger_in(tmp_path)
    assert str(refused.value).startswith(f"the ledger {tmp_path}/ledger.json is damaged: ")
    assert "app app, pipeline pipe" in str(refused.value)
    previous = tmp_path / "ledger.previous.json"
    assert f"copy {previous} over it" in str(refused.value)
    previous.replace(tmp_path / "ledger.json")
    restored = ledger_in(tmp_path)
    reconcile(restored)
    assert (restored.gap, restored.ends, restored.last_batch) == (0, {"t": {0: 30}}, 2)


def test_what_is_read_back_is_what_was_saved(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    first = ledger.begin(BATCH, BATCH, "calendar", NOON)
    ledger.add(batch(0, 0, 10, dead=2))
    first.replayed, first.pause, first.verified = 3, 1.25, True
    ledger.end(NOON + timedelta(seconds=2), "the disk is full")
    ledger.begin(REAL, BATCH, "shift from batch", NOON + timedelta(seconds=3))
    again = ledger_in(tmp_path)
    assert again.as_json() == ledger.as_json()
    assert again.runs == ledger.runs
    assert again.recent == ledger.recent
    assert again.runs[0].ended == NOON + timedelta(seconds=2)
    assert again.replayed == 3
    kept = json.loads((tmp_path / "ledger.json").read_text())
    assert list(kept)[:4] == ["app", "pipeline", "gap", "replayed"]
    assert kept["runs"][0]["error"] == "the disk is full"


def test_a_ledger_of_an_older_version_is_read(tmp_path: Path) -> None:
    ledger = history(tmp_path, 3, run_at=(2,))
    kept = json.loads((tmp_path / "ledger.json").read_text())
    kept["stretches"] = kept.pop("runs")
    (tmp_path / "ledger.json").write_text(json.dumps(kept))
    assert ledger_in(tmp_path).as_json() == ledger.as_json()


def test_a_long_run_keeps_a_short_ledger(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.begin(NEAR, NEAR, "run", NOON)
    for number in range(100):
        ledger.add(batch(number, number * 10, number * 10 + 10))
    again = ledger_in(tmp_path)
    assert (len(again.runs), len(again.recent)) == (1, 20)
    assert (again.runs[0].records, again.gap, again.ends) == (1000, 0, {"t": {0: 1000}})


def test_a_restart_goes_on_in_the_last_gear_that_proved_itself(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    assert ledger.gear_to_run(NEAR) is NEAR
    ledger.begin(NEAR, NEAR, "run", NOON).verified = True
    ledger.begin(REAL, NEAR, "shift", NOON)  # killed before it was seen to work
    assert ledger.gear_to_run(NEAR) is NEAR
    ledger.runs[-1].verified = True
    assert ledger.gear_to_run(NEAR) is REAL
    assert ledger.gear_to_run(BATCH) is BATCH  # the declaration changed: it has the word


def test_all_ledgers_of_a_folder_are_found_beside_other_things(tmp_path: Path) -> None:
    for app, name in (("b", "two"), ("a", "one"), ("a", "three")):
        Ledger(LocalFolder(tmp_path / app / name), app, name).save()
    (tmp_path / "a" / "stray.txt").touch()
    (tmp_path / "stray.txt").touch()
    (tmp_path / "a" / "never-ran").mkdir()
    found = find_ledgers(tmp_path.as_uri())
    assert [(ledger.app, ledger.pipeline) for ledger in found] == [("a", "one"), ("a", "three"), ("b", "two")]
    assert find_ledgers((tmp_path / "nowhere").as_uri()) == []


def test_a_damaged_ledger_does_not_hide_the_others(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Ledger(LocalFolder(tmp_path / "a" / name), "a", name).save()
    (tmp_path / "a/one/ledger.json").write_text("")
    damaged: list[LedgerError] = []
    assert [ledger.pipeline for ledger in find_ledgers(tmp_path.as_uri(), damaged)] == ["two"]
    assert [error.pipeline for error in damaged] == ["one"]
    with pytest.raises(LedgerError, match="it is empty"):
        find_ledgers(tmp_path.as_uri())


def test_a_batch_that_moves_the_state_counts_nothing_and_does_not_turn_the_time_back(tmp_path: Path) -> None:
    logs = SparkLogs(tmp_path / "spark").born({"t": {0: 0}})
    ledger = ledger_in(tmp_path)
    ledger.begin(REAL, REAL, "run", NOON)
    logs.plan(0, {"t": {0: 5}}, timestamp_ms=1000)
    logs.commit(0)
    ledger.add(Batch(id=0, timestamp_ms=1900, starts={"t": {0: 0}}, ends={"t": {0: 5}}, records=5, written=5))
    logs.plan(1, {"t": {0: 5}}, timestamp_ms=1000, partitions=8)
    logs.commit(1)
    reconcile(ledger)
    assert (ledger.last_batch, ledger.gap, ledger.pending) == (1, 0, [])
    assert ledger.last is not None
    assert (ledger.last.records, ledger.last.last_timestamp_ms) == (5, 1900)


def test_a_scaling_is_recorded_when_it_begins_and_again_when_it_ends(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    first = Scaling(began=NOON, before=2, after=8, why="requested")
    ledger.scale(first)
    assert ledger_in(tmp_path).scaling == first
    ledger.scale(replace(first, ended=NOON, pause=1.5))
    ledger.scale(Scaling(began=NOON, before=8, after=3, why="requested"))
    again = ledger_in(tmp_path)
    assert again.scaling is not None
    assert [(each.after, each.pause) for each in again.scalings] == [(8, 1.5), (3, None)]
    ledger.scale(replace(again.scaling, ended=NOON, error="8 again: no space"))
    assert ledger_in(tmp_path).scaling is None
    assert ledger_in(tmp_path).scalings[-1].error == "8 again: no space"
