"""A consumer of a crew, in a process of its own or in a thread."""

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

from gearshift.delivery.care import Spot
from gearshift.delivery.worker import Worker
from gearshift.redaction import redact
from gearshift.stack.files import private_home

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery
    from gearshift.settings import Settings

log = logging.getLogger(__name__)


class Consumer(Protocol):
    """A consumer of the crew, wherever it runs."""

    began: float

    @property
    def crashed_with(self) -> tuple[Spot, ...] | None:
        """After a crash of its process the records that it had in hand, if it told; None if it ended otherwise."""
        ...

    @property
    def status(self) -> dict[str, Any]:
        """What it last told of itself."""
        ...

    @property
    def ended(self) -> str | None:
        """Why it is no more, or None while it runs."""
        ...

    def stop(self) -> None:
        """Ask it to end."""
        ...

    def await_end(self, seconds: float) -> None:
        """Wait for its end, and force it after this time."""
        ...


class OwnProcess:
    """A consumer in a process of its own."""

    def __init__(
        self,
        delivery: Delivery,
        connection: Connection,
        settings: Settings,
        member: str,
        file: Path,
        care: list[tuple[Spot, int]] | None,
    ) -> None:
        """`care` makes it tell what it has in hand; it holds the records to set aside, with their deaths."""
        self.began = time.monotonic()
        self._told: dict[str, Any] = {}
        self._in_hand: tuple[Spot, ...] = ()
        self._failure: str | None = None
        logs = private_home(settings.home.absolute()) / "logs"
        logs.mkdir(exist_ok=True)
        self.log = logs / f"delivery-{delivery.name}-{member.rpartition('.')[2]}.log"
        with self.log.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gearshift.runner.consumer"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for the runner
            )
        task = {
            "file": str(file.absolute()),
            "delivery": delivery.name,
            "member": member,
            "connection": asdict(connection),
            "settings": settings.revealed(),
            "care": care,
        }
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def status(self) -> dict[str, Any]:
        """What it last told of itself."""
        return self._told

    @property
    def ended(self) -> str | None:
        """Why it is no more, or None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        self._reader.join(5)  # until the last line it wrote is read
        if self._failure is not None:
            return self._failure
        return f"the process ended with {code}, see {self.log}"

    @property
    def crashed_with(self) -> tuple[Spot, ...] | None:
        """The records that it had in hand when it crashed, if it told; None if it ended in order, or said why."""
        if self._process.poll() in (None, 0) or self.ended == self._failure:
            return None
        return self._in_hand

    def stop(self) -> None:
        """Close its input, which ends it in order."""
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

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(json.JSONDecodeError):
                told = json.loads(line)
                if "failure" in told:
                    self._failure = told["failure"]
                elif "in_hand" in told:
                    self._in_hand = tuple((spot[0], spot[1], spot[2]) for spot in told["in_hand"])
                else:
                    self._told = told


class OwnThread:
    """A consumer in a thread, for an app that is in no file."""

    def __init__(
        self, delivery: Delivery, app: str, connection: Connection, settings: Settings, member: str
    ) -> None:
        self.began = time.monotonic()
        self._worker = Worker(delivery, app, connection, settings=settings, member=member)
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"delivery {delivery.name}", daemon=True)
        self._thread.start()

    @property
    def crashed_with(self) -> None:
        """A thread that crashes takes all of us with it."""
        return

    @property
    def status(self) -> dict[str, Any]:
        """How it is."""
        return self._worker.status()

    @property
    def ended(self) -> str | None:
        """Why it is no more, or None while it runs."""
        return None if self._thread.is_alive() else self._error or "it ended"

    def stop(self) -> None:
        """Ask it to end."""
        self._worker.stop()

    def await_end(self, seconds: float) -> None:
        """Wait for its end; a thread cannot be forced."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._worker.run()
        except Exception as error:
            log.warning("%s", error)
            self._error = redact(str(error))
