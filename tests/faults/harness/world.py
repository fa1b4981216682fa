"""The services, the receivers, the app in a process of its own, and the flow of records into it."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from confluent_kafka.admin import AdminClient

from gearshift import stack as local
from gearshift.console.client import ask
from gearshift.errors import GearshiftError, RunnerError
from gearshift.settings import load
from gearshift.stack.processes.restarts import ServiceSupervisor
from gearshift.topics import Admin
from tests.faults.harness.app import declare
from tests.faults.harness.flow import Flow
from tests.faults.harness.receivers import Receiver
from tests.faults.processes import RunnerProcess
from tests.gateways.smtp import SmtpGateway
from tests.support import eventually, librdkafka

GROUPS = ("postgres", "cassandra", "topic", "webhook", "sms", "email")
PIPELINES = ("copy", "keep", "total")
_DRAINED_WITHIN = 240.0
_SERVICES = "cassandra,postgres"
_COMMAND = re.compile(r"gearshift (?:resume|reset) [^\n;`\"']*")


class World:
    """Everything that a fault can reach."""

    def __init__(self, folder: Path, *, seed: int, rate: float = 40, mutant: str | None = None) -> None:
        self.folder = folder
        self.seed = seed
        self.chance = random.Random(seed)
        self.kills = 0
        self.lost_mail_answers = 0
        self.gone: set[tuple[str, int]] = set()
        """The records that were deleted before anybody could have read them."""
        self.followed: list[str] = []
        """The commands that errors named, and that were followed."""
        self.log: Callable[[str], None] = print
        self._rate = rate
        self._mutant = mutant
        self._app: RunnerProcess | None = None
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.__exit__(kind, error, trace)

    def _open(self) -> None:
        enter = self._exit.enter_context
        self.settings = load(
            {
                "home": self.folder / ".gearshift",
                "services": _SERVICES,
                "checkpoint_interval": "5 seconds",
            },
            folder=self.folder,
            environ={},
        )
        self.stack = enter(local.up(self.settings))
        enter(ServiceSupervisor(self.stack, progress=lambda words: self.log(words)))
        self.connection = self.stack.connection
        self.admin = enter(Admin(self.connection))
        self.kafka = AdminClient({**librdkafka(self.connection), "log_level": 0})
        self.database = enter(psycopg.connect(self.stack.address("postgres"), autocommit=True))
        self.database.execute('create table arrivals (nr bigserial, "key" text, n bigint)')
        self.webhook = enter(Receiver(deduplicate=True))
        self.sms = enter(Receiver(accounts={"AC1": "secret"}))
        self.smtp = enter(SmtpGateway(users={"me": "secret"}))
        self._clock = self.folder / "clock"
        self.set_clock_ahead(0.0)
        options: dict[str, Any] = {
            "webhook": self.webhook.url,
            "sms": self.sms.url,
            "smtp": self.smtp.port,
            "clock": str(self._clock),
            "mutant": self._mutant,
        }
        (self.folder / "app.py").write_text(
            f"from tests.faults.harness.app import declare\n\napp = declare(**{options!r})\n",
            encoding="utf-8",
        )
        (self.folder / "gearshift.toml").write_text(
            f'home = "{self.settings.home}"\nservices = "{_SERVICES}"\ncheckpoint_interval = "5 seconds"\n',
            encoding="utf-8",
        )
        self.declared = declare(**{**options, "mutant": None})
        topics = self.declared.graph.topics
        self.admin.ensure(topics.values())
        self._exit.callback(self._end_app)
        self.start_app()
        self.flow = enter(
            Flow(self.connection, topics["numbered"], rate=self._rate, chance=random.Random(self.seed))
        )

    # the app

    def start_app(self) -> None:
        """`gearshift run`; returns when all of it is started, whatever state it is in."""
        self._app = RunnerProcess.of_file(self.settings, self.folder, "app.py")

        def started() -> bool:
            status = self.status()
            return status is not None and len(status["deliveries"]) == len(GROUPS)

        try:
            eventually(started)
        except AssertionError:
            raise AssertionError(f"the app did not start:\n{self._app.said()}") from None

    def kill_app(self) -> None:
        """`kill -9` of the runner; its consumers end by themselves."""
        assert self._app is not None
        self.kills += 1
        self._app.kill()

    def stop_app(self) -> None:
        """Ctrl-C."""
        assert self._app is not None
        self._app.stop()

    def status(self) -> dict[str, Any] | None:
        """How the app is; None while it does not answer."""
        with suppress(RunnerError, OSError):
            return next(ask(self.settings.home, "GET", "/api/status"))
        return None

    def shift(self, pipeline: str, gear: str) -> str:
        """What a shift came to; under faults it may be refused or rolled back."""
        assert self._app is not None
        try:
            self._app.shift(pipeline, gear)
            return "done"
        except GearshiftError as error:
            return f"refused: {error}"

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`gearshift …` in the app's folder."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
        return subprocess.run(
            [Path(sys.executable).with_name("gearshift"), *words],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def data(self, *words: str) -> Any:
        """What a command prints with `-o json`."""
        done = self.command(*words, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def consumers(self) -> list[int]:
        """The processes of the deliveries."""
        status = self.status()
        return [pid for delivery in status["deliveries"] for pid in delivery["pids"]] if status else []

    def follow_advice(self) -> None:
        """Wait until each pipeline runs or says which command makes it go on, and give those commands.

        The commands want no runner: it is stopped for them.
        """

        def advised() -> list[str] | None:
            status = self.status()
            if status is None:
                return None
            found: list[str] = []
            for pipeline in status["pipelines"]:
                words = _COMMAND.search(pipeline["error"] or "")
                if words is not None:
                    found.append(words[0].strip())
                elif pipeline["state"] not in ("running", "waiting"):
                    return None
            return found

        # A pipeline finds out while it runs, some seconds after it happened.
        deadline = time.monotonic() + 60
        commands: list[str] = []
        while time.monotonic() < deadline and len(commands) < len(PIPELINES):
            commands = eventually(lambda: [advised()])[0] or []
            time.sleep(0.5)
        if not commands:
            return
        self.stop_app()
        for words in commands:
            done = self.command(*shlex.split(words)[1:])
            assert done.returncode == 0, f"{words} failed: {done.stdout}{done.stderr}"
            self.followed.append(words)
        self.start_app()

    def _end_app(self) -> None:
        if self._app is not None:
            self._app.__exit__(None, None, None)

    # the services

    def pid_of(self, service: str) -> int:
        """The process of a service."""
        return next(each.pid.number for each in self.stack.services if each.name == service)

    def kill_service(self, name: str) -> None:
        """`kill -9` of a service."""
        os.kill(self.pid_of(name), signal.SIGKILL)

    def restart_service(self, name: str) -> None:
        """Start a service that has ended, unless somebody else has done so already."""
        with suppress(GearshiftError):
            self.stack.start_service(name)
        eventually(lambda: all(each.ready for each in self.stack.services if each.name == name))

    def set_clock_ahead(self, seconds: float) -> None:
        """Move the wall clock of the app's processes."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))

    # how far it is

    def behind(self) -> dict[str, int]:
        """By how many records each delivery and pipeline is behind."""
        ends = self.admin.end_offsets(["numbered"])
        found: dict[str, int] = {}
        for group in (*GROUPS, *(f"faults.{pipeline}" for pipeline in PIPELINES)):
            done = self.admin.group_offsets(group, ["numbered"])
            found[group] = sum(max(0, end - done.get(place, 0)) for place, end in ends.items())
        return found

    def drain(self) -> None:
        """Wait until everybody has done what was sent; within `flow.paused`."""
        last: dict[str, int] = {}

        def drained() -> bool:
            with suppress(GearshiftError):
                last.clear()
                last.update(self.behind())
                return not any(last.values())
            return False

        try:
            eventually(drained, within=_DRAINED_WITHIN, every=0.5)
        except AssertionError:
            raise AssertionError(
                f"not drained after {_DRAINED_WITHIN:g} s: {last}\n{self._trouble()}"
            ) from None

    def _trouble(self) -> str:
        status = self.status()
        if status is None:
            return "the app does not answer"
        return "\n".join(
            f"{entry['name']}: {entry['state']} {entry['error']}"
            for entry in [*status["pipelines"], *status["deliveries"]]
        )
