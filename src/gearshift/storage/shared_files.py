"""Files that several processes share: locks, atomic writes, and the permissions of gearshift's home folder."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TextIO

from gearshift.errors import DiskError, SettingsError, StackError

_HINT = "set home to a folder you can write"
_RETRY_SECONDS = 0.05


@contextmanager
def exclusive(path: Path, *, within: timedelta | None = timedelta(minutes=30)) -> Generator[None]:
    """Hold the lock on a file; without `within`, wait for it without a limit."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = None if within is None else time.monotonic() + within.total_seconds()
    while (file := try_lock(path)) is None:
        if deadline is not None and time.monotonic() > deadline:
            raise StackError(
                f"another gearshift process has held {path} for {within}", hint="stop it, then try again"
            )
        time.sleep(_RETRY_SECONDS)
    with file:
        yield


def try_lock(path: Path, *, for_owner_only: bool = True) -> TextIO | None:
    """Lock a file and return it open for appending; None if another process holds the lock.

    Closing the file releases the lock, and so does the kernel if this process dies.
    """
    opener = private if for_owner_only else None
    file = open(path, "a+", encoding="utf-8", opener=opener)  # noqa: SIM115 - the caller closes it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def write_whole(path: Path, text: str, *, for_owner_only: bool = True) -> None:
    """Write a file atomically: a reader sees the old text or the new one, and a crash leaves one of them."""
    path.parent.mkdir(mode=0o700 if for_owner_only else 0o777, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    new.unlink(missing_ok=True)  # left by a killed process that had the same id
    with open(new, "x", encoding="utf-8", opener=private if for_owner_only else None) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # without it, a power cut can leave the new name with an empty file
    new.replace(path)


def private(path: str, flags: int) -> int:
    """Opener for `open`: a file that it creates is readable by its owner only, from the start."""
    return os.open(path, flags, 0o600)


def private_home(home: Path) -> Path:
    """Create gearshift's home folder, which holds passwords and records, for its owner only.

    An existing folder with a name other than `.gearshift` keeps its mode: it may serve other purposes too.
    """
    require_folder(home)
    try:
        ours = home.name == ".gearshift" or not home.exists()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if home.name == ".gearshift":
            narrow(home)
        if ours and not (home / ".gitignore").exists():
            (home / ".gitignore").write_text("*\n", encoding="utf-8")  # a commit would publish the passwords
    except OSError as error:
        raise DiskError(f"cannot write {home}: {error.strerror}", hint=_HINT) from None
    if not os.access(home, os.W_OK | os.X_OK):
        raise DiskError(f"cannot write {home}", hint=_HINT)
    return home


def require_folder(home: Path) -> None:
    """Raise if gearshift's home is a file."""
    if home.exists() and not home.is_dir():
        raise SettingsError(
            f"{home} is a file, not a folder", hint="move it away, or set `home` to another folder"
        )


def narrow(folder: Path) -> None:
    """Remove the permissions of other users from a folder that this user owns."""
    found = folder.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        folder.chmod(0o700)
