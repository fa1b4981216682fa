"""JSON documents of a file, folder or zip archive, whose values know their place for an error."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from gearshift.errors import WrongFileError

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_YAML = "download the matches as JSON"


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a document."""

    value: Any
    document: str
    """The whole text."""
    file: str
    path: tuple[str | int, ...] = ()

    def error(self, what: str, hint: str) -> WrongFileError:
        """An error that names the file, the line and the place, such as `innings[1].overs[3]`."""
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).lstrip(
            "."
        )
        line = _line_of(self.document, self.path)
        return WrongFileError(f"{place}: {what}" if place else what, hint=hint, file=self.file, line=line)

    def part(self, name: str) -> Node | None:
        """A field of an object; None if it is absent or null."""
        if not isinstance(self.value, dict):
            raise self.error("it is not an object", "use a match file of cricsheet")
        found = self.value.get(name)
        return None if found is None else Node(found, self.document, self.file, (*self.path, name))

    def need(self, name: str) -> Node:
        """A field that must be there."""
        found = self.part(name)
        if found is None:
            raise self.error(f"it has no {name}", f"add {name}, or download the match again")
        return found

    def items(self, name: str) -> list[Node]:
        """The items of a list; none if it is absent."""
        found = self.part(name)
        if found is None:
            return []
        if not isinstance(found.value, list):
            raise found.error("it is not a list", "download the match again")
        return [
            Node(value, self.document, self.file, (*found.path, n)) for n, value in enumerate(found.value)
        ]

    def text(self) -> str:
        """The value, which must be a text."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.error(f"{self.value!r} is not a text", "correct it, or download the match again")
        return self.value.strip()

    def number(self) -> int:
        """The value, which must be a whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 0:
            raise self.error(f"{self.value!r} is not a number of 0 or more", "correct it")
        return self.value

    def decimal(self) -> Decimal:
        """The value, which must be a number."""
        if isinstance(self.value, Decimal) and self.value >= 0:
            return self.value
        return Decimal(self.number())

    def texts(self, name: str) -> list[str]:
        """The texts of a list."""
        return [item.text() for item in self.items(name)]

    def text_of(self, name: str) -> str | None:
        """A text that may be absent."""
        found = self.part(name)
        return None if found is None else found.text()

    def number_of(self, name: str) -> int | None:
        """A number that may be absent."""
        found = self.part(name)
        return None if found is None else found.number()

    def flag(self, name: str) -> bool:
        """Whether a field is there and true."""
        found = self.part(name)
        return found is not None and found.value is True


def documents(path: Path) -> Iterator[tuple[str, Node]]:
    """The name and content of each JSON document, in the order of their names."""
    if not path.exists():
        raise WrongFileError("it does not exist", hint="name a file, folder or zip of JSON", file=str(path))
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if _is_data(file, ".json", ".zip"))
        if not files:
            raise WrongFileError("it has no .json files", hint=_YAML, file=str(path))
    for file in files:
        if file.suffix.lower() == ".zip":
            yield from _packed(file)
        else:
            yield file.stem, _parsed(file.read_bytes(), str(file))


def _is_data(name: PurePath, *suffixes: str) -> bool:
    """Whether a file has data; a Mac adds a hidden one for each."""
    return name.suffix.lower() in suffixes and not name.name.startswith(".")


def _packed(file: Path) -> Iterator[tuple[str, Node]]:
    try:
        with zipfile.ZipFile(file) as archive:
            names = [PurePosixPath(name) for name in sorted(archive.namelist())]
            wanted = [name for name in names if _is_data(name, ".json")]
            if not wanted:
                raise WrongFileError("the archive has no .json files", hint=_YAML, file=str(file))
            for name in wanted:
                yield name.stem, _parsed(archive.read(str(name)), f"{file}/{name}")
    except (zipfile.BadZipFile, zlib.error) as error:
        raise WrongFileError(
            f"it cannot be unpacked: {error}", hint="download or copy it again", file=str(file)
        ) from None


def _parsed(data: bytes, file: str) -> Node:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrongFileError("it is not UTF-8 text", hint="save it as UTF-8", file=file, line=line) from None
    try:
        return Node(json.loads(text, parse_float=Decimal), text, file)
    except json.JSONDecodeError as error:
        raise WrongFileError(
            f"it is not JSON: {error.msg}", hint=_YAML, file=file, line=error.lineno
        ) from None


def _line_of(text: str, path: tuple[str | int, ...]) -> int:
    """The line of a value in a valid document, or of the object that lacks it.

    >>> _line_of('{"a": 1,\\n "b": [2,\\n 3]}', ("b", 1))
    3
    """

    def skip(place: int) -> int:
        found = _SPACE.match(text, place)
        return found.end() if found else place

    place = skip(0)
    for part in path:
        inside, number = skip(place + 1), 0
        while True:
            key: str | int = number
            if isinstance(part, str):
                key, inside = _DECODER.raw_decode(text, inside)
                inside = skip(skip(inside) + 1)
            if key == part:
                break
            _, inside = _DECODER.raw_decode(text, inside)
            inside, number = skip(skip(inside) + 1), number + 1
        place = inside
    return text.count("\n", 0, place) + 1
