"""Files that arrive in a folder: which are whole, and where they go when they are done with."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

TAKEN = "taken"
REFUSED = "refused"
_MUCH_LONGER = 10
_TEMPORARY = (".tmp", ".part", ".partial", ".crdownload", ".swp", "~")


@dataclass(frozen=True, slots=True)
class Seen:
    """What tells one state of a file from the next, without reading it."""

    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> Seen:
        """The state that a stat shows."""
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns)


class Folder:
    """A folder that files are dropped into."""

    def __init__(self, path: Path, suffixes: tuple[str, ...], quiet: timedelta) -> None:
        self.path = path
        self.passed_over: set[str] = set()
        """Names that are in the folder and are not of its format."""
        self._suffixes = suffixes
        self._quiet = quiet.total_seconds()
        self._first_seen: dict[str, tuple[Seen, float]] = {}

    def whole(self) -> list[tuple[Path, Seen]]:
        """The files that nobody writes any more, oldest first."""
        found: list[tuple[int, str, Seen]] = []
        present: dict[str, tuple[Seen, float]] = {}
        passed_over: set[str] = set()
        now = time.monotonic()
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name.endswith(_TEMPORARY):
                    continue
                if not entry.is_file(follow_symlinks=False) or not self._fits(entry.name):
                    if not entry.is_dir(follow_symlinks=False):
                        passed_over.add(entry.name)
                    continue
                with contextlib.suppress(FileNotFoundError):
                    seen = Seen.of(entry.stat(follow_symlinks=False))
                    before = self._first_seen.get(entry.name)
                    since = before[1] if before is not None and before[0] == seen else now
                    present[entry.name] = seen, since
                    if now - since >= self._quiet:
                        found.append((seen.mtime_ns, entry.name, seen))
        self._first_seen, self.passed_over = present, passed_over
        return [(self.path / name, seen) for _, name, seen in sorted(found, key=lambda each: each[:2])]

    def is_long_quiet(self, path: Path) -> bool:
        """Whether a file has not changed for much longer than it must: for those that look as if cut off."""
        _, since = self._first_seen[path.name]
        return time.monotonic() - since >= _MUCH_LONGER * self._quiet

    def put_away(self, path: Path, seen: Seen, where: str) -> Path | None:
        """Move a file into a folder beside it; None if that is not allowed here, or another file has its name now."""
        folder = self.path / where
        try:
            folder.mkdir(exist_ok=True)
            target = _free(folder, path)
            path.rename(target)
        except OSError:
            return None
        if Seen.of(target.lstat()) != seen:
            _put_back(target, path)
            return None
        return target

    def _fits(self, name: str) -> bool:
        return name.lower().endswith(self._suffixes)


def is_being_written(descriptor: int) -> bool:
    """Whether somebody on this machine has the file open for writing; where the system cannot tell, False.

    A lease is what Linux gives to whoever wants to know of writers, and refuses while there is one. A writer that
    comes while we hold it is kept waiting for the microseconds until we let go, and told by a signal that is ignored.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    except AttributeError:
        return False  # not Linux
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _put_back(away: Path, path: Path) -> None:
    """Give a file that was moved by mistake its name again; one of another name if a third file has it by now."""
    try:
        path.hardlink_to(away)  # which, unlike a rename, replaces nothing
        away.unlink()
    except OSError:
        away.rename(_free(path.parent, path))


def _free(folder: Path, path: Path) -> Path:
    """A name in the folder that no other file has: a.csv, a.2.csv, a.3.csv."""
    target, number = folder / path.name, 1
    while target.exists():
        number += 1
        target = folder / f"{path.stem}.{number}{path.suffix}"
    return target
