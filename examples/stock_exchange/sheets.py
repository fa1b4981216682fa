"""Rows of CSV files with their line numbers: plain, gzip, or entries of a zip archive, or a folder of them.

It accepts what real files contain: a byte order mark, UTF-16, CRLF, quotes, blank lines, and columns that are separated
by commas, semicolons, tabs or bars.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gearshift.errors import WrongFileError

_PLAIN = (".csv", ".txt")
SUFFIXES = (*_PLAIN, ".gz", ".zip")
_DELIMITERS = ",;\t|"
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
    """The CSV files of a path, in the order of their names."""
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
        for where, name, content in _contents(file):
            yield Sheet(file, name, _rows(content, where))


def _is_data(name: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether a file has data; a Mac adds a hidden one for each."""
    return name.suffix.lower() in suffixes and not name.name.startswith(".")


def _contents(file: Path) -> Iterator[tuple[str, str, bytes]]:
    """Each CSV file in a file, which may be an archive: where it is, its name and its bytes."""
    kind = file.suffix.lower()
    try:
        if kind == ".zip":
            with zipfile.ZipFile(file) as archive:
                names = sorted(name for name in archive.namelist() if _is_data(Path(name), _PLAIN))
                for name in names:
                    yield f"{file}/{name}", Path(name).name, archive.read(name)
            if not names:
                raise WrongFileError(
                    "the archive has no CSV file", hint="add one that ends in .csv", file=str(file)
                )
        elif kind == ".gz":
            yield str(file), file.stem, gzip.decompress(file.read_bytes())
        else:
            yield str(file), file.name, file.read_bytes()
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise WrongFileError(
            f"it cannot be unpacked: {error}", hint="download or copy it again", file=str(file)
        ) from None


def _rows(content: bytes, file: str) -> Iterator[Row]:
    is_wide = content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    text = content.decode("utf-16" if is_wide else "utf-8-sig", errors="surrogateescape")
    delimiter = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip("\r")
        if not line.strip():
            continue
        if "\0" in line or any(ord(character) in _LOST for character in line):
            raise WrongFileError(
                "the line is not UTF-8 text", hint="save the file as UTF-8 CSV", file=file, line=number
            )
        delimiter = delimiter or max(_DELIMITERS, key=line.count)
        if number == 1 and line.lower() == f"sep={delimiter}":  # for Excel
            continue
        try:
            [cells] = csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True)
        except csv.Error as error:
            raise WrongFileError(
                f"the line is not valid CSV: {error}", hint="close its quotes", file=file, line=number
            ) from None
        cells = [cell.strip() for cell in cells]
        if any(cells):
            yield Row(file, number, cells)
