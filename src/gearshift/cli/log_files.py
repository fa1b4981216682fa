"""The log files under gearshift's home: found by name, read from the end, and followed when they are replaced."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, Self

from gearshift.errors import DefinitionError

_FOLDERS = ("stack/logs", "logs")
_BLOCK = 1 << 16
_LONGEST = 1 << 20  # bytes of a line; a longer one is shown in parts
_CONSUMER = re.compile(r"delivery-(.+)-[^-]+")


@dataclass(frozen=True, slots=True)
class Log:
    """A log file."""

    path: Path
    size: int
    written: datetime

    @property
    def name(self) -> str:
        """Its name without `.log`."""
        return self.path.stem


def find(home: Path) -> list[Log]:
    """The logs, by folder and name."""
    found: list[Log] = []
    for folder in _FOLDERS:
        for path in sorted((home / folder).glob("*.log")):
            try:
                state = path.stat()
            except FileNotFoundError:  # replaced at this moment
                continue
            found.append(Log(path, state.st_size, datetime.fromtimestamp(state.st_mtime, UTC)))
    return found


def choose(found: list[Log], name: str, *, home: Path, previous: bool = False) -> list[Path]:
    """The files of a service, a delivery or another log; DefinitionError if there are none."""
    chosen = [log.path for log in found if name in names_of(log.name)]
    if not chosen:
        known = sorted({names_of(log.name)[-1] for log in found})
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise DefinitionError(
            f"there is no log {name!r} in {home}",
            hint=hint if known else "gearshift run and gearshift up write logs",
        )
    if previous:
        chosen = [old for path in chosen if (old := path.with_name(f"{path.name}.1")).exists()]
        if not chosen:
            raise DefinitionError(f"{name} has no previous log", hint="leave out --previous")
    return chosen


def names_of(stem: str) -> tuple[str, ...]:
    """The names that select a log: its own, and that of its delivery or of all brokers.

    >>> names_of("delivery-text_owner-2"), names_of("kafka-1"), names_of("registry")
    (('delivery-text_owner-2', 'text_owner'), ('kafka-1', 'kafka'), ('registry',))
    """
    if (consumer := _CONSUMER.fullmatch(stem)) is not None:
        return stem, consumer[1]
    return (stem, "kafka") if re.fullmatch(r"kafka-\d+", stem) else (stem,)


class LogReader:
    """Reads a log from its last lines on, also after a restarted service has replaced it or it was emptied."""

    def __init__(self, path: Path, *, last: int) -> None:
        self.path = path
        self._rest = b""
        self._file = self._open()
        if self._file is not None:
            _seek_last(self._file, last)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def lines(self) -> list[str]:
        """The complete lines that are new since the last call."""
        found = self._read()
        if self._is_replaced():
            # What was written between the first reading and the replacement.
            found += [*self._read(), *self.end()]
            if self._file is not None:
                self._file.close()
            self._file = self._open()
            found += self._read()
        return found

    def end(self) -> list[str]:
        """The last line, if it has no line break yet."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []

    def _open(self) -> BinaryIO | None:
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            return None

    def _is_replaced(self) -> bool:
        try:
            now = self.path.stat()
        except FileNotFoundError:
            return False
        if self._file is None:
            return True
        known = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (known.st_dev, known.st_ino) or now.st_size < self._file.tell()

    def _read(self) -> list[str]:
        if self._file is None:
            return []
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines.append(self._rest)
            self._rest = b""
        return [_text(line) for line in lines]


def _seek_last(file: BinaryIO, count: int) -> None:
    """Move to the beginning of the last lines, without reading what is before them."""
    size = file.seek(0, os.SEEK_END)
    if not size or not count:
        return
    breaks, at = 0, size - 1  # a break at the very end ends the last line
    while at > 0:
        begin = max(0, at - _BLOCK)
        file.seek(begin)
        block = file.read(at - begin)
        while (found := block.rfind(b"\n")) >= 0:
            breaks += 1
            if breaks == count:
                file.seek(begin + found + 1)
                return
            block = block[:found]
        at = begin
    file.seek(0)


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace").expandtabs(4)
