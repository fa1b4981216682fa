"""Files that arrive in and disappear from a folder while it is polled."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gearshift.sources.files.arrivals import REFUSED, TAKEN, FileState, Folder, is_being_written


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, (".csv",), timedelta(0))


def drop(path: Path, content: str) -> FileState:
    """Replace the file atomically, as a careful sender does."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(content, encoding="utf-8")
    return FileState.of(hidden.rename(path).stat())


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()}


def test_a_file_is_moved_to_a_free_name(folder: Folder) -> None:
    path = folder.path / "a.csv"
    for content in ("1", "2"):
        assert folder.move(path, drop(path, content), TAKEN)
    assert contents(folder.path / TAKEN) == {"a.csv": "1", "a.2.csv": "2"}
    assert not path.exists()


def test_a_file_that_replaced_the_one_that_was_read_stays(folder: Folder) -> None:
    path = folder.path / "a.csv"
    read = drop(path, "1")
    drop(path, "2")
    assert folder.move(path, read, TAKEN) is None
    assert contents(folder.path) == {"a.csv": "2"}
    assert contents(folder.path / TAKEN) == {}


def test_a_third_file_replaces_neither(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.path / "a.csv"
    read = drop(path, "1")
    drop(path, "2")
    link = os.link

    def late(*arguments: Any, **options: Any) -> None:
        drop(path, "3")
        link(*arguments, **options)

    monkeypatch.setattr(os, "link", late)
    assert folder.move(path, read, TAKEN) is None
    assert contents(folder.path) == {"a.csv": "3", "a.2.csv": "2"}
    assert contents(folder.path / TAKEN) == {}


def test_a_file_that_changes_after_it_was_moved_is_moved_back(folder: Folder) -> None:
    path = folder.path / "a.csv"
    seen = drop(path, "1\n")
    with path.open("a", encoding="utf-8") as writer:  # another user may have it open unnoticed
        assert folder.move(path, seen, TAKEN)
        assert folder.changed_after_move() == []
        writer.write("2\n")
    folder._next_check = 0.0
    assert folder.changed_after_move() == [path]
    assert contents(folder.path) == {"a.csv": "1\n2\n"}
    assert contents(folder.path / TAKEN) == {}
    assert folder.changed_after_move() == []


def test_whether_another_users_file_is_written_is_not_known() -> None:
    was = os.geteuid()
    try:
        if was == 0:
            os.seteuid(65534)
        with Path("/etc/passwd").open("rb") as file:
            assert is_being_written(file.fileno()) is None
    finally:
        os.seteuid(was)


@pytest.mark.parametrize("where", [TAKEN, REFUSED])
def test_a_link_from_a_sender_is_never_followed(folder: Folder, tmp_path: Path, where: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    precious = outside / "precious"
    precious.write_text("old", encoding="utf-8")
    path = folder.path / "a.csv"
    (folder.path / where).mkdir()
    (folder.path / where / "a.csv").symlink_to(outside / "missing")
    (folder.path / where / "a.2.csv.error").symlink_to(precious)
    away = folder.move(path, drop(path, "1"), where)
    assert away is not None
    assert away.name == "a.2.csv"
    folder.write_reason(away, "why\n")
    assert (precious.read_text(), away.with_name("a.2.csv.error").read_text()) == ("old", "why\n")
    (folder.path / where).rename(folder.path / "moved")
    (folder.path / where).symlink_to(outside)
    assert folder.move(path, drop(path, "2"), where) is None
    assert contents(outside) == {"precious": "old"}
    assert path.read_text() == "2"


def test_entries_that_are_not_files_are_ignored_and_never_opened(folder: Folder, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("1", encoding="utf-8")
    (folder.path / "link.csv").symlink_to(secret)
    os.mkfifo(folder.path / "pipe.csv")
    assert folder.whole() == []
    assert {"link.csv", "pipe.csv"} <= folder.ignored
    with pytest.raises(OSError, match="symbolic links"):
        folder.open(folder.path / "link.csv")
    folder.open(folder.path / "pipe.csv").close()  # a pipe that replaced a file does not block
