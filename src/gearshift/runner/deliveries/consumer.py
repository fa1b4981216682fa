"""A running consumer of a delivery, in a separate process or in a thread."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gearshift.delivery.assignment import RecordId
from gearshift.delivery.worker import Worker
from gearshift.errors import LoginError
from gearshift.log_lines import in_json
from gearshift.redaction import redact
from gearshift.storage.shared_files import private_home

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery
    from gearshift.settings import Settings

log = logging.getLogger(__name__)


class Consumer(Protocol):
    """A running consumer."""

    began: float

    @property
    def crashed_with(self) -> tuple[RecordId, ...] | None:
        """After a crash of its process the records being handled, if reported; None if it did not crash."""
        ...

    @property
    def status(self) -> dict[str, Any]:
        """Its last reported status."""
        ...

    @property
    def ended(self) -> str | None:
        """Exit reason; None while running."""
        ...

    @property
    def is_final(self) -> bool:
        """Whether another process would end for the same reason, as with a wrong password."""
        ...

    def stop(self) -> None:
        """Ask it to stop."""
        ...

    def await_end(self, seconds: float) -> None:
        """Wait for its end; force it after this time."""
        ...


class ProcessConsumer:
    """A consumer in a separate process."""

    def __init__(
        self,
        delivery: Delivery,
        connection: Connection,
        settings: Settings,
        member: str,
        file: Path,
        crashes: list[tuple[RecordId, int]] | None,
    ) -> None:
        """`crashes` turns on the crash guard; it holds the records to set aside with their number of crashes."""
        self.began = time.monotonic()
        self._status: dict[str, Any] = {}
        self._handling: tuple[RecordId, ...] = ()
        self._failure: str | None = None
        self._is_final = False
        logs = private_home(settings.home.absolute()) / "logs"
        logs.mkdir(exist_ok=True)
        self.log = logs / f"delivery-{delivery.name}-{member.rpartition('.')[2]}.log"
        with self.log.open("ab") as log_file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gearshift.runner.deliveries.consumer_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                start_new_session=True,  # Ctrl-C is for the runner
            )
        task = {
            "file": str(file.absolute()),
            "delivery": delivery.name,
            "member": member,
            "connection": asdict(connection),
            "settings": settings.revealed(),
            "crashes": crashes,
            "log": str(self.log),
            "json": in_json(),
        }
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read_reports, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def status(self) -> dict[str, Any]:
        """Its last reported status."""
        return self._status

    @property
    def ended(self) -> str | None:
        """Exit reason; None while running."""
        code = self._process.poll()
        if code is None:
            return None
        self._reader.join(5)  # reads the last lines
        if self._failure is not None:
            return self._failure
        return f"the process exited with code {code}; see {self.log}"

    @property
    def crashed_with(self) -> tuple[RecordId, ...] | None:
        """The records being handled when it crashed, if reported; None if it stopped or reported a failure."""
        if self._process.poll() in (None, 0) or self.ended == self._failure:
            return None
        return self._handling

    @property
    def is_final(self) -> bool:
        """Whether another process would end for the same reason."""
        return self._is_final

    def stop(self) -> None:
        """Close its stdin, which stops it."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def await_end(self, seconds: float) -> None:
        """Wait for its end; TERM, then KILL."""
        for force in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(seconds)
                break
            except subprocess.TimeoutExpired:
                force()
                seconds = 5.0
        self._process.wait()
        self.stop()
        self._reader.join(5)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read_reports(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(json.JSONDecodeError):
                report = json.loads(line)
                if "failure" in report:
                    self._failure = report["failure"]
                    self._is_final = report["final"]
                elif "handling" in report:
                    self._handling = tuple((each[0], each[1], each[2]) for each in report["handling"])
                else:
                    self._status = report


class ThreadConsumer:
    """A consumer in a thread, for an app that was not loaded from a file."""

    def __init__(
        self, delivery: Delivery, app: str, connection: Connection, settings: Settings, member: str
    ) -> None:
        self.began = time.monotonic()
        self._worker = Worker(delivery, app, connection, settings=settings, member=member)
        self._error: str | None = None
        self._is_final = False
        self._thread = threading.Thread(target=self._run, name=f"delivery {delivery.name}", daemon=True)
        self._thread.start()

    @property
    def crashed_with(self) -> None:
        """None: a crash would end this process as well."""
        return

    @property
    def status(self) -> dict[str, Any]:
        """Its status."""
        return self._worker.status()

    @property
    def ended(self) -> str | None:
        """Exit reason; None while running."""
        return None if self._thread.is_alive() else self._error or "the consumer stopped"

    @property
    def is_final(self) -> bool:
        """Whether another one would end for the same reason."""
        return self._is_final

    def stop(self) -> None:
        """Ask it to stop."""
        self._worker.stop()

    def await_end(self, seconds: float) -> None:
        """Wait for its end; a thread cannot be killed."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._worker.run()
        except Exception as error:
            log.warning("%s", error)
            self._is_final = isinstance(error, LoginError)
            self._error = redact(str(error))
