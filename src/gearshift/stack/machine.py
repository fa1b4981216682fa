"""What this machine has left: memory and disk."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from gearshift.errors import DiskError, TooLittleMemoryError
from gearshift.stack.files import narrow, private_home


def free_memory() -> int:
    """How many bytes of memory programs can still have."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())
        if found:
            return int(found[1]) * 1024
    # Elsewhere only the total is to be had from the standard library.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_disk(path: Path) -> int:
    """How many bytes are free where this path is, or will be."""
    return shutil.disk_usage(existing(path)).free


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists.

    >>> str(existing(Path("/no/such/folder")))
    '/'
    """
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def in_words(size: int) -> str:
    """A size in GiB.

    >>> in_words(3 << 29)
    '1.5 GiB'
    """
    return f"{size / (1 << 30):.1f} GiB"


def require_memory(needed: int) -> None:
    """Refuse to start on a machine that would swap or kill what is started."""
    free = free_memory()
    if free < needed:
        raise TooLittleMemoryError(
            f"{in_words(free)} of memory are free, and {in_words(needed)} are needed",
            hint="end other programs",
        )


def require_disk(path: Path, needed: int) -> None:
    """Refuse to start on a disk that is nearly full."""
    free = free_disk(path)
    if free < needed:
        raise DiskError(
            f"{in_words(free)} of disk are free in {existing(path)}, and {in_words(needed)} are needed",
            hint="free some, or set home and cache to another disk",
        )


def require_writable(home: Path, path: Path) -> None:
    """Make a folder of ours in the home that nobody else enters, or say why it cannot be."""
    try:
        private_home(home)
        path.mkdir(exist_ok=True)
        narrow(path)
    except OSError as error:
        raise DiskError(
            f"cannot write {path}: {error.strerror}", hint="set home to a folder you can write"
        ) from None
    if not os.access(path, os.W_OK):
        raise DiskError(f"cannot write {path}", hint="set home to a folder you can write")
