"""Rows of CSV files with their line numbers: plain, gzip, or entries of a zip archive, or a folder of them.

It accepts what banks really export: a byte order mark, UTF-16, Windows' Latin letters, CRLF, quotes with line breaks
inside, lines before the header, lines of asterisks, and columns separated by commas, semicolons, tabs or bars.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO

from gearshift.errors import WrongFileError

_PLAIN = (".csv", ".txt", ".tsv")
SUFFIXES = (*_PLAIN, ".gz", ".zip")
_DELIMITERS = ",;\t|"
_HEAD = 40  # lines in which the separator is looked for
_START = 1 << 16  # bytes by which the encoding is chosen


@dataclass(frozen=True)
class Row:
    """The cells of one row, and the line on which it begins."""

    file: str
    line: int
    cells: list[str]

    def error(self, what: str, hint: str) -> WrongFileError:
        """An error that names the file and the line."""
        return WrongFileError(what, hint=hint, file=self.file, line=self.line)


@dataclass(frozen=True)
class Sheet:
    """One CSV file: its name, its separator, and its rows."""

    file: str
    name: str
    delimiter: str
    rows: Iterator[Row]


def files_of(path: Path) -> list[Path]:
    """A file, or the data files of a folder in the order of their names."""
    if not path.exists():
        raise WrongFileError("it does not exist", hint="name an existing file or folder", file=str(path))
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_file() and _is_data(file, SUFFIXES))
    if not files:
        raise WrongFileError(
            "it has no data files", hint=f"use files that end in {', '.join(SUFFIXES)}", file=str(path)
        )
    return files


def sheets(file: Path) -> Iterator[Sheet]:
    """The CSV file, or those of an archive. Read the rows of each before the next."""
    with _readable(str(file)):
        if file.suffix.lower() == ".zip":
            yield from _entries(file)
            return
        packed = file.suffix.lower() == ".gz"
        with gzip.open(file) if packed else file.open("rb") as data, _text(data) as text:
            yield _sheet(text, str(file), Path(file.stem if packed else file.name).stem)


def _entries(file: Path) -> Iterator[Sheet]:
    with zipfile.ZipFile(file) as archive:
        names = [name for name in sorted(archive.namelist()) if _is_data(Path(name), _PLAIN)]
        if not names:
            raise WrongFileError(
                "the archive has no CSV file", hint="add one that ends in .csv", file=str(file)
            )
        for name in names:
            with archive.open(name) as data, _text(data) as text:
                yield _sheet(text, f"{file}/{name}", Path(name).stem)


def _is_data(name: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether a file has data; a Mac adds a hidden one for each."""
    return name.suffix.lower() in suffixes and not name.name.startswith(".")


@contextmanager
def _readable(file: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise WrongFileError(
            f"it cannot be unpacked: {error}", hint="download or copy it again", file=file
        ) from None


def _text(data: IO[bytes]) -> io.TextIOWrapper:
    buffered = io.BufferedReader(data, _START)  # type: ignore[type-var]
    return io.TextIOWrapper(buffered, _encoding(buffered.peek(_START)), errors="surrogateescape", newline="")


def _sheet(text: io.TextIOWrapper, file: str, name: str) -> Sheet:
    lines = iter(text)
    head = list(islice(lines, _HEAD))
    delimiter = max(_DELIMITERS, key=lambda each: max((line.count(each) for line in head), default=0))
    return Sheet(file, name, delimiter, _rows(chain(head, lines), file, delimiter))


def _encoding(start: bytes) -> str:
    """The encoding of a file: UTF-8 unless its first bytes are not, as in exports of older systems."""
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    try:
        start[: start.rfind(b"\n") + 1].decode("utf-8-sig")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _rows(lines: Iterator[str], file: str, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = [_cleaned(cell) for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise WrongFileError(
                f"the line is not valid CSV: {error}", hint="close its quotes", file=file, line=line
            ) from None
        if any(character.isalnum() for cell in cells for character in cell):
            if any("\0" in cell for cell in cells):
                raise WrongFileError(
                    "the line is not text", hint="save the file as UTF-8 CSV", file=file, line=line
                )
            yield Row(file, line, cells)


def _cleaned(cell: str) -> str:
    """A cell without the spaces and the single quotes around it.

    >>> _cleaned(" 'C1093826151' "), _cleaned("O'Neill"), _cleaned("'")
    ('C1093826151', "O'Neill", "'")
    """
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == "'" else cell
