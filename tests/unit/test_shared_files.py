"""Locks and atomic writes of files that several processes share."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from gearshift.errors import StackError
from gearshift.storage.folders import LocalFolder
from gearshift.storage.shared_files import exclusive, try_lock, write_whole


def test_a_lock_is_held_until_its_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = try_lock(path)
    assert held is not None
    assert try_lock(path) is None
    with (
        pytest.raises(StackError, match=f"another gearshift process has held {path}"),
        exclusive(path, within=timedelta(0)),
    ):
        pass
    held.close()
    with exclusive(path, within=None):
        assert try_lock(path) is None


def test_an_atomic_write_replaces_the_file_and_leaves_no_other(tmp_path: Path) -> None:
    write_whole(tmp_path / "note", "old")
    write_whole(tmp_path / "note", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("note", "new")]
    assert stat.S_IMODE((tmp_path / "note").stat().st_mode) == 0o600


def test_a_folder_writes_with_the_users_umask_and_drops_hadoops_old_checksum(tmp_path: Path) -> None:
    (tmp_path / ".metadata.crc").write_bytes(b"old")
    before = os.umask(0o027)
    try:
        LocalFolder(tmp_path).write("metadata", "{}")
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir()] == ["metadata"]
    assert stat.S_IMODE((tmp_path / "metadata").stat().st_mode) == 0o640
