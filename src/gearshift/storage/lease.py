"""Leases: one runner per checkpoint, because two would duplicate the records and count each other's batches.

On a local disk the lease is a file lock, which ends with its process. Remote stores have no locks: there it is a
numbered file that its holder renews. It is free once a new runner has watched it for three intervals without a renewal,
and whoever creates the file with the next number has it: the store lets only one. The number is the fencing token.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

from gearshift.errors import RunnerError
from gearshift.storage.folders import Folder, LocalFolder, RemoteFolder
from gearshift.storage.shared_files import try_lock

log = logging.getLogger(__name__)

FILE = "lease.json"
FOLDER = "lease"
_RENEWED_EVERY = 2.5


class Lease(Protocol):
    """The right to run a pipeline on its checkpoint."""

    def require(self) -> None:
        """Raise if another runner has taken the lease."""
        ...

    def release(self) -> None:
        """Release the lease."""
        ...


def take(folder: Folder | RemoteFolder, pipeline: str, *, home: Path) -> Lease:
    """Take the lease on a pipeline's folder; RunnerError names the runner that holds it."""
    if isinstance(folder, LocalFolder):
        return _LockedLease(folder, pipeline, home)
    return RenewedLease(cast("RemoteFolder", folder), pipeline, home)


@dataclass(frozen=True, slots=True)
class Fenced:
    """A folder that is written only while its lease is held."""

    folder: Folder
    lease: Lease

    def names(self, folder: str) -> list[str]:
        """The names of the entries in a subfolder; empty if it does not exist."""
        return self.folder.names(folder)

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""
        return self.folder.read(name)

    def write(self, name: str, text: str) -> None:
        """Write a file atomically; RunnerError if another runner has taken the lease."""
        self.lease.require()
        self.folder.write(name, text)

    def remove(self, name: str) -> None:
        """Delete a file, if it exists; RunnerError if another runner has taken the lease."""
        self.lease.require()
        self.folder.remove(name)

    def place(self, name: str) -> str:
        """The path or URI of a file, for messages."""
        return self.folder.place(name)


class _LockedLease:
    def __init__(self, folder: LocalFolder, pipeline: str, home: Path) -> None:
        path = folder.path / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        file = try_lock(path, for_owner_only=False)
        if file is None:
            raise _held(folder, pipeline, FILE)
        self._file = file
        self._file.truncate(0)
        self._file.write(json.dumps(_holder(home)))
        self._file.flush()

    def require(self) -> None:
        """Do nothing: a lock cannot be lost."""

    def release(self) -> None:
        """Release the lock."""
        self._file.close()


class RenewedLease:
    """A lease on a store without locks: a file that its holder renews."""

    def __init__(
        self, folder: RemoteFolder, pipeline: str, home: Path, *, renewed_every: float = _RENEWED_EVERY
    ) -> None:
        self._folder, self._pipeline, self._every = folder, pipeline, renewed_every
        self._holder = {**_holder(home), "id": uuid.uuid4().hex}
        self._lost = False
        self._closing = threading.Event()
        self._lock = threading.Lock()
        newest = self._await_free()
        self.number = newest + 1
        self._renewed = time.monotonic()
        if not folder.create(_file(self.number), self._text()):
            raise self._held_by(self.number)
        if newest > 0:
            folder.remove(_file(newest))
        self._thread = threading.Thread(target=self._keep, name=f"lease {pipeline}", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Raise if another runner has taken the lease, or may have taken it because this process stalled."""
        # A process that was stopped for a while runs this before its own thread has looked.
        if not self._lost and time.monotonic() - self._renewed > 2 * self._every:
            self._renew()
        if self._lost:
            raise self._held_by(_newest(self._folder))

    def release(self) -> None:
        """Release the lease, so that another runner need not wait for it to expire."""
        self._closing.set()
        self._thread.join()
        if not self._lost and _newest(self._folder) == self.number:
            self._folder.write(_file(self.number), json.dumps({"released": True}))

    def _await_free(self) -> int:
        """Watch until the lease is free; comparing its content instead of times, since clocks may disagree."""
        newest = _newest(self._folder)
        found = self._folder.read(_file(newest)) if newest else None
        until = time.monotonic() + 3 * self._every  # a renewal may come late
        while found and "released" not in found and time.monotonic() < until:
            time.sleep(self._every / 5)
            if self._folder.read(_file(newest)) != found:
                raise self._held_by(_newest(self._folder))
        return newest

    def _keep(self) -> None:
        while not self._closing.wait(self._every) and not self._lost:
            try:
                self._renew()
            except Exception as error:
                log.warning("%s: could not renew the checkpoint's lease: %s", self._pipeline, error)

    def _renew(self) -> None:
        with self._lock:
            if self._closing.is_set():
                return  # or a write after the release would take it again
            began = time.monotonic()
            if _newest(self._folder) != self.number:
                self._lost = True
                return
            self._folder.write(_file(self.number), self._text())
            self._renewed = began

    def _text(self) -> str:
        return json.dumps({**self._holder, "renewed": datetime.now(UTC).isoformat()})

    def _held_by(self, number: int) -> RunnerError:
        return _held(self._folder, self._pipeline, _file(number))


def _file(number: int) -> str:
    return f"{FOLDER}/{number:08}.json"


def _newest(folder: Folder) -> int:
    """The number of the newest lease; 0 without one."""
    names = (name.removesuffix(".json") for name in folder.names(FOLDER))
    return max((int(name) for name in names if name.isdigit()), default=0)


def _holder(home: Path) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "pid": os.getpid(), "home": str(home.absolute()), "since": now}


def _held(folder: Folder, pipeline: str, file: str) -> RunnerError:
    holder = _read(folder, file)
    process = (
        f"process {holder['pid']} on {holder['host']} in {holder['home']}"
        if "pid" in holder
        else "another process"
    )
    since = f", since {holder['since']}" if "since" in holder else ""
    return RunnerError(
        f"another runner has the checkpoint {folder.place('spark')}: {process}{since}",
        hint="stop it, or set another checkpoints folder for this one",
        pipeline=pipeline,
    )


def _read(folder: Folder, file: str) -> dict[str, Any]:
    try:
        return dict(json.loads(folder.read(file) or "{}"))
    except (ValueError, TypeError):
        return {}
