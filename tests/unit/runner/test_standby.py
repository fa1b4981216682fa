"""What a standby needs: services that go on when the runner that works ends."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from gearshift.console.runner_info import RunnerInfo
from gearshift.errors import RunnerError
from gearshift.runner.single_runner import lock_home
from gearshift.runner.standby import require_stack
from gearshift.settings import load
from gearshift.stack.processes import state
from gearshift.stack.processes.service import Pid
from tests.command import GEARSHIFT


def process(number: int) -> Pid:
    found = Pid.of(number)
    assert found is not None
    return found


def services_of(owner: Pid, home: Path) -> None:
    running = tuple(
        state.Running(name=name, pid=process(os.getpid()), port=1, log="") for name in ("kafka-1", "registry")
    )
    state.State(
        owner=owner, bootstrap_servers="b:1", registry_url="http://r:1", services=running, ready=True
    ).write(home / "stack")


def runner_of(app: str, pid: Pid, home: Path) -> None:
    RunnerInfo(app=app, file="f", pid=pid, spark_pid=None, port=1, token="t").write(home)


def test_without_services_there_is_nothing_to_stand_by_with(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match=r"none are running in .*; start .*gearshift up --detach"):
        require_stack(load({"home": tmp_path}, environ={}))


def test_services_that_end_with_the_runner_are_refused_and_those_of_up_or_of_the_user_are_not(
    tmp_path: Path,
) -> None:
    settings = load({"home": tmp_path}, environ={})
    runner_of("shop", process(os.getpid()), tmp_path)
    services_of(process(os.getpid()), tmp_path)
    with pytest.raises(RunnerError, match=rf"end with the runner that started them, process {os.getpid()}; "):
        require_stack(settings)
    services_of(process(os.getppid()), tmp_path)
    require_stack(settings)
    own = {"bootstrap_servers": "kafka:9092", "registry_url": "http://registry:8081"}
    require_stack(load({"home": tmp_path / "new", **own}, environ={}))
    with pytest.raises(RunnerError, match="none are running"):
        require_stack(load({"home": tmp_path / "new", **own, "services": "postgres"}, environ={}))


def test_a_runner_waits_for_one_of_the_same_app_and_for_no_other(tmp_path: Path) -> None:
    told: list[str] = []

    first = ExitStack()
    first.enter_context(lock_home(tmp_path, progress=print))

    def ends(held: str) -> None:
        told.append(held)
        first.close()

    runner_of("shop", process(os.getpid()), tmp_path)
    with (
        pytest.raises(RunnerError, match="wait for its end with --standby"),
        lock_home(tmp_path, progress=print),
    ):
        pass
    with (
        pytest.raises(RunnerError, match="bills can stand by for runners of bills only"),
        lock_home(tmp_path, progress=print, app="bills", stand_by=told.append),
    ):
        pass
    assert told == []
    with lock_home(tmp_path, progress=print, app="shop", stand_by=ends):
        assert told == [f"a runner is already running in {tmp_path} (shop, process {os.getpid()})"]


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["--standby"], 1, "hint: start the local services with"),
        (["--standby", "--deliveries-only"], 2, "consumers share the work"),
    ],
)
def test_the_command_refuses_before_anything_starts(
    tmp_path: Path, options: list[str], code: int, why: str
) -> None:
    (tmp_path / "shop.py").write_text('import gearshift as gs\n\napp = gs.App("shop")\n')
    done = subprocess.run(
        [GEARSHIFT, "run", "shop.py", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert why in done.stderr
    assert "starting" not in done.stderr
