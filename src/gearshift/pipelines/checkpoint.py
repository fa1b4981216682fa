"""Spark's own checkpoint logs, read without Spark: what was planned, what was committed, over which offsets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gearshift.errors import LedgerError
from gearshift.location import local_path

Offsets = dict[str, dict[int, int]]
"""Topic → partition → offset."""


class Folder(Protocol):
    """A folder on any file system, with the few things a checkpoint needs."""

    def names(self, folder: str) -> list[str]: ...
    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...
    def place(self, name: str) -> str: ...


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on this machine."""

    path: Path

    def names(self, folder: str) -> list[str]:
        """The files in a subfolder."""
        found = self.path / folder
        return [entry.name for entry in found.iterdir()] if found.is_dir() else []

    def read(self, name: str) -> str | None:
        """A file's text, or None if there is no such file."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, text: str) -> None:
        """Write a file whole: a reader sees the old text or the new, a crash leaves one of them."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.new")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # or a power cut leaves the new name with nothing in it
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the old text
        fresh.replace(target)

    def place(self, name: str) -> str:
        """Where a file is, for people."""
        return str(self.path / name)


class RemoteFolder:
    """A folder on an object store or HDFS, through Arrow's file systems."""

    def __init__(self, uri: str) -> None:
        from importlib import import_module

        fs: Any = import_module("pyarrow.fs")  # which has no types
        self._fs: Any
        self._path: str
        self._fs, self._path = fs.FileSystem.from_uri(uri)
        self._uri = uri
        self._selector: Any = fs.FileSelector

    def names(self, folder: str) -> list[str]:
        """The files in a subfolder."""
        found = self._fs.get_file_info(self._selector(f"{self._path}/{folder}", allow_not_found=True))
        return [entry.base_name for entry in found]

    def read(self, name: str) -> str | None:
        """A file's text, or None if there is no such file."""
        try:
            with self._fs.open_input_stream(f"{self._path}/{name}") as stream:
                return stream.read().decode("utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Write a file; object stores publish it whole when the stream closes."""
        with self._fs.open_output_stream(f"{self._path}/{name}") as stream:
            stream.write(text.encode("utf-8"))

    def place(self, name: str) -> str:
        """Where a file is, for people."""
        return f"{self._uri}/{name}"


def open_folder(uri: str) -> Folder:
    """The folder behind a URI or a plain path.

    >>> open_folder("file:///tmp/a%20b")
    LocalFolder(path=PosixPath('/tmp/a b'))
    """
    path = local_path(uri)
    return LocalFolder(path) if path is not None else RemoteFolder(uri)


def move_folder(uri: str, to: str) -> None:
    """Give a folder another place on the same file system."""
    path, target = local_path(uri), local_path(to)
    if path is not None and target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        return
    from importlib import import_module

    fs: Any = import_module("pyarrow.fs")
    system, source = fs.FileSystem.from_uri(uri)
    target_path = fs.FileSystem.from_uri(to)[1]
    system.create_dir(target_path.rsplit("/", 1)[0], recursive=True)
    system.move(source, target_path)


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
        """The identity Spark gave the query when the checkpoint was born."""
        text = self.folder.read("metadata")
        if text is None:
            return None
        with self._reading("metadata"):
            return json.loads(text)["id"]

    def committed(self) -> list[int]:
        """The batches Spark has finished for good, lowest first; it keeps the last hundred or so."""
        return _batch_ids(self.folder.names("commits"))

    def planned(self) -> list[int]:
        """The batches whose offsets Spark has written down, lowest first."""
        return _batch_ids(self.folder.names("offsets"))

    def batch(self, number: int) -> LoggedBatch | None:
        """The offset log's entry for a batch."""
        name = f"offsets/{number}"
        text = self.folder.read(name)
        if text is None:
            return None
        with self._reading(name):
            version, metadata, *sources = text.split("\n")
            if version != "v1":
                raise ValueError(f"version {version} is unknown")
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

    def first_offsets(self) -> Offsets:
        """Where the query began to read, before its first batch."""
        starts: Offsets = {}
        for source in self.folder.names("sources"):
            text = self.folder.read(f"sources/{source}/0")
            if text and (body := text[text.find("{") :]):
                starts.update(parse_offsets(body))
        return starts

    def next_offsets(self) -> Offsets:
        """Where the next batch begins, or the one that has to run again; empty if Spark has not begun to read."""
        committed = self.committed()
        logged = self.batch(committed[-1]) if committed else None
        return logged.ends if logged is not None else self.first_offsets()

    def move_offsets(self, change: Callable[[Offsets], Offsets], aside: Folder) -> None:
        """Change where the next batch begins, with all state kept; the files as they were go aside.

        A batch that is planned and not committed runs again, and so its end is moved too.
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
                hint="put the checkpoint back from a copy, or start over on purpose with gearshift reset",
            ) from None

    def is_born_for_every_gear(self) -> bool:
        """Whether real-time can take this checkpoint over: RocksDB and state format 2 from the first batch on.

        A checkpoint without batches takes the session's settings when it gets its first.
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
    """Read the Kafka source's offsets.

    >>> parse_offsets('{"readings":{"0":5,"1":7}}')
    {'readings': {0: 5, 1: 7}}
    """
    return {
        topic: {int(partition): offset for partition, offset in partitions.items()}
        for topic, partitions in json.loads(text).items()
    }


def flat(offsets: Offsets) -> dict[tuple[str, int], int]:
    """The same by topic and partition, as Kafka's clients want it."""
    return {
        (topic, partition): offset for topic, parts in offsets.items() for partition, offset in parts.items()
    }


def _batch_ids(names: list[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isdigit())
