"""Writes a checkpoint folder as Spark 4.3 does: the same files, the same lines."""

from __future__ import annotations

import json
from pathlib import Path

from gearshift.pipelines.ledger.checkpoint import Offsets

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


class SparkLogs:
    """A checkpoint that a query of these settings would leave."""

    def __init__(self, folder: Path, *, provider: str = ROCKSDB, version: str = "v2") -> None:
        self.folder = folder
        self._provider = provider
        self._version = version

    def born(self, first: Offsets, identity: str = "44204b13-2121-457d-a60c-5d07b27ec315") -> SparkLogs:
        """Begin to read at offsets, one source a topic."""
        self._write("metadata", json.dumps({"id": identity}))
        for number, (topic, parts) in enumerate(first.items()):
            self._write(f"sources/{number}/0", f"\0v1\n{_text({topic: parts})}")
        return self

    def plan(self, batch: int, ends: Offsets, timestamp_ms: int = 0, *, partitions: int = 2) -> None:
        """Write a batch's offsets down."""
        configuration = {
            "spark.sql.streaming.stateStore.providerClass": self._provider,
            "spark.sql.shuffle.partitions": str(partitions),
        }
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": timestamp_ms, "conf": configuration}
        sources = [_text({topic: parts}) for topic, parts in ends.items()]
        self._write(f"offsets/{batch}", "\n".join(("v1", json.dumps(metadata), *sources)))

    def commit(self, batch: int) -> None:
        """Write down that a batch is done."""
        done: dict[str, object] = {"nextBatchWatermarkMs": 0}
        if self._version == "v2":
            done["stateUniqueIds"] = {}
        self._write(f"commits/{batch}", f"{self._version}\n{json.dumps(done)}")

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        (path.parent / f".{path.name}.crc").write_bytes(b"crc\0")


def _text(offsets: Offsets) -> str:
    return json.dumps(
        {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()}
    )
