"""Rows of CSV files with their line numbers: plain, gzip, or entries of a zip archive, or a folder of them.

It accepts what real files contain: a byte order mark, UTF-16, CRLF, quotes, blank lines, and columns that are separated
by commas, semicolons, tabs or bars.
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

_PLAIN = (".csv", ".txt")
SUFFIXES = (*_PLAIN, ".gz", ".zip")
_DELIMITERS = "\t;|,"  # in this order: lines that semicolons separate may have decimal commas
_AHEAD = 20  # lines that show which one separates the columns, also after a few notes
_LOST = range(0xDC80, 0xDD00)  # what bytes that are not UTF-8 become


@dataclass(frozen=True)
class Row:
    """The cells of one line."""

    file: str
    line: int
    cells: list[str]

    def error(self, what: str, hint: str) -> WrongFileError:
        """An error that names the file and the line."""
        return WrongFileError(what, hint=hint, file=self.file, line=self.line)


@dataclass(frozen=True)
class Sheet:
    """One CSV file: its name, which may say what it contains, and its rows."""

    path: Path
    name: str
    rows: Iterator[Row]


def sheets(path: Path) -> Iterator[Sheet]:
    """The CSV files of a path, in the order of their names. Read the rows of each before the next."""
    if not path.exists():
        raise WrongFileError("it does not exist", hint="name an existing file or folder", file=str(path))
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and _is_data(file, SUFFIXES))
        if not files:
            raise WrongFileError(
                "it has no data files", hint=f"use files that end in {', '.join(SUFFIXES)}", file=str(path)
            )
    for file in files:
        if file.suffix.lower() == ".zip":
            yield from _entries(file)
        else:
            packed = file.suffix.lower() == ".gz"
            with _readable(str(file)), gzip.open(file) if packed else file.open("rb") as data:
                yield Sheet(file, file.stem if packed else file.name, _rows(data, str(file)))


def _entries(file: Path) -> Iterator[Sheet]:
    with _readable(str(file)), zipfile.ZipFile(file) as archive:
        names = [name for name in sorted(archive.namelist()) if _is_data(Path(name), _PLAIN)]
        if not names:
            raise WrongFileError(
                "the archive has no CSV file", hint="add one that ends in .csv", file=str(file)
            )
        for name in names:
            with archive.open(name) as data:
                yield Sheet(file, Path(name).name, _rows(data, f"{file}/{name}"))


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


def _rows(data: IO[bytes], file: str) -> Iterator[Row]:
    buffered = io.BufferedReader(data)  # type: ignore[arg-type]
    wide = buffered.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff")
    encoding = "utf-16" if wide else "utf-8-sig"
    with io.TextIOWrapper(buffered, encoding, errors="surrogateescape", newline="\n") as text:
        lines = ((number, raw.strip("\r\n")) for number, raw in enumerate(text, 1) if raw.strip())
        ahead = list(islice(lines, _AHEAD))
        delimiter = _delimiter([line for _, line in ahead])
        for number, line in chain(ahead, lines):
            if "\0" in line or any(ord(character) in _LOST for character in line):
                raise WrongFileError(
                    "the line is not UTF-8 text", hint="save the file as UTF-8 CSV", file=file, line=number
                )
            try:
                [cells] = csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True)
            except csv.Error as error:
                raise WrongFileError(
                    f"the line is not valid CSV: {error}", hint="close its quotes", file=file, line=number
                ) from None
            cells = [cell.strip() for cell in cells]
            if any(cells):
                yield Row(file, number, cells)


def _delimiter(lines: list[str]) -> str:
    """What separates the columns of most lines.

    >>> _delimiter(["Wert;Zeit", "0,5;1.1.2024"]), _delimiter(["a,b;c", "1,2", "3,4"])
    (';', ',')
    """
    most = max((sum(mark in line for line in lines) for mark in _DELIMITERS), default=0)
    return next(mark for mark in _DELIMITERS if sum(mark in line for line in lines) == most)
