"""Spark's checkpoint logs, read without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.errors import LedgerError
from gearshift.pipelines.ledger.checkpoint import Checkpoint, flat
from gearshift.storage.folders import LocalFolder, open_folder
from tests.spark_logs import HDFS, ROCKSDB, SparkLogs


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(LocalFolder(folder))


def test_a_folder_that_is_not_there_yet_holds_nothing_and_fits_every_gear(tmp_path: Path) -> None:
    found = checkpoint(tmp_path / "none")
    assert (found.query_id(), found.committed(), found.planned()) == (None, [], [])
    assert (found.first_offsets(), found.batch(0)) == ({}, None)
    assert found.suits_every_gear()


def test_what_spark_planned_and_committed_is_read_in_order_and_without_its_checksums(tmp_path: Path) -> None:
    logs = SparkLogs(tmp_path).born({"a": {0: 5, 1: 0}, "b": {0: 7}}, identity="me")
    for number in (0, 1, 2, 9, 10):
        logs.plan(number, {"a": {0: 5 + number, 1: 0}, "b": {0: 7}}, timestamp_ms=1000 + number)
        if number < 10:
            logs.commit(number)
    found = checkpoint(tmp_path)
    assert found.query_id() == "me"
    assert found.planned() == [0, 1, 2, 9, 10]
    assert found.committed() == [0, 1, 2, 9]
    assert found.first_offsets() == {"a": {0: 5, 1: 0}, "b": {0: 7}}
    batch = found.batch(10)
    assert batch is not None
    assert (batch.id, batch.timestamp_ms) == (10, 1010)
    assert batch.ends == {"a": {0: 15, 1: 0}, "b": {0: 7}}
    assert batch.configuration["spark.sql.shuffle.partitions"] == "2"
    assert flat(batch.ends) == {("a", 0): 15, ("a", 1): 0, ("b", 0): 7}


def test_a_source_without_offsets_yet_is_a_dash_in_the_log(tmp_path: Path) -> None:
    logs = SparkLogs(tmp_path)
    logs.plan(0, {"a": {0: 5}})
    path = tmp_path / "offsets/0"
    path.write_text(path.read_text() + "\n-")
    batch = checkpoint(tmp_path).batch(0)
    assert batch is not None and batch.ends == {"a": {0: 5}}


def test_a_log_of_another_version_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/0").write_text("v7\n{}\n{}")
    with pytest.raises(LedgerError, match=r"offsets/0 cannot be read: unknown version v7"):
        checkpoint(tmp_path).batch(0)


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}\n{}", "[1]", "v1\nnull\n-"])
def test_a_damaged_log_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/3").write_text(text)
    (tmp_path / "metadata").write_text(text)
    with pytest.raises(LedgerError, match=r"offsets/3 cannot be read.*gearshift reset"):
        checkpoint(tmp_path).batch(3)
    with pytest.raises(LedgerError, match="metadata cannot be read"):
        checkpoint(tmp_path).query_id()


@pytest.mark.parametrize(
    ("provider", "version", "fits"),
    [(ROCKSDB, "v2", True), (ROCKSDB, "v1", False), (HDFS, "v2", False), (HDFS, "v1", False)],
)
def test_a_checkpoint_fits_every_gear_only_with_rocksdb_and_format_two(
    tmp_path: Path, provider: str, version: str, fits: bool
) -> None:
    logs = SparkLogs(tmp_path, provider=provider, version=version).born({"a": {0: 0}})
    assert checkpoint(tmp_path).suits_every_gear()  # no batch yet: it takes the session's settings
    logs.plan(0, {"a": {0: 5}})
    logs.commit(0)
    assert checkpoint(tmp_path).suits_every_gear() is fits


def test_a_file_is_written_whole_and_a_stray_file_is_no_folder(tmp_path: Path) -> None:
    folder = open_folder(tmp_path.as_uri())
    folder.write("deep/down/file", "old")
    folder.write("deep/down/file", "new")
    assert folder.read("deep/down/file") == "new"
    assert folder.names("deep/down") == ["file"]
    assert folder.read("deep/down/file/below") is None
    assert folder.names("deep/down/file") == []


def test_the_state_lies_in_the_partitions_of_the_last_commit(tmp_path: Path) -> None:
    logs, found = SparkLogs(tmp_path).born({"a": {0: 0}}), checkpoint(tmp_path)
    assert (found.partitions(), found.has_planned(), found.unfinished_repartition()) == (None, False, None)
    logs.plan(0, {"a": {0: 5}}, partitions=4)
    assert (found.partitions(), found.has_planned(), found.unfinished_repartition()) == (4, True, None)
    logs.commit(0)
    logs.plan(1, {"a": {0: 9}}, partitions=4)
    assert (found.partitions(), found.has_planned(), found.unfinished_repartition()) == (4, True, None)
    logs.commit(1)
    logs.plan(2, {"a": {0: 9}}, partitions=8)
    assert (found.partitions(), found.has_planned(), found.unfinished_repartition()) == (4, True, 2)
    logs.commit(2)
    assert (found.partitions(), found.has_planned(), found.unfinished_repartition()) == (8, False, None)


def test_an_unfinished_move_of_the_state_is_discarded_with_what_it_says_of_its_operators(
    tmp_path: Path,
) -> None:
    logs, found = SparkLogs(tmp_path).born({"a": {0: 0}}), checkpoint(tmp_path)
    logs.plan(0, {"a": {0: 5}})
    logs.commit(0)
    logs.plan(1, {"a": {0: 5}}, partitions=8)
    metadata = tmp_path / "state" / "0" / "_metadata" / "v2"
    metadata.mkdir(parents=True)
    for number in ("0", "1"):
        (metadata / number).write_text("v2")
    found.discard(1)
    found.discard(1)  # a runner that is killed here does it again
    assert (found.planned(), found.unfinished_repartition(), found.partitions()) == ([0], None, 2)
    assert [path.name for path in metadata.iterdir()] == ["0"]
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == [".0.crc", "0"]


def test_an_aggregation_that_began_in_real_time_gets_the_name_that_spark_can_move(tmp_path: Path) -> None:
    described = 'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"%s"},"stateStoreInfo":[]}'
    for number, name in enumerate(("StatefulStreamlineAggregate", "stateStoreSave", "dedupe")):
        path = tmp_path / "state" / str(number) / "_metadata" / "metadata"
        path.parent.mkdir(parents=True)
        path.write_text(described % name)
    checkpoint(tmp_path).name_aggregations()
    found = [(tmp_path / "state" / str(number) / "_metadata" / "metadata").read_text() for number in range(3)]
    assert found == [described % name for name in ("stateStoreSave", "stateStoreSave", "dedupe")]
