"""Free memory and disk of this machine."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from gearshift.errors import DiskError, TooLittleMemoryError
from gearshift.storage.shared_files import narrow, private_home


def free_memory() -> int:
    """Bytes of available memory."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())
        if found:
            return int(found[1]) * 1024
    # On other systems the standard library gives only the total.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_disk(path: Path) -> int:
    """Free bytes on the disk of this path, which need not exist yet."""
    return shutil.disk_usage(nearest_existing(path)).free


def nearest_existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists.

    >>> str(nearest_existing(Path("/no/such/folder")))
    '/'
    """
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.exists())


def in_gib(size: int) -> str:
    """A size in GiB.

    >>> in_gib(3 << 29)
    '1.5 GiB'
    """
    return f"{size / (1 << 30):.1f} GiB"


def require_memory(needed: int) -> None:
    """Raise unless there is memory to start without swapping or being killed."""
    free = free_memory()
    if free < needed:
        raise TooLittleMemoryError(
            f"{in_gib(free)} of memory available, {in_gib(needed)} needed",
            hint="close other programs",
        )


def require_disk(path: Path, needed: int) -> None:
    """Raise if the disk is nearly full."""
    free = free_disk(path)
    if free < needed:
        raise DiskError(
            f"{in_gib(free)} of disk space free in {nearest_existing(path)}, {in_gib(needed)} needed",
            hint="free disk space, or set home and cache to another disk",
        )


def require_writable(home: Path, path: Path) -> None:
    """Create a private folder in home, or raise DiskError."""
    try:
        private_home(home)
        path.mkdir(exist_ok=True)
        narrow(path)
    except OSError as error:
        raise DiskError(
            f"cannot write to {path}: {error.strerror}", hint="set home to a writable folder"
        ) from None
    if not os.access(path, os.W_OK):
        raise DiskError(f"cannot write to {path}", hint="set home to a writable folder")
