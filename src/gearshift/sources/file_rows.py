"""What a file of a format holds: rows that fit, and rows that do not with the reason."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from gearshift.schemas.encoding import Misfit

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row of a file: its value, or why it has none, and the row as it stands there."""

    line: int
    value: Any
    misfit: Misfit | None
    original: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class FileReader:
    """How files of one format are read."""

    suffixes: tuple[str, ...]
    last: bytes
    """What a whole file usually ends with."""
    survey: Callable[[BinaryIO, type[Any]], str]
    """Goes once through a file, before anything of it is sent: the digest of its bytes, or WrongFileError."""
    rows: Callable[[BinaryIO, type[Any]], Iterator[FileRow]]


def ends_with(file: BinaryIO, last: bytes) -> bool:
    """Whether these are the last bytes of a file."""
    size = file.seek(0, 2)
    file.seek(max(0, size - len(last)))
    found = file.read()
    file.seek(0)
    return found == last


def digest_of(file: BinaryIO, look: Callable[[bytes], None] = lambda _: None) -> str:
    """The digest of a file's bytes; `look` sees them as they pass."""
    digest = hashlib.blake2b(digest_size=16)
    file.seek(0)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        look(chunk)
    file.seek(0)
    return digest.hexdigest()
