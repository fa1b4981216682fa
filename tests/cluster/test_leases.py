"""One runner per app where there are no locks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from queue import Queue
from threading import Barrier, Thread

import pytest

from gearshift import stack as local
from gearshift.errors import LeaseLostError, RunnerError
from gearshift.settings import load
from gearshift.storage.folders import open_remote
from gearshift.storage.hdfs import HdfsFolder
from gearshift.storage.lease import Fenced, RenewedLease
from gearshift.storage.s3 import S3Folder
from tests.cluster.object_store import ObjectStore
from tests.support import eventually

QUICK = 0.4


@pytest.fixture(params=["s3", "hdfs"])
def folder(request: pytest.FixtureRequest, unique: str, tmp_path: Path) -> S3Folder | HdfsFolder:
    if request.param == "s3":
        store: ObjectStore = request.getfixturevalue("store")
        return open_remote(load(store.settings(unique), folder=tmp_path, environ={}).checkpoints_uri)
    hdfs: local.Stack = request.getfixturevalue("hdfs")
    return open_remote(f"{hdfs.address('hdfs')}/{unique}")


def test_a_second_runner_is_refused_while_the_first_renews_its_lease_and_may_have_it_afterwards(
    folder: S3Folder | HdfsFolder, tmp_path: Path
) -> None:
    lease = RenewedLease(folder, tmp_path / "here", renewed_every=QUICK)
    with pytest.raises(RunnerError, match=rf"another runner has .*{tmp_path}/here, since .*stop it"):
        RenewedLease(folder, tmp_path / "there", renewed_every=QUICK)
    lease.require()
    lease.release()
    after = RenewedLease(folder, tmp_path / "there", renewed_every=QUICK)
    assert after.number == lease.number + 1
    after.release()


def test_of_many_runners_that_want_a_free_lease_at_the_same_time_one_has_it(
    folder: S3Folder | HdfsFolder, tmp_path: Path
) -> None:
    held: list[RenewedLease] = []
    refused: list[RunnerError] = []
    together = Barrier(8)

    def want() -> None:
        together.wait()
        try:
            held.append(RenewedLease(folder, tmp_path, renewed_every=QUICK))
        except RunnerError as error:
            refused.append(error)

    wanting = [Thread(target=want) for _ in range(8)]
    for each in wanting:
        each.start()
    for each in wanting:
        each.join()
    assert (len(held), len(refused)) == (1, 7)
    held[0].release()


def test_who_stood_still_while_another_took_the_lease_writes_nothing(
    folder: S3Folder | HdfsFolder, tmp_path: Path
) -> None:
    stalled = RenewedLease(folder, tmp_path, renewed_every=3600)  # as one whose threads do not run
    fenced = Fenced(folder, stalled)
    fenced.write("ledger.json", "old")
    taken = {"id": "x", "host": "far", "pid": 1, "home": "/there", "since": "now"}
    assert folder.create(f".lease/{stalled.number + 1:08}.json", json.dumps(taken))
    stalled._every = 0.0  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(RunnerError, match="process 1 on far in /there"):
        fenced.write("ledger.json", "new")
    assert folder.read("ledger.json") == "old"


def test_a_lease_that_nobody_renews_is_free_within_ten_seconds(
    folder: S3Folder | HdfsFolder, tmp_path: Path
) -> None:
    abandoned = {"id": "x", "host": "far", "pid": 1, "home": "/", "since": "then", "renewed": "never again"}
    assert folder.create(".lease/00000007.json", json.dumps(abandoned))
    began = time.monotonic()
    lease = RenewedLease(folder, tmp_path)
    assert time.monotonic() - began < 10
    assert lease.number == 8
    eventually(lambda: folder.names(".lease") == ["00000008.json"])
    lease.release()


def test_of_two_standbys_one_takes_over_when_the_lease_is_no_longer_renewed_and_the_other_goes_on_waiting(
    folder: S3Folder | HdfsFolder, tmp_path: Path
) -> None:
    first = RenewedLease(folder, tmp_path / "first", renewed_every=QUICK)
    told: Queue[str] = Queue()
    taken: Queue[RenewedLease] = Queue()

    def stand_by() -> None:
        taken.put(RenewedLease(folder, tmp_path, stand_by=told.put, renewed_every=QUICK))

    for _ in range(2):
        Thread(target=stand_by, daemon=True).start()
    assert f"in {tmp_path}/first, since " in told.get(timeout=60)
    assert f"in {tmp_path}/first, since " in told.get(timeout=60)
    assert taken.empty()
    first._closing.set()  # pyright: ignore[reportPrivateUsage] - as a process that was killed
    second = taken.get(timeout=60)
    assert second.number == first.number + 1
    assert f"in {tmp_path}, since " in told.get(timeout=60)
    assert taken.empty()
    second.release()
    third = taken.get(timeout=60)
    assert third.number == second.number + 1
    third.release()
    first._closing.clear()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(LeaseLostError, match="did not renew its lease in time"):
        eventually(lambda: first.require())
