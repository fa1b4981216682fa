"""One runner per app on a local disk; tests/cluster has remote stores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gearshift.errors import RunnerError
from gearshift.storage.folders import LocalFolder
from gearshift.storage.lease import take


def test_a_second_runner_is_refused_with_who_holds_the_lease_and_may_have_it_afterwards(
    tmp_path: Path,
) -> None:
    folder = LocalFolder(tmp_path / "shop")
    lease = take(folder, home=tmp_path / "here")
    with pytest.raises(
        RunnerError, match=rf"process {os.getpid()} on .* in {tmp_path}/here, since .*stop it"
    ):
        take(folder, home=tmp_path / "there")
    lease.require()
    lease.release()
    take(folder, home=tmp_path / "there").release()


def test_a_standby_waits_until_the_lease_is_released(tmp_path: Path) -> None:
    told: list[str] = []
    lease = take(LocalFolder(tmp_path), home=tmp_path / "here")

    def ends(held: str) -> None:
        told.append(held)
        lease.release()

    take(LocalFolder(tmp_path), home=tmp_path / "there", stand_by=ends).release()
    assert len(told) == 1
    assert f"process {os.getpid()} on " in told[0]


def test_a_lease_ends_with_its_process(tmp_path: Path) -> None:
    holding = (
        "import sys, pathlib; from gearshift.storage import lease, folders; p = pathlib.Path(sys.argv[1]);"
        "kept = lease.take(folders.LocalFolder(p), home=p); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holding, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(RunnerError, match=f"process {other.pid} "):
            take(LocalFolder(tmp_path), home=tmp_path)
        other.kill()
        other.wait()
    take(LocalFolder(tmp_path), home=tmp_path).release()
