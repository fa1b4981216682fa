"""Folders of hard links to the committed files of a partition at one version."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

from gearshift.tables.partitions import NULL_FOLDER, folder_of
from gearshift.tables.read.snapshot import StoredFile

# A name that begins with an underscore is hidden from the table's readers and from vacuum.
FOLDER = "_gearshift_hive"
_KEPT = timedelta(hours=1)  # for readers that opened a folder before it was superseded
_PREFIX, _UNFINISHED = "files-", "new-"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV)


class Links:
    """The published folders of one table, each named by a digest of its files, so that none ever changes."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self.root = table / FOLDER
        self.empty = self.root / "empty"

    def folder(self, partition: Sequence[tuple[str, str | None]], files: Iterable[StoredFile]) -> Path:
        """The path of the folder for these files of a partition."""
        digest = hashlib.sha256("\n".join(sorted(file.path for file in files)).encode()).hexdigest()[:24]
        return self.root.joinpath(*(folder_of(*value) for value in partition), f"{_PREFIX}{digest}")

    def make(self, folder: Path, files: Iterable[StoredFile]) -> None:
        """Create the folder atomically; an existing one holds these files already."""
        if folder.is_dir():
            os.utime(folder)  # it may have been superseded, and is in use again
            return
        new = self.root / f"{_UNFINISHED}{uuid.uuid4().hex[:12]}"
        new.mkdir(parents=True)
        for file in files:
            name = hashlib.sha256(file.path.encode()).hexdigest()[:24]
            _link(self._table / file.path, new / f"{name}.parquet")
        folder.parent.mkdir(parents=True, exist_ok=True)
        new.rename(folder)

    def supersede(self, folders: Iterable[Path]) -> None:
        """Start the time after which `clean` removes these folders, since they may have readers now."""
        for folder in folders:
            if folder.is_dir():
                os.utime(folder)

    def clean(self, keep: Iterable[Path]) -> None:
        """Remove folders that were superseded more than an hour ago; runs at most once an hour."""
        cleaned, before = self.root / "cleaned", time.time() - _KEPT.total_seconds()
        if cleaned.exists() and cleaned.stat().st_mtime > before:
            return
        kept = set(keep)
        found = [*self.root.rglob(f"{_PREFIX}*"), *self.root.glob(f"{_UNFINISHED}*")]
        for folder in found:
            if folder not in kept and folder.is_dir() and folder.stat().st_mtime < before:
                shutil.rmtree(folder, ignore_errors=True)
        cleaned.touch()


def values_of(names: Sequence[str], texts: Sequence[str | None]) -> tuple[str, ...]:
    """A partition's values as Hive stores them.

    >>> values_of(["day", "place"], ["2026-01-31", None])
    ('2026-01-31', '__HIVE_DEFAULT_PARTITION__')
    """
    return tuple(NULL_FOLDER if text is None else text for _, text in zip(names, texts, strict=True))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(source, target)  # the file system does not support links
