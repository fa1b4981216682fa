"""Ends Spark when this process stands still for so long that another runner may have taken its lease.

Spark's Java process goes on while Python is stopped, and its tasks write to topics, which ask for no lease. So a thread
in Java ends that process once a time in a file is over, and a thread here moves the time while this process runs.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from gearshift.errors import LeaseLostError
from gearshift.spark import private
from gearshift.storage.lease import Lease

_FILE = "runner.deadline"
_MOVED_EVERY = 0.25
_NEVER = (1 << 63) - 1


class Fence:
    """The time until which Spark may write."""

    def __init__(self, lease: Lease, home: Path) -> None:
        self._limit = lease.stall_limit
        self._closing = threading.Event()
        self._path = (home / _FILE).absolute()
        if self._limit is None:
            return
        self._path.unlink(missing_ok=True)  # the Java process of an earlier runner may still read it
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._until = time.monotonic() + self._limit
        self._write(self._until)
        self._thread = threading.Thread(target=self._move, name="fence", daemon=True)
        self._thread.start()

    def require(self) -> None:
        """Raise if this process stood still for too long: Spark has then ended."""
        if self._stood_still:
            raise LeaseLostError(
                f"this runner stood still for more than {self._limit:g} s, and another may have taken over",
                hint="start it again, with --standby if another one runs",
            )

    @property
    def _stood_still(self) -> bool:
        return self._limit is not None and time.monotonic() > self._until

    def guard(self, spark: SparkSession) -> None:
        """Let the Java process end itself when the time is over."""
        if self._limit is not None:
            private.jvm(spark).gearshift.Deadline.watch(str(self._path))

    def close(self) -> None:
        """Let the Java process go on."""
        if self._limit is None:
            return
        self._closing.set()
        self._thread.join()
        if not self._stood_still:
            os.pwrite(self._file, struct.pack(">q", _NEVER), 0)
        os.close(self._file)

    def _move(self) -> None:
        assert self._limit is not None
        while not self._closing.wait(_MOVED_EVERY):
            now = time.monotonic()  # once: this process may be stopped anywhere between these lines
            if now > self._until:
                return
            self._write(now + self._limit)

    def _write(self, until: float) -> None:
        # Java's System.nanoTime() is the clock of time.monotonic().
        os.pwrite(self._file, struct.pack(">q", int(until * 1e9)), 0)
        self._until = until
