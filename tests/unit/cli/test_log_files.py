"""Logs are read from their end and followed, also when a service starts again and with a new file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.cli.log_files import LogReader, choose, find
from gearshift.errors import DefinitionError


@pytest.mark.parametrize(
    ("text", "last", "shown"),
    [
        ("", 3, []),
        ("a\nb\nc\n", 2, ["b", "c"]),
        ("a\nb\nc", 2, ["b", "c"]),
        ("a\n\n", 1, [""]),
        ("a\nb\n", 9, ["a", "b"]),
        ("a\nb\n", 0, []),
        ("x" * 200_000 + "\nb\n", 2, ["x" * 200_000, "b"]),
        ("\n" * 200_000 + "b\n", 2, ["", "b"]),
        ("\tat Main\r\n", 1, ["    at Main"]),
    ],
)
def test_the_last_lines_are_read(tmp_path: Path, text: str, last: int, shown: list[str]) -> None:
    path = tmp_path / "spark.log"
    path.write_text(text, newline="")
    with LogReader(path, last=last) as reader:
        assert [*reader.lines(), *reader.end()] == shown


def test_a_line_is_shown_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    path.write_bytes(b"old\n")
    with LogReader(path, last=0) as reader, path.open("ab", buffering=0) as log:
        log.write(b"half ")
        assert reader.lines() == []
        log.write("a line \u00e9\nnext\n".encode()[:-6])
        log.write("a line \u00e9\nnext\n".encode()[-6:])
        assert reader.lines() == ["half a line \u00e9", "next"]


def test_no_line_is_lost_when_the_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kafka-1.log"
    path.write_bytes(b"first\n")
    with LogReader(path, last=1) as reader:
        assert reader.lines() == ["first"]
        with path.open("ab") as log:
            log.write(b"last of the old\nkilled in the mid")
        path.replace(tmp_path / "kafka-1.log.1")
        assert reader.lines() == ["last of the old"]
        path.write_bytes(b"new\n")
        assert reader.lines() == ["killed in the mid", "new"]


def test_an_emptied_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    path.write_bytes(b"a long line\n")
    with LogReader(path, last=1) as reader:
        assert reader.lines() == ["a long line"]
        path.write_bytes(b"new\n")
        assert reader.lines() == ["new"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("stack/logs/kafka-1.log", "stack/logs/kafka-2.log", "stack/logs/kafka-2.log.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "logs").mkdir()
    for name in (
        "spark.log",
        "delivery-text_owner-1.log",
        "delivery-text_owner-2.log",
        "spark.log4j2.properties",
    ):
        (tmp_path / "logs" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("spark", ["spark.log"]),
        ("kafka", ["kafka-1.log", "kafka-2.log"]),
        ("kafka-2", ["kafka-2.log"]),
        ("text_owner", ["delivery-text_owner-1.log", "delivery-text_owner-2.log"]),
    ],
)
def test_a_log_is_named_by_its_service_or_delivery(home: Path, name: str, files: list[str]) -> None:
    assert [path.name for path in choose(find(home), name, home=home)] == files


def test_a_name_without_a_log_is_an_error_with_the_names_there_are(home: Path) -> None:
    with pytest.raises(DefinitionError, match="no log 'kafak'") as raised:
        choose(find(home), "kafak", home=home)
    assert raised.value.hint == "did you mean kafka?"
    with pytest.raises(DefinitionError) as raised:
        choose(find(home), "zoo", home=home)
    assert raised.value.hint == "there are kafka, spark, text_owner"


def test_the_log_before_the_last_start_is_kept_for_services(home: Path) -> None:
    assert [path.name for path in choose(find(home), "kafka", home=home, previous=True)] == ["kafka-2.log.1"]
    with pytest.raises(DefinitionError, match="spark has no previous log"):
        choose(find(home), "spark", home=home, previous=True)
