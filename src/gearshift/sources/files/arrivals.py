"""Watches a folder for complete files, and moves them away when they are finished."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import signal
import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

_log = logging.getLogger(__name__)

TAKEN = "taken"
REFUSED = "refused"
_LONG_QUIET_FACTOR = 10
_WATCHED_AFTERWARDS = timedelta(minutes=10)
_TEMPORARY = (".tmp", ".part", ".partial", ".crdownload", ".swp", "~")


@dataclass(frozen=True, slots=True)
class FileState:
    """Identifies one state of a file without reading it."""

    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, stat: os.stat_result) -> FileState:
        """The state in a stat result."""
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns)


class Folder:
    """The folder in which files arrive."""

    def __init__(self, path: Path, suffixes: tuple[str, ...], quiet: timedelta) -> None:
        self.path = path
        self.ignored: set[str] = set()
        """The names in the folder that are not files of its format."""
        self._suffixes = suffixes
        self._quiet = quiet.total_seconds()
        self._first_seen: dict[str, tuple[FileState, float]] = {}
        self._moved: list[tuple[float, Path, Path, FileState]] = []
        self._next_check = 0.0

    def whole(self) -> list[tuple[Path, FileState]]:
        """The files that have not changed for the quiet period, oldest first."""
        found: list[tuple[int, str, FileState]] = []
        present: dict[str, tuple[FileState, float]] = {}
        ignored: set[str] = set()
        now = time.monotonic()
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name.endswith(_TEMPORARY):
                    continue
                if not entry.is_file(follow_symlinks=False) or not self._fits(entry.name):
                    if not entry.is_dir(follow_symlinks=False):
                        ignored.add(entry.name)
                    continue
                with contextlib.suppress(FileNotFoundError):
                    seen = FileState.of(entry.stat(follow_symlinks=False))
                    before = self._first_seen.get(entry.name)
                    since = before[1] if before is not None and before[0] == seen else now
                    present[entry.name] = seen, since
                    if now - since >= self._quiet:
                        found.append((seen.mtime_ns, entry.name, seen))
        self._first_seen, self.ignored = present, ignored
        return [(self.path / name, seen) for _, name, seen in sorted(found, key=lambda each: each[:2])]

    def is_long_quiet(self, path: Path) -> bool:
        """Whether a file has not changed for ten quiet periods; required of files that may be incomplete."""
        _, since = self._first_seen[path.name]
        return time.monotonic() - since >= _LONG_QUIET_FACTOR * self._quiet

    def open(self, path: Path) -> BinaryIO:
        """Open a file for reading, without following a link or blocking on a pipe that has replaced it."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        return os.fdopen(descriptor, "rb")

    def move(self, path: Path, seen: FileState, where: str) -> Path | None:
        """Move a file into a subfolder; None if that is not permitted, or another file has its name now."""
        try:
            with _subfolder(self.path / where) as folder:
                target = self.path / where / _free(folder, path.name)
                os.rename(path, target.name, dst_dir_fd=folder)
                found = FileState.of(os.stat(target.name, dir_fd=folder, follow_symlinks=False))
        except OSError as error:
            _log.warning("cannot move %s: %s", printable(path), error.strerror)
            return None
        if found != seen:
            _put_back(target, path)
            return None
        self._moved.append((time.monotonic(), path, target, seen))
        return target

    def write_reason(self, refused: Path, reason: str) -> None:
        """Write the reason next to a refused file, replacing anything a sender put there, even a link."""
        name = f"{refused.name}.error"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _subfolder(refused.parent) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "w", encoding="utf-8") as file:
                file.write(reason)

    def changed_after_move(self) -> list[Path]:
        """Files that changed after they were moved away; they are moved back, to be ingested again.

        A file does not show that its writer only paused, least of all a writer of another user. Files are therefore
        watched for some minutes after they were ingested.
        """
        now = time.monotonic()
        if now < self._next_check:
            return []
        self._next_check = now + max(self._quiet, 1.0)
        back: list[Path] = []
        kept: list[tuple[float, Path, Path, FileState]] = []
        for since, path, target, seen in self._moved:
            with contextlib.suppress(OSError):  # it was removed
                if FileState.of(target.lstat()) != seen:
                    _put_back(target, path)
                    back.append(path)
                elif now - since < _WATCHED_AFTERWARDS.total_seconds():
                    kept.append((since, path, target, seen))
        self._moved = kept
        return back

    def _fits(self, name: str) -> bool:
        return name.lower().endswith(self._suffixes)


def is_being_written(descriptor: int) -> bool | None:
    """Whether a process on this machine has the file open for writing; None if that cannot be determined.

    Linux refuses a read lease on a file that is open for writing. Leases are available for files of our own user, or
    to root, on file systems that support them. A writer that opens the file while we hold the lease waits for the
    microseconds until we release it; the signal about it is ignored.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    except AttributeError:
        return None  # not Linux
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def printable(path: Path | str) -> str:
    """A path as text, with the bytes of a name that is not UTF-8 as escapes.

    >>> printable(os.fsdecode(b"caf\\xe9.csv"))
    'caf\\\\xe9.csv'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextlib.contextmanager
def _subfolder(path: Path) -> Generator[int]:
    """A file descriptor of a subfolder, created if missing; OSError if it is a link."""
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def _put_back(away: Path, path: Path) -> None:
    """Move a file back to its name, or to a free name if another file has it by now."""
    try:
        os.link(away, path, follow_symlinks=False)  # unlike a rename, this never replaces a file
        away.unlink()
    except OSError:
        with _subfolder(path.parent) as folder:
            away.rename(path.with_name(_free(folder, path.name)))


def _free(folder: int, name: str) -> str:
    """A free name in the folder: a.csv, a.2.csv, a.3.csv."""
    path, found, number = Path(name), name, 1
    while True:
        try:
            os.stat(found, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return found
        number += 1
        found = f"{path.stem}.{number}{path.suffix}"
