"""Reads Spark's checkpoint logs without Spark: planned batches, committed batches and their offsets."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gearshift.errors import LedgerError
from gearshift.storage.folders import Folder

Offsets = dict[str, dict[int, int]]
"""Topic → partition → offset."""

_PARTITIONS = "spark.sql.shuffle.partitions"
_IN_REAL_TIME, _IN_OTHER_GEARS = '"StatefulStreamlineAggregate"', '"stateStoreSave"'


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedBatch:
    """One entry of Spark's offset log."""

    id: int
    timestamp_ms: int
    ends: Offsets
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder."""

    folder: Folder

    def query_id(self) -> str | None:
        """The id Spark gave the query when it created the checkpoint."""
        text = self.folder.read("metadata")
        if text is None:
            return None
        with self._reading("metadata"):
            return json.loads(text)["id"]

    def committed(self) -> list[int]:
        """The committed batches, lowest first; Spark keeps about the last hundred."""
        return _batch_ids(self.folder.names("commits"))

    def planned(self) -> list[int]:
        """The batches in Spark's offset log, lowest first."""
        return _batch_ids(self.folder.names("offsets"))

    def batch(self, number: int) -> LoggedBatch | None:
        """The entry of the offset log for a batch."""
        name = f"offsets/{number}"
        text = self.folder.read(name)
        if text is None:
            return None
        with self._reading(name):
            version, metadata, *sources = text.split("\n")
            if version != "v1":
                raise ValueError(f"unknown version {version}")
            described: dict[str, Any] = json.loads(metadata)
            ends: Offsets = {}
            for source in sources:
                if source and source != "-":
                    ends.update(parse_offsets(source))
            return LoggedBatch(
                id=number,
                timestamp_ms=described["batchTimestampMs"],
                ends=ends,
                configuration=described.get("conf", {}),
            )

    def partitions(self) -> int | None:
        """The shuffle partitions in which the state lies; None before the first batch."""
        known = self.committed() or self.planned()
        return self._partitions_of(known[-1]) if known else None

    def unfinished_repartition(self) -> int | None:
        """The batch with which Spark has begun to move the state and did not finish; no query starts on it."""
        committed, planned = self.committed(), self.planned()
        if not committed or not planned or planned[-1] <= committed[-1]:
            return None
        return planned[-1] if self._partitions_of(planned[-1]) != self.partitions() else None

    def has_planned(self) -> bool:
        """Whether a batch is planned and not committed: the next start runs it again."""
        committed, planned = self.committed(), self.planned()
        return bool(planned) and (not committed or committed[-1] < planned[-1])

    def name_aggregations(self) -> None:
        """Give the aggregations of a checkpoint that began in real-time the name that they have in the other gears.

        Their state is the same, but Spark's repartition knows them by that name only.
        """
        for operator in self.folder.names("state"):
            name = f"state/{operator}/_metadata/metadata"
            text = self.folder.read(name)
            if text is not None and _IN_REAL_TIME in text:
                self.folder.write(name, text.replace(_IN_REAL_TIME, _IN_OTHER_GEARS))

    def discard(self, batch: int) -> None:
        """Remove a planned batch that moves the state.

        The state files that it wrote have ids that no commit names, so Spark ignores and later deletes them.
        """
        for operator in self.folder.names("state"):
            self.folder.remove(f"state/{operator}/_metadata/v2/{batch}")
        self.folder.remove(f"offsets/{batch}")

    def _partitions_of(self, batch: int) -> int | None:
        logged = self.batch(batch)
        number = logged.configuration.get(_PARTITIONS) if logged is not None else None
        return int(number) if number is not None else None

    def first_offsets(self) -> Offsets:
        """The offsets at which the query began to read."""
        starts: Offsets = {}
        for source in self.folder.names("sources"):
            text = self.folder.read(f"sources/{source}/0")
            if text and (body := text[text.find("{") :]):
                starts.update(parse_offsets(body))
        return starts

    def next_offsets(self) -> Offsets:
        """The offsets of the next batch, or of the one that has to run again; empty if Spark has not begun to read."""
        committed = self.committed()
        logged = self.batch(committed[-1]) if committed else None
        return logged.ends if logged is not None else self.first_offsets()

    def move_offsets(self, change: Callable[[Offsets], Offsets], aside: Folder) -> None:
        """Change where the next batch begins and keep all state; the original files are copied to `aside`.

        A planned batch that is not committed runs again, so its end is moved too.
        """
        committed, planned = self.committed(), self.planned()
        last = committed[-1] if committed else -1
        names = [f"offsets/{number}" for number in planned if number >= last]
        if not committed:
            names += [f"sources/{source}/0" for source in self.folder.names("sources")]
        for name in names:
            text = self.folder.read(name) or ""
            aside.write(name, text)
            lines = text.split("\n")
            for index, line in enumerate(lines):
                if line.startswith("{") and not (name.startswith("offsets/") and index == 1):
                    lines[index] = json.dumps(change(parse_offsets(line)), separators=(",", ":"))
            self.folder.write(name, "\n".join(lines))

    @contextmanager
    def _reading(self, name: str) -> Generator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LedgerError(
                f"Spark's checkpoint file {self.folder.place(name)} cannot be read: {error}",
                hint="restore the checkpoint from a copy, or start over with gearshift reset",
            ) from None

    def suits_every_gear(self) -> bool:
        """Whether real-time can take this checkpoint over: RocksDB and state format 2 from the first batch on.

        A checkpoint without batches takes the session's settings with its first batch.
        """
        planned = self.planned()
        commits = self.committed()
        if not planned:
            return True
        logged = self.batch(planned[-1])
        rocksdb = logged is not None and "RocksDB" in logged.configuration.get(
            "spark.sql.streaming.stateStore.providerClass", ""
        )
        text = self.folder.read(f"commits/{commits[-1]}") if commits else None
        return rocksdb and (text is None or text.split("\n", 1)[0] == "v2")


def parse_offsets(text: str) -> Offsets:
    """Parse the Kafka source's offsets.

    >>> parse_offsets('{"readings":{"0":5,"1":7}}')
    {'readings': {0: 5, 1: 7}}
    """
    return {
        topic: {int(partition): offset for partition, offset in partitions.items()}
        for topic, partitions in json.loads(text).items()
    }


def flat(offsets: Offsets) -> dict[tuple[str, int], int]:
    """Offsets by (topic, partition), as Kafka's clients take them."""
    return {
        (topic, partition): offset for topic, parts in offsets.items() for partition, offset in parts.items()
    }


def _batch_ids(names: list[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isdigit())
