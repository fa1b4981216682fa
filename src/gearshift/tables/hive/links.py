"""Folders that hold exactly the committed files of a partition at one version, as hard links: no byte is copied."""

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
from gearshift.tables.snapshot import StoredFile

# A name that begins with an underscore is hidden: no reader of the table, and no vacuum, looks into it.
FOLDER = "_gearshift_hive"
# A reader that has found a folder reads it to the end: none takes so long.
_STAYS = timedelta(hours=1)
_PREFIX, _UNFINISHED = "files-", "new-"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV)


class Links:
    """The published folders of one table. Each is named by what it holds, so it never changes once it is there."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self.root = table / FOLDER
        self.empty = self.root / "empty"

    def place(self, partition: Sequence[tuple[str, str | None]], files: Iterable[StoredFile]) -> Path:
        """Where the folder for these files of a partition is, or will be."""
        digest = hashlib.sha256("\n".join(sorted(file.path for file in files)).encode()).hexdigest()[:24]
        return self.root.joinpath(*(folder_of(*value) for value in partition), f"{_PREFIX}{digest}")

    def make(self, place: Path, files: Iterable[StoredFile]) -> None:
        """Fill the folder, at one instant; one that is there holds these files already."""
        if place.is_dir():
            os.utime(place)  # it may have been on its way out
            return
        fresh = self.root / f"{_UNFINISHED}{uuid.uuid4().hex[:12]}"
        fresh.mkdir(parents=True)
        for file in files:
            name = hashlib.sha256(file.path.encode()).hexdigest()[:24]
            _link(self._table / file.path, fresh / f"{name}.parquet")
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh.rename(place)

    def supersede(self, places: Iterable[Path]) -> None:
        """Let the time run from now after which folders go away, for those who read them at this moment."""
        for place in places:
            if place.is_dir():
                os.utime(place)

    def clean(self, keep: Iterable[Path]) -> None:
        """Remove folders that were superseded an hour ago; looks once an hour."""
        looked, before = self.root / "cleaned", time.time() - _STAYS.total_seconds()
        if looked.exists() and looked.stat().st_mtime > before:
            return
        kept = set(keep)
        found = [*self.root.rglob(f"{_PREFIX}*"), *self.root.glob(f"{_UNFINISHED}*")]
        for folder in found:
            if folder not in kept and folder.is_dir() and folder.stat().st_mtime < before:
                shutil.rmtree(folder, ignore_errors=True)
        looked.touch()


def values_of(names: Sequence[str], texts: Sequence[str | None]) -> tuple[str, ...]:
    """A partition's values as Hive keeps them.

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
        shutil.copy2(source, target)  # a file system without links
