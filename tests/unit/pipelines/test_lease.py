"""One runner per checkpoint, on a disk and where there are no locks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gearshift.errors import RunnerError
from gearshift.pipelines.checkpoint import LocalFolder, RemoteFolder
from gearshift.pipelines.lease import FILE, RenewedLease, take
from tests.support import eventually

QUICK = 0.2


def test_a_second_runner_is_refused_with_who_holds_the_lease_and_may_have_it_afterwards(
    tmp_path: Path,
) -> None:
    folder = LocalFolder(tmp_path / "shop" / "copy")
    lease = take(folder, "copy", home=tmp_path / "here")
    with pytest.raises(
        RunnerError, match=rf"process {os.getpid()} on .* in {tmp_path}/here, since .*stop it"
    ):
        take(folder, "copy", home=tmp_path / "there")
    lease.require()
    lease.release()
    take(folder, "copy", home=tmp_path / "there").release()


def test_a_lease_ends_with_its_process(tmp_path: Path) -> None:
    holding = (
        "import sys, pathlib; from gearshift.pipelines import lease, checkpoint; p = pathlib.Path(sys.argv[1]);"
        "kept = lease.take(checkpoint.LocalFolder(p), 'copy', home=p); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holding, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(RunnerError, match=f"process {other.pid} "):
            take(LocalFolder(tmp_path), "copy", home=tmp_path)
        other.kill()
        other.wait()
    take(LocalFolder(tmp_path), "copy", home=tmp_path).release()


def test_where_there_are_no_locks_a_lease_is_refused_while_it_is_renewed_and_free_when_it_is_not(
    tmp_path: Path,
) -> None:
    folder = RemoteFolder(tmp_path.as_uri())
    lease = RenewedLease(folder, "copy", tmp_path / "here", renewed_every=QUICK)
    with pytest.raises(RunnerError, match="another runner has"):
        RenewedLease(folder, "copy", tmp_path / "there", renewed_every=QUICK)
    lease.require()
    lease.release()
    abandoned = {"id": "x", "host": "far", "pid": 1, "home": "/", "since": "then", "renewed": "never again"}
    folder.write(FILE, json.dumps(abandoned))
    RenewedLease(folder, "copy", tmp_path / "there", renewed_every=QUICK).release()


def test_who_stood_still_while_another_took_the_lease_is_told(tmp_path: Path) -> None:
    folder = RemoteFolder(tmp_path.as_uri())
    lease = RenewedLease(folder, "copy", tmp_path, renewed_every=QUICK)
    folder.write(FILE, json.dumps({"id": "x", "host": "far", "pid": 1, "home": "/there", "since": "now"}))

    def lost() -> bool:
        try:
            lease.require()
        except RunnerError as error:
            return "process 1 on far in /there" in str(error)
        return False

    eventually(lost)
    lease.release()
    assert "far" in (folder.read(FILE) or "")
