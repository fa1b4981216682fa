"""Recovery of a stopped pipeline on disk: moved offsets, archived and renamed folders."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gearshift.errors import ContinuityError, DefinitionError, LedgerError
from gearshift.freshness import Gear
from gearshift.pipelines import recovery
from gearshift.pipelines.check.continuity import losses, recreated
from gearshift.pipelines.check.origin import Origin
from gearshift.pipelines.failures import explain
from gearshift.pipelines.ledger.checkpoint import Checkpoint, Offsets
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.storage.folders import LocalFolder
from tests.spark_logs import SparkLogs
from tests.unit.pipelines.test_failures import PIPELINE

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def ran(root: Path, app: str, pipeline: str) -> Ledger:
    ledger = Ledger(LocalFolder(root / app / pipeline), app, pipeline)
    ledger.begin(Gear.REAL_TIME, Gear.REAL_TIME, "run", NOON)
    return ledger


def kept(root: Path, name: str, *, new: bool = False) -> recovery.Kept:
    return recovery.find(root.as_uri(), name, new=new)


def test_a_loss_is_what_lies_between_the_checkpoint_and_what_the_brokers_have() -> None:
    starts: Offsets = {"a": {0: 5, 1: 5, 2: 5, 3: 9}}
    begins = {("a", 0): 7, ("a", 1): 5, ("a", 2): 0, ("a", 3): 0, ("a", 4): 2, ("a", 5): 0}
    ends = {("a", 0): 9, ("a", 1): 5, ("a", 2): 9, ("a", 3): 8, ("a", 4): 3, ("a", 5): 4}
    assert [(loss.partition, loss.start, loss.end, loss.count) for loss in losses(starts, begins, ends)] == [
        (0, 5, 7, 2),
        (3, 9, 8, 0),  # its end was lost
        (4, 0, 2, 2),  # a new partition whose first records are gone
    ]


def test_a_topic_of_another_id_was_created_again_and_an_unknown_id_says_nothing() -> None:
    known = Origin(topics={"a": "one", "b": "", "c": "three"})
    assert recreated(known, {"a": "two", "b": "two", "c": "", "d": "four"}) == ["a"]
    assert recreated(None, {"a": "two"}) == []


def test_offsets_move_in_the_last_committed_entry_and_in_the_batch_that_runs_again(tmp_path: Path) -> None:
    logs = SparkLogs(tmp_path / "spark").born({"a": {0: 0}})
    for number in range(3):
        logs.plan(number, {"a": {0: 10 * (number + 1)}})
    logs.commit(0)
    logs.commit(1)
    before = (tmp_path / "spark/offsets/1").read_text()
    checkpoint = Checkpoint(LocalFolder(tmp_path / "spark"))
    assert checkpoint.next_offsets() == {"a": {0: 20}}
    aside = LocalFolder(tmp_path / "aside")
    checkpoint.move_offsets(lambda offsets: {"a": {0: max(25, offsets["a"][0])}}, aside)
    assert checkpoint.next_offsets() == {"a": {0: 25}}
    ends = [logged.ends for number in range(3) if (logged := checkpoint.batch(number))]
    assert ends == [{"a": {0: 10}}, {"a": {0: 25}}, {"a": {0: 30}}]
    assert (checkpoint.first_offsets(), checkpoint.committed()) == ({"a": {0: 0}}, [0, 1])
    assert aside.read("offsets/1") == before
    assert not (tmp_path / "spark/offsets/.1.crc").exists()


def test_a_checkpoint_without_a_commit_moves_its_first_offsets(tmp_path: Path) -> None:
    SparkLogs(tmp_path).born({"a": {0: 3}}).plan(0, {"a": {0: 9}})
    checkpoint = Checkpoint(LocalFolder(tmp_path))
    checkpoint.move_offsets(lambda _: {"a": {0: 12}}, LocalFolder(tmp_path / "aside"))
    assert checkpoint.next_offsets() == checkpoint.first_offsets() == {"a": {0: 12}}
    assert (tmp_path / "sources/0/0").read_text().startswith("\0v1\n")


def test_an_accepted_loss_is_no_gap_but_is_shown(tmp_path: Path) -> None:
    ledger = ran(tmp_path, "app", "pipe")
    ledger.accept({"a": {0: 30}}, 20, "accepted: retention", NOON)
    again = Ledger(LocalFolder(tmp_path / "app/pipe"), "app", "pipe")
    assert (again.gap, again.lost, again.ends) == (0, 20, {"a": {0: 30}})
    assert again.runs[-1].ended == NOON and again.runs[-1].why == "accepted: retention"


def test_a_pipeline_is_found_by_its_name_or_with_its_app(tmp_path: Path) -> None:
    for app in ("one", "two"):
        ran(tmp_path, app, "pipe")
    ran(tmp_path, "one", "other")
    assert str(kept(tmp_path, "other")) == "one.other"
    assert str(kept(tmp_path, "two.pipe")) == "two.pipe"
    with pytest.raises(
        DefinitionError, match=r"several apps have a pipeline pipe; there are one\.pipe, two\.pipe"
    ):
        kept(tmp_path, "pipe")
    with pytest.raises(DefinitionError, match="no pipeline 'nobody' has run here"):
        kept(tmp_path, "nobody", new=True)
    assert str(kept(tmp_path, "one.fresh", new=True)) == "one.fresh"


def test_starting_over_puts_the_folder_aside_and_says_where_it_begins(tmp_path: Path) -> None:
    ran(tmp_path, "app", "pipe")
    (tmp_path / "app/pipe/ledger.json").write_text("")  # also where the ledger is damaged
    aside = recovery.start_over(kept(tmp_path, "pipe"), starts={"a": {0: 4}})
    assert aside is not None and (Path(aside.removeprefix("file://")) / "ledger.json").exists()
    assert Origin.read(LocalFolder(tmp_path / "app/pipe")) == Origin(starts={"a": {0: 4}})
    assert not kept(tmp_path, "pipe").ledger.runs
    assert recovery.start_over(kept(tmp_path, "app.new", new=True), starts={}) is None


def test_a_renamed_pipeline_has_its_ledger_and_writes_under_its_old_name(tmp_path: Path) -> None:
    ran(tmp_path, "app", "old")
    recovery.rename(kept(tmp_path, "old"), "new")
    assert str(kept(tmp_path, "new")) == "app.new"
    assert kept(tmp_path, "new").origin.writer == "app.old"
    recovery.rename(kept(tmp_path, "new"), "newer")
    assert kept(tmp_path, "newer").origin.writer == "app.old"
    ran(tmp_path, "app", "other")
    with pytest.raises(DefinitionError, match=r"app\.other has run already.*gearshift reset app\.other"):
        recovery.rename(kept(tmp_path, "newer"), "other")


def test_an_origin_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for text in ("", "[]", '{"topics": {}}'):
        (tmp_path / "origin.json").write_text(text)
        with pytest.raises(LedgerError, match=r"origin\.json cannot be read"):
            Origin.read(LocalFolder(tmp_path))


@pytest.mark.parametrize(
    "reason",
    [
        "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match. SQLSTATE: XXKST",
        "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match",
        "assertion failed: There are [2] sources in the checkpoint offsets and now there are [1] sources",
    ],
)
def test_an_error_about_mismatched_state_needs_a_person(reason: str) -> None:
    error = explain(
        RuntimeError(f"[STREAM_FAILED] Query terminated with exception: {reason}\n\tat x"), PIPELINE
    )
    assert isinstance(error, ContinuityError)
    assert "gearshift reset pipe" in (error.hint or "") and "SQLSTATE" not in error.what
