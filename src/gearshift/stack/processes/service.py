"""Service definitions, and the child processes that run them."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from gearshift.errors import StackError
from gearshift.storage.shared_files import private

_LAUNCH = Path(__file__).with_name("launch.py")
_LAST_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The command of a service, its log file, and its readiness check."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    port: int
    ready: Callable[[], bool]
    address: str = ""
    """Its address for clients, without secrets, since it is written to the state file."""
    folder: Path | None = None
    """Its working directory, entered before the user is changed."""
    user: tuple[int, int] | None = None
    """The user and group it runs as, if not the current ones."""
    stop_signal: signal.Signals = signal.SIGTERM
    """The signal that asks it to shut down."""
    orphan_signal: signal.Signals | None = None
    """The signal it gets when its parent dies, where `stop_signal` would take too long."""


@dataclass(frozen=True, slots=True)
class Pid:
    """A process, distinguished by its start time from a later one with the same id, and its stop signal."""

    number: int
    began: str
    stop_signal: int = signal.SIGTERM

    @classmethod
    def of(cls, number: int, *, stop_signal: int = signal.SIGTERM) -> Pid | None:
        """The running process with this id, or None.

        >>> Pid.of(os.getpid()) == Pid.of(os.getpid())
        True
        """
        began = _began(number)
        return None if began is None else cls(number, began, int(stop_signal))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pid:
        """The process that was written with `asdict`."""
        return cls(int(data["number"]), str(data["began"]), int(data.get("stop_signal", signal.SIGTERM)))

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return _began(self.number) == self.began

    def send(self, number: int) -> None:
        """Send a signal to its process group, unless it has ended."""
        if not self.alive:
            return
        try:
            os.killpg(self.number, number)
        except (ProcessLookupError, PermissionError):
            return


def start(service: Service) -> subprocess.Popen[bytes]:
    """Start a service as a child process in a new session, with its output in its log; it ends with this process."""
    service.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if service.log.exists():
        service.log.replace(service.log.with_suffix(".log.1"))
    done: Future[subprocess.Popen[bytes]] = Future()
    _starter().put((service, done))
    return done.result()


def wait_ready(
    running: Sequence[tuple[Service, Pid]],
    *,
    within: timedelta,
    on_ready: Callable[[Service], None] = lambda _: None,
) -> None:
    """Wait until every service is ready; when one dies, raise at once with the end of its log."""
    deadline = time.monotonic() + within.total_seconds()
    waiting = list(running)
    while waiting:
        for service, pid in list(waiting):
            if not pid.alive:
                raise _failed(service, f"{service.name} ended during startup")
            if service.ready():
                waiting.remove((service, pid))
                on_ready(service)
        if waiting and time.monotonic() > deadline:
            late = waiting[0][0]
            raise _failed(late, f"{late.name} was not ready within {within.total_seconds():.0f} s")
        if waiting:
            time.sleep(0.05)


def stop(pids: Iterable[Pid], *, within: timedelta = timedelta(seconds=15)) -> None:
    """Send each process its stop signal, wait, then SIGKILL; afterwards none of them is running."""
    pids = list(pids)
    for kill, timeout in ((False, within), (True, timedelta(seconds=5))):
        for pid in pids:
            pid.send(signal.SIGKILL if kill else pid.stop_signal)
        if wait_ended(pids, within=timeout):
            return
    numbers = ", ".join(str(pid.number) for pid in pids if pid.alive)
    raise StackError(
        f"these processes are still running: {numbers}",
        hint="inspect them with ps; they may be blocked on disk I/O",
    )


def wait_ended(pids: Iterable[Pid], *, within: timedelta) -> bool:
    """Wait until none of these processes is running; False on timeout."""
    pids = list(pids)
    deadline = time.monotonic() + within.total_seconds()
    while any(pid.alive for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def last_lines(log: Path, count: int = _LAST_LINES) -> str:
    """The last lines of a log."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
    except FileNotFoundError:
        return ""


def _failed(service: Service, what: str) -> StackError:
    return StackError(f"{what}\n{last_lines(service.log)}\n", hint=f"see the full log in {service.log}")


def _began(number: int) -> str | None:
    """A process's start time in the system's own format; None if it has ended, reaped or not."""
    if sys.platform == "linux":
        try:
            # The name in parentheses may contain spaces and parentheses.
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else fields[19]
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(number)], capture_output=True, text=True, check=False
    )
    state, _, began = answer.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else began.strip()


_starting = threading.Lock()
_requests: queue.SimpleQueue[tuple[Service, Future[subprocess.Popen[bytes]]]] | None = None


def _starter() -> queue.SimpleQueue[tuple[Service, Future[subprocess.Popen[bytes]]]]:
    # The kernel sends the parent-death signal when the *thread* that started the child ends. One thread that lives as
    # long as this process therefore starts them all, and callers may start the stack from any thread.
    global _requests
    with _starting:
        if _requests is None:
            _requests = queue.SimpleQueue()
            threading.Thread(target=_start_all, args=(_requests,), name="stack", daemon=True).start()
        return _requests


def _start_all(requests: queue.SimpleQueue[tuple[Service, Future[subprocess.Popen[bytes]]]]) -> None:
    while True:
        service, done = requests.get()
        try:
            with open(service.log, "wb", opener=private) as log:
                user = "" if service.user is None else "{}:{}".format(*service.user)
                orphan_signal = str(int(service.orphan_signal or service.stop_signal))
                launch = [str(_LAUNCH), str(os.getpid()), orphan_signal, user]
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", *launch, *service.command],
                    cwd=service.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=dict(service.environment),
                    start_new_session=True,
                )
            done.set_result(process)
        except BaseException as error:
            done.set_exception(error)
