"""The interface of a file format: its rows, and for each that does not fit the reason."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from gearshift.schemas.encoding import Misfit

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row of a file: its value, or why it does not fit, and its original bytes."""

    line: int
    value: Any
    misfit: Misfit | None
    original: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads files of one format."""

    suffixes: tuple[str, ...]
    last: bytes
    """The bytes at the end of a complete file."""
    survey: Callable[[BinaryIO, type[Any]], str]
    """Reads a whole file before any of it is sent: the digest of its bytes, or WrongFileError."""
    rows: Callable[[BinaryIO, type[Any]], Iterator[FileRow]]


def ends_with(file: BinaryIO, last: bytes) -> bool:
    """Whether a file ends with these bytes."""
    size = file.seek(0, 2)
    file.seek(max(0, size - len(last)))
    found = file.read()
    file.seek(0)
    return found == last


def digest_of(file: BinaryIO, on_chunk: Callable[[bytes], None] = lambda _: None) -> str:
    """The digest of a file's bytes; `on_chunk` gets each chunk."""
    digest = hashlib.blake2b(digest_size=16)
    file.seek(0)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        on_chunk(chunk)
    file.seek(0)
    return digest.hexdigest()
