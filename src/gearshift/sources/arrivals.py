"""Files that arrive in a folder: which are whole, and where they go when they are done with."""

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
_MUCH_LONGER = 10
_LOOKED_AT_FOR = timedelta(minutes=10)
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
        self._put_away: list[tuple[float, Path, Path, Seen]] = []
        self._look_again = 0.0

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
        """Whether a file has not changed for much longer than it must: for those that may not be whole."""
        _, since = self._first_seen[path.name]
        return time.monotonic() - since >= _MUCH_LONGER * self._quiet

    def open(self, path: Path) -> BinaryIO:
        """Open a file to read; a link, a pipe or a device that took its place since it was seen is none."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        return os.fdopen(descriptor, "rb")

    def put_away(self, path: Path, seen: Seen, where: str) -> Path | None:
        """Move a file into a folder next to it; None if that is not allowed here, or another file has its name now."""
        try:
            with _subfolder(self.path / where) as folder:
                target = self.path / where / _free(folder, path.name)
                os.rename(path, target.name, dst_dir_fd=folder)
                found = Seen.of(os.stat(target.name, dir_fd=folder, follow_symlinks=False))
        except OSError as error:
            _log.warning("%s stays where it is: %s", shown(path), error.strerror)
            return None
        if found != seen:
            _put_back(target, path)
            return None
        self._put_away.append((time.monotonic(), path, target, seen))
        return target

    def write_reason(self, refused: Path, words: str) -> None:
        """Leave the reason next to a refused file; whatever a sender put at its place is removed, never followed."""
        name = f"{refused.name}.error"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _subfolder(refused.parent) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "w", encoding="utf-8") as file:
                file.write(words)

    def written_after(self) -> list[Path]:
        """Files that somebody went on writing after they were put away; they are back in the folder, to be taken anew.

        Nobody can tell by a file that a writer who pauses will go on, least of all where the writer is another user:
        so files that were taken are looked at for some minutes more.
        """
        now = time.monotonic()
        if now < self._look_again:
            return []
        self._look_again = now + max(self._quiet, 1.0)
        back: list[Path] = []
        kept: list[tuple[float, Path, Path, Seen]] = []
        for since, path, target, seen in self._put_away:
            with contextlib.suppress(OSError):  # whoever removed it is done with it
                if Seen.of(target.lstat()) != seen:
                    _put_back(target, path)
                    back.append(path)
                elif now - since < _LOOKED_AT_FOR.total_seconds():
                    kept.append((since, path, target, seen))
        self._put_away = kept
        return back

    def _fits(self, name: str) -> bool:
        return name.lower().endswith(self._suffixes)


def is_being_written(descriptor: int) -> bool | None:
    """Whether somebody on this machine has the file open for writing; None where the system does not tell.

    A lease is what Linux gives to whoever wants to know of writers, and refuses while there is one. It is given for
    files of our own user, or to root, on file systems that have leases. A writer that comes while we hold it is kept
    waiting for the microseconds until we let go, and told by a signal that is ignored.
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


def shown(path: Path | str) -> str:
    """A path as text: the bytes of a name that is not UTF-8 as escapes.

    >>> shown(os.fsdecode(b"caf\\xe9.csv"))
    'caf\\\\xe9.csv'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextlib.contextmanager
def _subfolder(path: Path) -> Generator[int]:
    """A folder of ours, made if there is none, open; OSError if a link has its place."""
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def _put_back(away: Path, path: Path) -> None:
    """Give a file that was moved by mistake its name again; one of another name if a third file has it by now."""
    try:
        os.link(away, path, follow_symlinks=False)  # which, unlike a rename, replaces nothing
        away.unlink()
    except OSError:
        with _subfolder(path.parent) as folder:
            away.rename(path.with_name(_free(folder, path.name)))


def _free(folder: int, name: str) -> str:
    """A name in the folder that no other file has: a.csv, a.2.csv, a.3.csv."""
    path, found, number = Path(name), name, 1
    while True:
        try:
            os.stat(found, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return found
        number += 1
        found = f"{path.stem}.{number}{path.suffix}"
