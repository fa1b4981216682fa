"""Files that several processes share: a lock that dies with its holder, and writes that are whole or not at all."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from gearshift.errors import DiskError, SettingsError, StackError

_HINT = "set home to a folder you can write"


@contextmanager
def exclusive(path: Path, *, within: timedelta = timedelta(minutes=30)) -> Generator[None]:
    """Hold the lock on a file; the kernel lets it go if this process dies."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = time.monotonic() + within.total_seconds()
    with open(path, "a", opener=private) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StackError(
                        f"another gearshift has held {path} for {within}", hint="end it, then try again"
                    ) from None
                time.sleep(0.05)
        yield


def private(path: str, flags: int) -> int:
    """Open a file as `open` does with this opener: one that it makes is its owner's alone, from its first moment."""
    return os.open(path, flags, 0o600)


def private_home(home: Path) -> Path:
    """The folder with everything of ours, made if it is not there: passwords and records are in it, so nobody else enters.

    One of another name that the user has made keeps its mode: it may be there for more than us.
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
    """Refuse a file in the place of our folder."""
    if home.exists() and not home.is_dir():
        raise SettingsError(
            f"{home} is a file, not a folder", hint="move it away, or set `home` to another folder"
        )


def narrow(folder: Path) -> None:
    """Take the rights of others off a folder of ours."""
    found = folder.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        folder.chmod(0o700)


def write_whole(path: Path, text: str) -> None:
    """Write a file for its owner alone so that a reader sees the old text or the new one, never a part."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)  # left by a process of this number that was killed
    with open(beside, "x", encoding="utf-8", opener=private) as file:
        file.write(text)
    beside.replace(path)
