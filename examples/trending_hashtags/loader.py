"""Reads public files of posts: Twitter's JSON lines (API v1.1 and v2) and CSV such as Sentiment140.

- JSON lines: a status of v1.1 (`id_str`, `created_at` as `Wed Aug 27 13:08:45 +0000 2008`, `full_text` or `text`,
  `user.id_str`), a post of v2 (`id`, `created_at` in ISO 8601, `text`, `author_id`) or a page of them (`data`). Notices
  that are not posts (`delete`, `limit`, `meta`) are skipped.
- CSV: Sentiment140's six columns without a header, or any file whose header names a date, a user and a text. Without a column
  for it, the id of a post is the file's name with the line.

Lines may be UTF-8 (with or without a BOM) or Latin-1, end in CRLF, be blank, and be compressed (.gz, .bz2, .zip).
Escaped characters (`&amp;`) are unescaped. A folder or archive is read file by file, in the order of the names.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import html
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from times import instant
from values import Post

from gearshift.errors import WrongFileError

SENTIMENT140 = ("polarity", "id", "date", "query", "user", "text")
COLUMNS = {
    "post_id": ("id", "tweet_id", "tweetid", "id_str", "ids", "post_id", "status_id"),
    "posted_at": ("created_at", "date", "timestamp", "datetime", "posted_at", "tweet_created", "tweet_time"),
    "account": (
        "author_id",
        "user",
        "user_id",
        "userid",
        "username",
        "user_name",
        "name",
        "account",
        "screen_name",
    ),
    "text": ("full_text", "text", "tweet", "tweet_text", "content", "body"),
}
"""The names of each field's column in public files, the better ones first."""
NEEDED = COLUMNS.keys() - {"post_id"}
NOTICES = {
    "delete",
    "limit",
    "warning",
    "scrub_geo",
    "disconnect",
    "status_withheld",
    "user_withheld",
    "meta",
}

UNCLOSED = "quote texts with commas or line ends, and double the quotes in them"

SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".gz", ".bz2", ".zip")
Open = Callable[[Path, str], Any]
COMPRESSED: dict[str, Open] = {".gz": gzip.open, ".bz2": bz2.open}


def load(path: Path) -> Iterator[Post]:
    """The posts of a file or of all files in a folder or archive, as they come."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file() and _is_data(each))
        if not files:
            hint = f"use files that end in {', '.join(SUFFIXES)}"
            raise WrongFileError("it has no data files", hint=hint, file=str(path))
        for file in files:
            yield from load(file)
        return
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                for name in sorted(each for each in archive.namelist() if _is_data(Path(each))):
                    with archive.open(name) as file:
                        yield from _posts(path / name, file)
        else:
            with COMPRESSED.get(path.suffix.lower(), Path.open)(path, "rb") as file:
                yield from _posts(path, file)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise WrongFileError(
            f"cannot be read: {error}", hint="name a file of posts", file=str(path)
        ) from error


def _is_data(name: Path) -> bool:
    """Whether a file has data; a Mac adds a hidden one for each."""
    return name.suffix.lower() in SUFFIXES and not name.name.startswith(".")


def _posts(path: Path, file: Iterable[bytes]) -> Iterator[Post]:
    lines = (
        _decoded(line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line)
        for number, line in enumerate(file)
    )
    for start, first in enumerate(lines, 1):
        if first.strip():
            if first.lstrip()[0] in "{[":
                yield from _from_json(path, chain([first], lines), start)
            else:
                yield from _from_csv(path, chain([first], lines), start, max(",;\t", key=first.count))


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")  # Sentiment140's encoding


def _from_json(path: Path, lines: Iterable[str], start: int) -> Iterator[Post]:
    for number, line in enumerate(lines, start):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            if number > start:
                hint = "repair or remove the line"
                raise _wrong(f"not a JSON document: {error}", hint, path, number) from None
            found = _whole(path, line + "".join(lines), start)
        for entry in _entries(found):
            yield _post(path, number, _fields(entry))


def _whole(path: Path, text: str, start: int) -> Any:
    """The document of a file that is one document in many lines."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        what = f"neither a JSON document per line nor one in all: {error.msg}"
        raise _wrong(what, "write one post per line", path, start + error.lineno - 1) from None


def _entries(found: Any) -> Iterator[Any]:
    """The posts of a document: one, a list of them, or a page."""
    if isinstance(found, list):
        yield from found
    elif isinstance(found, dict) and "data" in found:
        yield from _entries(found["data"])
    elif not (isinstance(found, dict) and len(NOTICES & found.keys()) and "text" not in found):
        yield found


def _fields(entry: Any) -> dict[str, Any]:
    """The fields of a post in either version of the API."""
    if not isinstance(entry, dict):
        return {}
    original = entry.get("retweeted_status") or entry  # a retweet's own text is cut off
    longest = original.get("extended_tweet") or original
    user = entry.get("user") or {}
    return {
        "post_id": entry.get("id_str") or entry.get("id"),
        "posted_at": entry.get("created_at"),
        "account": entry.get("author_id") or user.get("id_str") or user.get("id") or user.get("screen_name"),
        "text": longest.get("full_text") or longest.get("text"),
    }


def _from_csv(path: Path, lines: Iterable[str], start: int, delimiter: str) -> Iterator[Post]:
    taken: list[str] = []  # the lines of the current row

    def noted() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    rows = csv.reader(noted(), delimiter=delimiter)
    places: dict[str, int] | None = None
    width = 0
    while True:
        number = start + rows.line_num  # of the line on which the row begins
        taken.clear()
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise _wrong(f"not CSV: {error}", UNCLOSED, path, number) from None
        if row is None:
            return
        if len(taken) > 1 and sum(line.count('"') for line in taken) % 2:
            raise _wrong("a quote is not closed", UNCLOSED, path, number)
        if not any(cell.strip() for cell in row):
            continue
        if places is None:
            width = len(row)
            places, is_header = _header(path, number, row)
            if is_header:
                continue
        if len(row) != width:
            what = f"{len(row)} columns where the first row has {width}"
            raise _wrong(what, UNCLOSED, path, number)
        fields = {field: row[place] for field, place in places.items()}
        yield _post(path, number, {"post_id": f"{path.stem}:{number}", **fields})


def _header(path: Path, number: int, row: list[str]) -> tuple[dict[str, int], bool]:
    """The column of each field, and whether this row is the header that names them."""
    names = [cell.strip().casefold() for cell in row]
    found = {
        field: names.index(known[0])
        for field, aliases in COLUMNS.items()
        if (known := [alias for alias in aliases if alias in names])
    }
    if found.keys() >= NEEDED:
        return found, True
    if len(row) == len(SENTIMENT140) and not found:
        return {"post_id": 1, "posted_at": 2, "account": 4, "text": 5}, False
    missing = ", ".join(field for field in COLUMNS if field in NEEDED - found.keys())
    what = f"neither Sentiment140's six columns nor a header: no column for {missing}"
    raise _wrong(what, "name the columns id, created_at, author_id and text", path, number)


def _post(path: Path, number: int, fields: dict[str, Any]) -> Post:
    missing = [field for field in COLUMNS if fields.get(field) in (None, "")]
    if missing and missing != ["text"]:
        hint = "each post needs an id, created_at, a user or author_id, and a text"
        raise _wrong(f"a post without {', '.join(missing)}", hint, path, number)
    try:
        posted_at = instant(str(fields["posted_at"]))
    except ValueError as error:
        hint = "write it as 2020-02-14T19:00:55Z or Wed Aug 27 13:08:45 +0000 2008"
        raise _wrong(str(error), hint, path, number) from None
    text = html.unescape(str(fields.get("text") or ""))
    return Post(str(fields["post_id"]), str(fields["account"]), text, posted_at)


def _wrong(what: str, hint: str, path: Path, line: int) -> WrongFileError:
    return WrongFileError(what, hint=hint, file=str(path), line=line)
