"""Leases: one runner per app, because two would duplicate the records and count each other's batches.

On a local disk the lease is a file lock, which ends with its process. Remote stores have no locks: there it is a
numbered file that its holder renews. It is free once another runner has watched it for four intervals without a
renewal, and whoever creates the file with the next number has it: the store lets only one. The number is the fencing
token.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

from gearshift.errors import LeaseLostError, RunnerError, StorageUnreachableError
from gearshift.storage.folders import Folder, LocalFolder, RemoteFolder
from gearshift.storage.shared_files import try_lock

log = logging.getLogger(__name__)

FILE = ".lease.json"
FOLDER = ".lease"
_RENEWED_EVERY = 1.5
_FREE_AFTER = 4  # intervals without a renewal
_STALLED_AFTER = 3.5 / _RENEWED_EVERY  # intervals: less than four, and one between two renewals
_TRIED_EVERY = 0.1  # seconds between attempts to lock a file

StandBy = Callable[[str], None]
"""Called with who holds what this process waits for."""


class Lease(Protocol):
    """The right to run an app on its checkpoints."""

    @property
    def stall_limit(self) -> float | None:
        """How many seconds its holder may stand still before another may have taken it; None if nobody can."""
        ...

    @property
    def next(self) -> str | None:
        """The URI of the file with which another runner takes it; None if nobody can."""
        ...

    def require(self) -> None:
        """Raise LeaseLostError if another runner has taken the lease."""
        ...

    def release(self) -> None:
        """Release the lease."""
        ...


def take(folder: Folder, *, home: Path, stand_by: StandBy | None = None) -> Lease:
    """Take the lease on an app's folder of checkpoints; RunnerError names the runner that holds it.

    With `stand_by`, wait until it is free.
    """
    if isinstance(folder, LocalFolder):
        return _LockedLease(folder, home, stand_by)
    return RenewedLease(cast("RemoteFolder", folder), home, stand_by=stand_by)


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
        """Write a file atomically; LeaseLostError if another runner has taken the lease."""
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
    stall_limit = None
    next = None

    def __init__(self, folder: LocalFolder, home: Path, stand_by: StandBy | None) -> None:
        path = folder.path / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        waits_for = ""
        while (file := try_lock(path, for_owner_only=False)) is None:
            if stand_by is None:
                raise RunnerError(_held(folder, FILE), hint=_HINT)
            if (held := _held(folder, FILE)) != waits_for:
                waits_for = held
                stand_by(held)
            time.sleep(_TRIED_EVERY)
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
        self,
        folder: RemoteFolder,
        home: Path,
        *,
        stand_by: StandBy | None = None,
        renewed_every: float = _RENEWED_EVERY,
    ) -> None:
        self._folder, self._every = folder, renewed_every
        self._lost = False
        self._closing = threading.Event()
        self._lock = threading.Lock()
        while True:
            newest = _Watch(folder, renewed_every * _FREE_AFTER, stand_by).await_free(every=renewed_every / 4)
            self.number = newest + 1
            self._holder = {**_holder(home), "id": uuid.uuid4().hex}
            self._renewed = time.monotonic()
            if folder.create(_file(self.number), self._text()):
                break
            if stand_by is None:
                raise RunnerError(_held(folder, _file(self.number)), hint=_HINT)
        if newest > 0:
            folder.remove(_file(newest))
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    @property
    def stall_limit(self) -> float:
        """How many seconds its holder may stand still before another may have taken it."""
        return self._every * _STALLED_AFTER

    @property
    def next(self) -> str:
        """The URI of the file with which another runner takes it."""
        return self._folder.place(_file(self.number + 1))

    def require(self) -> None:
        """Raise if another runner has taken the lease, or may have taken it because this process stalled."""
        # A process that was stopped for a while runs this before its own thread has looked.
        if not self._lost and time.monotonic() - self._renewed > 2 * self._every:
            self._renew()
        if self._lost:
            held = _held(self._folder, _file(_newest(self._folder)))
            raise LeaseLostError(
                f"{held}; this one did not renew its lease in time", hint="leave it to that one"
            )

    def release(self) -> None:
        """Release the lease, so that another runner need not wait for it to expire."""
        self._closing.set()
        self._thread.join()
        if not self._lost and _newest(self._folder) == self.number:
            self._folder.write(_file(self.number), json.dumps({"released": True}))

    def _keep(self) -> None:
        while not self._closing.wait(self._every) and not self._lost:
            try:
                self._renew()
            except Exception as error:
                log.warning("could not renew the lease of the checkpoints: %s", error)

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


class _Watch:
    """Looks at a lease until it is free: by its content and not by its times, since clocks may disagree."""

    def __init__(self, folder: RemoteFolder, free_after: float, stand_by: StandBy | None) -> None:
        self._folder, self._free_after, self._stand_by = folder, free_after, stand_by
        self._number = 0
        self._seen: str | None = None
        self._until = 0.0
        self._waits_for: Any = None

    def await_free(self, *, every: float) -> int:
        """The number of the newest lease, once nobody has it."""
        while True:
            try:
                if self._is_free():
                    return self._number
            except StorageUnreachableError as error:
                if self._stand_by is None:
                    raise
                log.warning("standing by, but the lease cannot be read: %s", error)
                self._seen = None  # its holder could not renew it either
            time.sleep(every)

    def _is_free(self) -> bool:
        found = self._folder.read(_file(self._number)) if self._number else None
        if found is None or (found == self._seen and time.monotonic() > self._until):
            newest = _newest(self._folder)
            if newest == self._number:
                return found is not None or newest == 0
            self._number, self._seen = newest, None
            return self._is_free()
        if "released" in found:
            return True
        if found != self._seen:
            if self._seen is not None:
                self._refuse_or_stand_by(found)
            self._seen, self._until = found, time.monotonic() + self._free_after
        return False

    def _refuse_or_stand_by(self, renewed: str) -> None:
        held = _held(self._folder, _file(self._number))
        if self._stand_by is None:
            raise RunnerError(held, hint=_HINT)
        holder = _parsed(renewed).get("id")
        if holder != self._waits_for:
            self._waits_for = holder
            self._stand_by(held)


def _file(number: int) -> str:
    return f"{FOLDER}/{number:08}.json"


def _newest(folder: Folder) -> int:
    """The number of the newest lease; 0 without one."""
    names = (name.removesuffix(".json") for name in folder.names(FOLDER))
    return max((int(name) for name in names if name.isdigit()), default=0)


def _holder(home: Path) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "pid": os.getpid(), "home": str(home.absolute()), "since": now}


_HINT = "stop it, wait for its end with --standby, or set another checkpoints folder for this one"


def _held(folder: Folder, file: str) -> str:
    holder = _parsed(folder.read(file) or "{}")
    process = (
        f"process {holder['pid']} on {holder['host']} in {holder['home']}"
        if "pid" in holder
        else "another process"
    )
    since = f", since {holder['since']}" if "since" in holder else ""
    return f"another runner has the checkpoints in {folder.place('').rstrip('/')}: {process}{since}"


def _parsed(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        return {}
