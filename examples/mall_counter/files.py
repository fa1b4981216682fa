"""The files of public counts: plain, gzip, in a folder or in a zip archive, and their first lines."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dates import Order

from gearshift.errors import WrongFileError

File = Path | zipfile.Path
_PLAIN = (".csv", ".txt", ".tsv", ".data")
SUFFIXES = (*_PLAIN, ".gz", ".zip")
CALIT2_IN, CALIT2_OUT = "9", "7"
ORDER = re.compile(r"\((mm|dd)\W?(mm|dd)\W?y+\)")
_WORDS: dict[str, Order] = {"mm": "month-first", "dd": "day-first"}


@dataclass(frozen=True)
class Row:
    """A row of a file, with the cells of the known columns."""

    file: File
    line: int
    cells: dict[str, str]

    def wrong(self, what: str, hint: str) -> WrongFileError:
        """An error that names the file and the line."""
        return WrongFileError(what, hint=hint, file=str(self.file), line=self.line)


@dataclass(frozen=True)
class Head:
    """The first line of a file that is not blank."""

    line: int
    cells: list[str]
    separator: str

    @property
    def names(self) -> list[str]:
        """The cells in the form in which names of columns are looked up."""
        return [cell.lower().replace(" ", "_") for cell in self.cells]

    @property
    def is_header(self) -> bool:
        """Whether it names the columns; the first row of a CalIt2 file may be one of counts."""
        return not (
            len(self.names) == 4
            and self.names[0] in (CALIT2_IN, CALIT2_OUT)
            and self.names[1].count("/") == 2
        )

    @property
    def is_calit2(self) -> bool:
        """Whether the rows are those of CalIt2: flow, date, time, count."""
        return not self.is_header or self.names[:1] == ["flowid"]

    @property
    def order(self) -> Order | None:
        """The order that a name such as Date(MM/DD/YY) declares."""
        found = next((found for name in self.names if (found := ORDER.search(name))), None)
        return _WORDS[found[1]] if found else None


def is_note(line: str) -> bool:
    """Whether a line only tells Excel what separates the columns."""
    return re.fullmatch(r"\W*sep=.\W*", line, re.IGNORECASE) is not None


def head_of(file: File) -> Head:
    """The first line of a file."""
    for number, line in enumerate(text_of(file), 1):
        if line.strip() and not is_note(line):
            separator = max(",;\t|", key=line.count)
            cells = next(csv.reader([line], delimiter=separator))
            return Head(number, [cell.strip() for cell in cells], separator)
    return Head(0, [], ",")


def files_of(path: Path) -> list[File]:
    """The files of a path, in the order of their names."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and _is_data(file, SUFFIXES))
        if not files:
            hint = f"use files that end in {', '.join(SUFFIXES)}"
            raise WrongFileError("it has no data files", hint=hint, file=str(path))
    return [each for file in files for each in (_entries(file) if file.suffix.lower() == ".zip" else [file])]


def _is_data(name: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether a file has data; a Mac adds a hidden one for each."""
    return name.suffix.lower() in suffixes and not name.name.startswith(".")


def _entries(file: Path) -> list[File]:
    try:
        archive = zipfile.ZipFile(file)
    except (OSError, zipfile.BadZipFile) as error:
        raise WrongFileError(
            f"cannot be unpacked: {error}", hint="download or copy it again", file=str(file)
        ) from error
    names = [name for name in sorted(archive.namelist()) if _is_data(Path(name), _PLAIN)]
    if not names:
        raise WrongFileError("the archive has no CSV file", hint="add one that ends in .csv", file=str(file))
    return [zipfile.Path(archive, name) for name in names]


def text_of(file: File) -> Iterator[str]:
    """The lines of a file."""
    try:
        with (
            gzip.open(file)
            if isinstance(file, Path) and file.suffix.lower() == ".gz"
            else file.open("rb") as opened
        ):
            start = opened.read(2)
            opened.seek(0)
            if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                yield from io.StringIO(opened.read().decode("utf-16"))
                return
            for number, line in enumerate(opened):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 0 else line
                try:
                    yield line.decode()
                except UnicodeDecodeError:
                    yield line.decode("latin-1")
    except (OSError, EOFError, UnicodeError) as error:
        raise WrongFileError(
            f"cannot be read: {error}", hint="name a file of counts", file=str(file)
        ) from error
