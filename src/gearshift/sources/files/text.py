"""Reads text files: CSV with a header, and JSON lines."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO

from gearshift.errors import WrongFileError
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.json.decoding import JSON_CLOSED, decoder
from gearshift.schemas.shapes import describe
from gearshift.sources.files.cells import row_reader
from gearshift.sources.files.rows import FileReader, FileRow, digest_of
from gearshift.sources.strict_json import read_json

_LONGEST_LINE = 16 << 20
_BOM = b"\xef\xbb\xbf"


class _Lines(Iterator[str]):
    """The lines of a file; those of the current row are held, so that they can be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self.held: list[bytes] = []
        self.line = 0
        """The number of the first held line."""
        self._file = file
        self._again: deque[bytes] = deque()

    def __next__(self) -> str:
        raw = self._again.popleft() if self._again else self._file.readline()
        if not raw:
            raise StopIteration
        self.held.append(raw)
        return raw.decode("utf-8")

    def begin(self) -> None:
        """Start a new row at the next line."""
        self.line += len(self.held) or 1
        self.held.clear()

    def put_back(self) -> None:
        """Keep only the first line in this row: the others are read again."""
        self._again.extendleft(reversed(self.held[1:]))
        del self.held[1:]

    def original(self) -> bytes:
        """The held lines, as in the file."""
        return b"".join(self.held).rstrip(b"\r\n")


def _survey(file: BinaryIO, kind: str) -> str:
    before = 0
    first = True

    def check(chunk: bytes) -> None:
        nonlocal before, first
        if first and b"\0" in chunk[:8192]:
            raise WrongFileError(f"it contains binary data and is not {kind}", hint="write it as UTF-8 text")
        first = False
        newline = chunk.find(b"\n")
        if before + (len(chunk) if newline < 0 else newline) > _LONGEST_LINE:
            raise WrongFileError(
                f"it has a line of more than {_LONGEST_LINE >> 20} MB and is not {kind}",
                hint="write one record per line",
            )
        before = before + len(chunk) if newline < 0 else len(chunk) - chunk.rfind(b"\n")

    return digest_of(file, check)


def _survey_csv(file: BinaryIO, value_type: type[Any]) -> str:
    digest = _survey(file, "CSV")
    _header(_Lines(file), value_type)
    file.seek(0)
    return digest


def _header(lines: _Lines, value_type: type[Any]) -> list[str]:
    lines.begin()
    try:
        names = [name.strip() for name in next(csv.reader(lines, strict=True), list[str]())]
        if names and names[0].startswith("\ufeff"):
            names[0] = names[0][1:].strip().strip('"')
        if not any(names):
            raise WrongFileError(
                "it has no header", hint="name the fields of the value type in the first line"
            )
        row_reader(value_type, names)
    except (csv.Error, UnicodeDecodeError) as error:
        raise WrongFileError(f"its header cannot be read: {error}", hint="write it as UTF-8 CSV") from None
    except Misfit as misfit:
        one = len(lines.held) == 1 and "," not in lines.held[0].decode("utf-8", "replace")
        separated = one and any(mark in lines.held[0] for mark in (b";", b"\t", b"|"))
        raise WrongFileError(
            f"its header does not fit {value_type.__name__}: {misfit}",
            hint="separate the columns with commas" if separated else "name the columns like the fields",
        ) from None
    return names


def _csv_rows(file: BinaryIO, value_type: type[Any]) -> Iterator[FileRow]:
    lines = _Lines(file)
    header = _header(lines, value_type)
    to_value = row_reader(value_type, header)
    reader = csv.reader(lines, strict=True)
    while True:
        lines.begin()
        value: Any = None
        misfit: Misfit | None = None
        try:
            cells = next(reader, None)
            if cells is None:
                return
            if not cells:
                continue  # an empty line
            if len(cells) == len(header):
                value = to_value(cells)
            else:
                lines.put_back()
                misfit = Misfit(f"has {len(cells)} columns, but the header has {len(header)}")
        except Misfit as found:
            misfit = found
        except UnicodeDecodeError as error:
            lines.put_back()
            misfit = Misfit(f"is not UTF-8: {error.reason}")
        except csv.Error as error:
            # A quote that is never closed would consume the rest of the file: only its own line is wrong.
            lines.put_back()
            misfit = Misfit(f"is not valid CSV: {error}")
        yield FileRow(lines.line, value, misfit, lines.original)


def _json_rows(file: BinaryIO, value_type: type[Any]) -> Iterator[FileRow]:
    to_value = decoder(describe(value_type), JSON_CLOSED)
    for number, raw in enumerate(file, 1):
        line = raw.removeprefix(_BOM) if number == 1 else raw
        if not line.strip():
            continue
        value: Any = None
        misfit: Misfit | None = None
        try:
            value = to_value(read_json(line))
        except Misfit as found:
            misfit = found
        yield FileRow(number, value, misfit, lambda raw=raw: raw.rstrip(b"\r\n"))


CSV = FileReader((".csv",), b"\n", _survey_csv, _csv_rows)
JSON_LINES = FileReader((".jsonl", ".ndjson"), b"\n", lambda file, _: _survey(file, "JSON lines"), _json_rows)
