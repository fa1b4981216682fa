"""Folders on any file system, with the few operations that checkpoints need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gearshift.errors import StorageError
from gearshift.storage.access import REMOTE_SCHEMES, is_hdfs, is_s3
from gearshift.storage.hdfs import HdfsFolder
from gearshift.storage.location import local_path
from gearshift.storage.s3 import S3Folder
from gearshift.storage.shared_files import write_whole


class Folder(Protocol):
    """A folder on any file system."""

    def names(self, folder: str) -> list[str]:
        """The names of the entries in a subfolder; empty if it does not exist."""
        ...

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""
        ...

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        ...

    def place(self, name: str) -> str:
        """The path or URI of a file, for messages."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on a local disk."""

    path: Path

    def names(self, folder: str) -> list[str]:
        """The names of the entries in a subfolder; empty if it does not exist."""
        found = self.path / folder
        return [entry.name for entry in found.iterdir()] if found.is_dir() else []

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        target = self.path / name
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the old text
        write_whole(target, text, for_owner_only=False)

    def remove(self, name: str) -> None:
        """Delete a file, if it exists."""
        target = self.path / name
        target.unlink(missing_ok=True)
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)

    def place(self, name: str) -> str:
        """The path or URI of a file, for messages."""
        return str(self.path / name)


class RemoteFolder(Folder, Protocol):
    """A folder on a store without locks, where a file can be written on condition that there is none."""

    def create(self, name: str, text: str) -> bool:
        """Write a file unless there is one; whether it was written."""
        ...


def open_folder(uri: str) -> Folder:
    """The folder at a URI or plain path.

    >>> open_folder("file:///tmp/a%20b")
    LocalFolder(path=PosixPath('/tmp/a b'))
    """
    path = local_path(uri)
    return LocalFolder(path) if path is not None else open_remote(uri)


def open_remote(uri: str) -> S3Folder | HdfsFolder:
    """The folder at a URI of an object store or of HDFS."""
    if is_s3(uri):
        return S3Folder(uri)
    if is_hdfs(uri):
        return HdfsFolder(uri)
    raise StorageError(
        f"{uri} is not a location for checkpoints", hint=f"use file:, {'://, '.join(REMOTE_SCHEMES)}://"
    )


def move_folder(uri: str, to: str) -> None:
    """Move a folder within its file system."""
    path, target = local_path(uri), local_path(to)
    if path is not None and target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        return
    open_remote(uri).move(to)
