"""Services as child processes; the children here are small real programs."""

from __future__ import annotations

import signal
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from gearshift.errors import StackError
from gearshift.stack.processes import service as processes
from gearshift.stack.processes.service import Pid, Service
from tests.support import eventually


def service(tmp_path: Path, program: str, *, ready: bool = False) -> Service:
    return Service(
        name="small",
        command=(sys.executable, "-u", "-c", program),
        environment={},
        log=tmp_path / "small.log",
        port=0,
        ready=lambda: ready,
    )


def test_a_service_that_dies_during_startup_is_reported_at_once_with_its_log(tmp_path: Path) -> None:
    small = service(tmp_path, "import sys; sys.exit('the disk is on fire')")
    with processes.start(small) as process, pytest.raises(StackError) as failed:
        processes.wait_ready(
            [(small, Pid.of(process.pid) or Pid(process.pid, ""))], within=timedelta(seconds=30)
        )
    assert "small ended during startup\nthe disk is on fire" in str(failed.value)
    assert str(small.log) in str(failed.value)


def test_a_service_that_is_never_ready_fails_at_its_deadline(tmp_path: Path) -> None:
    small = service(tmp_path, "import time; time.sleep(60)")
    with processes.start(small) as process:
        pid = Pid.of(process.pid)
        assert pid is not None
        with pytest.raises(StackError, match="small was not ready within 0 s"):
            processes.wait_ready([(small, pid)], within=timedelta(seconds=0.2))
        processes.stop([pid])


def test_a_service_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"
    )
    small = service(tmp_path, program)
    with processes.start(small) as process:
        pid = Pid.of(process.pid)
        assert pid is not None
        eventually(lambda: "deaf" in small.log.read_text())
        processes.stop([pid], within=timedelta(seconds=0.2))
        assert process.wait() == -signal.SIGKILL
    assert not pid.alive


def test_a_recycled_pid_is_not_ours_and_is_not_signalled(tmp_path: Path) -> None:
    small = service(tmp_path, "import time; time.sleep(60)")
    with processes.start(small) as process:
        pid = Pid.of(process.pid)
        assert pid is not None
        earlier = Pid(pid.number, "an instant before")
        assert not earlier.alive
        processes.stop([earlier])
        assert pid.alive
        processes.stop([pid])


def test_the_log_of_the_previous_run_is_kept(tmp_path: Path) -> None:
    for word in ("first", "second"):
        with processes.start(service(tmp_path, f"print({word!r})")) as process:
            process.wait()
    assert (tmp_path / "small.log").read_text() == "second\n"
    assert (tmp_path / "small.log.1").read_text() == "first\n"
