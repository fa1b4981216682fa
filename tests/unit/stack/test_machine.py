"""What a machine lacks is reported with a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.errors import DiskError, JavaError, TooLittleMemoryError
from gearshift.settings import Settings
from gearshift.stack import doctor, machine
from gearshift.stack.artifacts.java import require_java


def test_too_little_memory_names_what_is_free_and_what_is_needed() -> None:
    with pytest.raises(
        TooLittleMemoryError, match=r"GiB of memory available, 1048576\.0 GiB needed(?s:.*)close other"
    ):
        machine.require_memory(1 << 50)


def test_too_little_disk_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=f"of disk space free in {tmp_path}, "):
        machine.require_disk(tmp_path / "home", 1 << 60)


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match=r"cannot write .*file/home: Not a directory; set home to a folder"):
        machine.require_writable(tmp_path / "file" / "home", tmp_path / "file" / "home" / "stack")


def test_a_java_that_is_too_old_is_refused_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        JavaError, match=r"java is Java 8, but Java 17 or newer is required(?s:.*)install a JDK 17 or newer"
    ):
        require_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=f"JAVA_HOME is {tmp_path}, which contains no bin/java"):
        require_java()


def test_the_doctor_sees_a_cluster_that_does_not_answer_and_jars_that_are_to_be_fetched(
    tmp_path: Path,
) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache", bootstrap_servers="127.0.0.1:1")
    found = {finding.name: finding for finding in doctor.diagnose(settings)}
    assert not found["kafka"].ok
    assert "127.0.0.1:1 does not answer" in found["kafka"].found
    assert found["jars"].found == "56 MB to download"
    assert not settings.cache.exists()
