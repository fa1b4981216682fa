"""Files that come and go in a folder while somebody else takes them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gearshift.sources.arrivals import TAKEN, Folder, Seen


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, (".csv",), timedelta(0))


def drop(path: Path, content: str) -> Seen:
    """Replace the file at once, as a careful sender does."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(content, encoding="utf-8")
    return Seen.of(hidden.rename(path).stat())


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()}


def test_a_file_is_put_away_under_a_name_that_is_free(folder: Folder) -> None:
    path = folder.path / "a.csv"
    for content in ("1", "2"):
        assert folder.put_away(path, drop(path, content), TAKEN)
    assert contents(folder.path / TAKEN) == {"a.csv": "1", "a.2.csv": "2"}
    assert not path.exists()


def test_a_file_that_took_the_place_of_the_one_that_was_read_stays(folder: Folder) -> None:
    path = folder.path / "a.csv"
    read = drop(path, "1")
    drop(path, "2")
    assert folder.put_away(path, read, TAKEN) is None
    assert contents(folder.path) == {"a.csv": "2"}
    assert contents(folder.path / TAKEN) == {}


def test_a_third_file_takes_the_place_of_neither(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.path / "a.csv"
    read = drop(path, "1")
    drop(path, "2")
    link = Path.hardlink_to

    def late(self: Path, target: Path) -> None:
        drop(path, "3")
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", late)
    assert folder.put_away(path, read, TAKEN) is None
    assert contents(folder.path) == {"a.csv": "3", "a.2.csv": "2"}
    assert contents(folder.path / TAKEN) == {}
