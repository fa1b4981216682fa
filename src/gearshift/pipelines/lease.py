"""One runner per checkpoint: two would both read and write everything, and each would call the other's batches its own.

On a disk the lease is a lock that ends with its process. Elsewhere, where there are no locks, it is a file that its
holder renews; it is free when nobody has renewed it for as long as somebody who wants it watched.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gearshift.errors import RunnerError
from gearshift.pipelines.checkpoint import Folder, LocalFolder

if TYPE_CHECKING:
    from io import TextIOWrapper

log = logging.getLogger(__name__)

FILE = "lease.json"
_RENEWED_EVERY = 5.0
_WRITERS_MEET_WITHIN = 1.0  # of two that write a free lease at once, the later write stays


class Lease(Protocol):
    """The right to run a pipeline on its checkpoint."""

    def require(self) -> None:
        """Raise if somebody else has it by now."""
        ...

    def release(self) -> None:
        """Let others have it."""
        ...


def take(folder: Folder, pipeline: str, *, home: Path) -> Lease:
    """Take the lease of a pipeline's folder; refused, with who has it, while another runner holds it."""
    if isinstance(folder, LocalFolder):
        return _Lock(folder, pipeline, home)
    return RenewedLease(folder, pipeline, home)


class _Lock:
    def __init__(self, folder: LocalFolder, pipeline: str, home: Path) -> None:
        path = folder.path / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIOWrapper = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise _held(folder, pipeline) from None
        self._file.truncate(0)
        self._file.write(json.dumps(_holder(home)))
        self._file.flush()

    def require(self) -> None:
        """Nothing: nobody can take a lock."""

    def release(self) -> None:
        """Let others have it."""
        self._file.close()


class RenewedLease:
    """A lease where there are no locks: a file that its holder renews."""

    def __init__(
        self, folder: Folder, pipeline: str, home: Path, *, renewed_every: float = _RENEWED_EVERY
    ) -> None:
        self._folder, self._pipeline, self._every = folder, pipeline, renewed_every
        self._holder = {**_holder(home), "id": uuid.uuid4().hex}
        self._lost = False
        self._closing = threading.Event()
        self._await_free()
        self._renew()
        time.sleep(min(_WRITERS_MEET_WITHIN, renewed_every))
        if not self._is_ours():
            raise _held(folder, pipeline)
        self._thread = threading.Thread(target=self._keep, name=f"lease {pipeline}", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Raise if somebody else has it by now: this process stood still for too long."""
        if self._lost:
            raise _held(self._folder, self._pipeline)

    def release(self) -> None:
        """Let others have it at once."""
        self._closing.set()
        self._thread.join()
        if not self._lost:
            self._folder.write(FILE, json.dumps({"released": True}))

    def _await_free(self) -> None:
        """Return when the lease is free. Watching it needs no two clocks that agree."""
        found = self._folder.read(FILE)
        until = time.monotonic() + 3 * self._every  # a renewal may come late
        while found and "released" not in found:
            time.sleep(self._every / 5)
            if self._folder.read(FILE) != found:
                raise _held(self._folder, self._pipeline)
            if time.monotonic() > until:
                return

    def _keep(self) -> None:
        while not self._closing.wait(self._every):
            try:
                if not self._is_ours():
                    self._lost = True
                    return
                self._renew()
            except Exception as error:
                log.warning("%s: the lease of its checkpoint was not renewed: %s", self._pipeline, error)

    def _renew(self) -> None:
        self._folder.write(FILE, json.dumps({**self._holder, "renewed": datetime.now(UTC).isoformat()}))

    def _is_ours(self) -> bool:
        return _read(self._folder).get("id") == self._holder["id"]


def _holder(home: Path) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "pid": os.getpid(), "home": str(home.absolute()), "since": now}


def _held(folder: Folder, pipeline: str) -> RunnerError:
    who = _read(folder)
    words = f"process {who['pid']} on {who['host']} in {who['home']}" if "pid" in who else "another process"
    since = f", since {who['since']}" if "since" in who else ""
    return RunnerError(
        f"another runner has the checkpoint {folder.place('spark')}: {words}{since}",
        hint="stop it, or give this one checkpoints of its own",
        pipeline=pipeline,
    )


def _read(folder: Folder) -> dict[str, Any]:
    try:
        return dict(json.loads(folder.read(FILE) or "{}"))
    except (ValueError, TypeError):
        return {}
