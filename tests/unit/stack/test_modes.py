"""Files are readable by their owner only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gearshift.console.runner_info import RunnerInfo
from gearshift.errors import TamperedArtifactError
from gearshift.stack.artifacts.artifacts import file_sha256
from gearshift.stack.artifacts.class_archive import Archive
from gearshift.stack.processes.service import Pid
from gearshift.storage.shared_files import private_home, write_whole


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def generous() -> object:
    """A umask that restricts nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_is_private_from_its_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    replace = Path.replace

    def watched(path: Path, target: Path) -> Path:
        modes.append(mode(path))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    pid = Pid.of(os.getpid())
    assert pid is not None
    RunnerInfo(app="a", file="f", pid=pid, spark_pid=None, port=1, token="t").write(tmp_path)
    assert (modes, mode(tmp_path / "runner.json")) == ([0o600], 0o600)
    # A link in its place is not followed.
    beside = tmp_path / f".secret.{os.getpid()}"
    beside.symlink_to(tmp_path / "stolen")
    write_whole(tmp_path / "secret", "s")
    assert not (tmp_path / "stolen").exists()


def test_the_default_home_is_made_private_and_another_folder_keeps_its_mode(tmp_path: Path) -> None:
    for name, before, after in ((".gearshift", 0o755, 0o700), ("shared", 0o750, 0o750)):
        (tmp_path / name).mkdir(mode=before)
        assert mode(private_home(tmp_path / name)) == after
    assert mode(private_home(tmp_path / "made" / "home")) == 0o700


def test_a_class_archive_is_used_only_unchanged(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "kafka.jsa")
    archive.path.write_bytes(b"classes")
    assert archive.options == ()  # it has no digest
    write_whole(archive.digest, file_sha256(archive.path))
    assert archive.options[0] == f"-XX:SharedArchiveFile={archive.path}"
    archive.path.write_bytes(b"others")
    with pytest.raises(TamperedArtifactError, match="delete it and run again"):
        _ = archive.options
