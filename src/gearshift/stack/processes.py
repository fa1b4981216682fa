"""Services as values, and the child processes that run them."""

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

from gearshift.errors import StackError
from gearshift.stack.files import private

_LAUNCH = Path(__file__).with_name("launch.py")
_LAST_LINES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What runs, where its log goes, and how to tell that it answers."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    port: int
    ready: Callable[[], bool]
    address: str = ""
    """Where clients find it; without a secret, since it is written down."""
    folder: Path | None = None
    """Its working directory, entered before it becomes another user."""
    user: tuple[int, int] | None = None
    """The user and group it runs as, where that is not us."""
    ends_on: signal.Signals = signal.SIGTERM
    """The signal that it takes for a polite request to end."""
    orphaned: signal.Signals | None = None
    """The signal that it gets when its parent has died, where a polite request would not end it soon."""


@dataclass(frozen=True, slots=True)
class Pid:
    """A process, told from a later one with the same number by the instant it began, and how it is asked to end."""

    number: int
    began: str
    ends_on: int = signal.SIGTERM

    @classmethod
    def of(cls, number: int, *, ends_on: int = signal.SIGTERM) -> Pid | None:
        """The process with this number, if there is one that has not ended.

        >>> Pid.of(os.getpid()) == Pid.of(os.getpid())
        True
        """
        began = _began(number)
        return None if began is None else cls(number, began, int(ends_on))

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return _began(self.number) == self.began

    def send(self, what: int) -> None:
        """Signal its process group, unless it has ended."""
        if not self.alive:
            return
        try:
            os.killpg(self.number, what)
        except (ProcessLookupError, PermissionError):
            return


def start(service: Service) -> subprocess.Popen[bytes]:
    """Start a service as a child with a session of its own, its output in its log; it ends when this process does."""
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
    said: Callable[[Service], None] = lambda _: None,
) -> None:
    """Wait until every service answers; fail at once, with the end of its log, when one dies."""
    deadline = time.monotonic() + within.total_seconds()
    waiting = list(running)
    while waiting:
        for service, pid in list(waiting):
            if not pid.alive:
                raise _failed(service, f"{service.name} ended while it started")
            if service.ready():
                waiting.remove((service, pid))
                said(service)
        if waiting and time.monotonic() > deadline:
            late = waiting[0][0]
            raise _failed(late, f"{late.name} did not answer within {within.total_seconds():.0f} s")
        if waiting:
            time.sleep(0.05)


def stop(pids: Iterable[Pid], *, within: timedelta = timedelta(seconds=15)) -> None:
    """TERM to all, or what each takes instead; wait, then KILL: afterwards none of them runs."""
    pids = list(pids)
    for kill, patience in ((False, within), (True, timedelta(seconds=5))):
        for pid in pids:
            pid.send(signal.SIGKILL if kill else pid.ends_on)
        if gone(pids, within=patience):
            return
    numbers = ", ".join(str(pid.number) for pid in pids if pid.alive)
    raise StackError(
        f"these processes do not end: {numbers}", hint="they may hang on a disk; look at them with ps"
    )


def gone(pids: Iterable[Pid], *, within: timedelta) -> bool:
    """Wait until none of these processes runs; say whether that came to be."""
    pids = list(pids)
    deadline = time.monotonic() + within.total_seconds()
    while any(pid.alive for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def last_lines(log: Path, count: int = _LAST_LINES) -> str:
    """The end of a log."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
    except FileNotFoundError:
        return ""


def _failed(service: Service, what: str) -> StackError:
    return StackError(f"{what}\n{last_lines(service.log)}\n", hint=f"its whole log is {service.log}")


def _began(number: int) -> str | None:
    """When a process began, in words that differ between two processes; None if it has ended, reaped or not."""
    if sys.platform == "linux":
        try:
            # The name in parentheses may hold spaces and parentheses itself.
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
_orders: queue.SimpleQueue[tuple[Service, Future[subprocess.Popen[bytes]]]] | None = None


def _starter() -> queue.SimpleQueue[tuple[Service, Future[subprocess.Popen[bytes]]]]:
    # The kernel ends a child with the *thread* that started it, so one thread that lives as long as
    # this process starts them all: a caller may then start the stack from any thread of its own.
    global _orders
    with _starting:
        if _orders is None:
            _orders = queue.SimpleQueue()
            threading.Thread(target=_start_all, args=(_orders,), name="stack", daemon=True).start()
        return _orders


def _start_all(orders: queue.SimpleQueue[tuple[Service, Future[subprocess.Popen[bytes]]]]) -> None:
    while True:
        service, done = orders.get()
        try:
            with open(service.log, "wb", opener=private) as log:
                user = "" if service.user is None else "{}:{}".format(*service.user)
                launch = [str(_LAUNCH), str(os.getpid()), str(int(service.orphaned or service.ends_on)), user]
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
