"""Every record that could not be decoded is written, lost with a reason, or still pending."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.freshness import Gear
from gearshift.pipelines.dead_letters.pending import Pending, between
from gearshift.pipelines.dead_letters.writer import OffsetSet
from gearshift.pipelines.ledger.ledger import Batch, Ledger
from gearshift.pipelines.ledger.reconciliation import reconcile
from gearshift.storage.folders import LocalFolder
from tests.spark_logs import SparkLogs

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NEAR = Gear.NEAR_REAL_TIME


def ledger_in(folder: Path) -> Ledger:
    return Ledger(LocalFolder(folder), "app", "pipe")


def batch(number: int, dead: int) -> tuple[Batch, list[Pending]]:
    starts, ends = {"t": {0: number * 10}}, {"t": {0: number * 10 + 10}}
    made = Batch(id=number, timestamp_ms=1000 + number, starts=starts, ends=ends, records=10, dead=dead)
    ranges = between(starts["t"], ends["t"])
    entry = Pending(batch=number, topic="t", ranges=ranges, observed=dead, since_ms=7, fresh=True)
    return made, [entry] if dead else []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(0, 10)),
        st.tuples(st.just("piece"), st.integers(0, 3)),
        st.tuples(st.just("done"), st.integers(0, 3)),
        st.just(("crash", 0)),
    ),
    max_size=30,
)


@settings(max_examples=50)
@given(steps)
def test_what_was_observed_is_written_lost_or_pending(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        ledger = ledger_in(Path(folder))
        ledger.begin(NEAR, NEAR, "run", NOON)
        observed = written = number = 0
        for step, argument in steps:
            match step:
                case "batch":
                    ledger.add(*batch(number, argument))
                    number, observed = number + 1, observed + argument
                case "crash":
                    ledger = ledger_in(Path(folder))
                    assert not any(entry.fresh for entry in ledger.pending)
                case _ if ledger.pending:
                    entry = ledger.pending[argument % len(ledger.pending)]
                    (first, end) = entry.ranges.get(0, (0, 0))
                    count = min(argument, entry.missing)
                    piece = (
                        {0: (first, min(end, first + 4) if step == "piece" else end)} if entry.ranges else {}
                    )
                    entry = entry.after(piece, written=count, gone=[])
                    ledger.keep_pending(entry)
                    if step == "done":
                        written += entry.written
                        ledger.settle_pending(entry)
                case _:
                    pass
            found = ledger.letters
            assert found["observed"] == observed == found["written"] + found["lost"] + found["pending"]
            assert found["written"] == written
            assert found["pending"] == sum(entry.observed or 0 for entry in ledger.pending)
        assert ledger_in(Path(folder)).letters == ledger.letters


def test_records_that_an_older_checkpoint_brings_again_may_have_letters(tmp_path: Path) -> None:
    logs = SparkLogs(tmp_path / "spark").born({"t": {0: 0}})
    ledger = ledger_in(tmp_path)
    ledger.begin(NEAR, NEAR, "run", NOON)
    for number in range(3):
        logs.plan(number, {"t": {0: number * 10 + 10}}, 1000 + number)
        if number < 2:
            logs.commit(number)
        ledger.add(*batch(number, 2))
    for entry in list(ledger.pending):
        ledger.settle_pending(entry.after({0: (0, 10**6)}, written=2, gone=[]))
    reconcile(ledger)
    assert ledger.letters == {"observed": 4, "written": 4, "lost": 0, "pending": 0}
    ledger.add(*batch(2, 2))
    [again] = ledger.pending
    assert (again.fresh, again.since_ms) == (False, 0)
    ledger.settle_pending(again.after({0: (0, 10**6)}, written=2, gone=[]))
    ledger.add(*batch(3, 1))
    assert [entry.fresh for entry in ledger.pending] == [True]


def test_a_batch_that_was_never_reported_is_looked_through(tmp_path: Path) -> None:
    logs = SparkLogs(tmp_path / "spark").born({"t": {0: 0}})
    ledger = ledger_in(tmp_path)
    ledger.begin(NEAR, NEAR, "run", NOON)
    logs.plan(0, {"t": {0: 10}}, 1000)
    logs.commit(0)
    reconcile(ledger)
    [entry] = ledger.pending
    assert (entry.ranges, entry.observed, entry.since_ms) == ({0: (0, 10)}, None, 1000)
    ledger.settle_pending(entry.after({0: (0, 10)}, written=3, gone=[]))
    assert ledger.letters == {"observed": 3, "written": 3, "lost": 0, "pending": 0}


@given(
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 2**40))),
    st.tuples(st.integers(0, 3), st.integers(0, 2**40)),
)
def test_places_are_those_that_were_put_in(places: set[tuple[int, int]], other: tuple[int, int]) -> None:
    kept = OffsetSet(places)
    assert all(place in kept for place in places)
    assert (other in kept) == (other in places)
