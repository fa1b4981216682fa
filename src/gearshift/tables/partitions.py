"""Partition folders: `day=2026-01-31` on disk, `{"day": "2026-01-31"}` in a Delta action. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date
from urllib.parse import unquote

from gearshift.errors import TableError

# Each write has a top folder that looks like a partition: it separates the files of writes, and Spark can still read
# all of them as one partitioned dataset, with partition pruning.
WRITE_FOLDER = "gearshift_write"
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"

Values = Mapping[str, str | None]

# The characters that Spark escapes in a folder's name; it reads any other as itself, and %C3%A9 as two.
_ESCAPED = {*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{[]^"}
ESCAPED = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""
"""The same as a Java regular expression."""

LONGEST_NAME = 255  # bytes of a file's name on every common file system
STAND_IN = "__gearshift_value_"
"""Prefix of the folder's name for a value that cannot be part of one; the table's log has the value itself."""


def values_in(folders: Sequence[str]) -> dict[str, str | None]:
    """The partition values in folder names, as Delta serializes them.

    >>> values_in(["day=2026-01-31", "place=a%2Fb c", "meter=__HIVE_DEFAULT_PARTITION__"])
    {'day': '2026-01-31', 'place': 'a/b c', 'meter': None}
    """
    values: dict[str, str | None] = {}
    for folder in folders:
        name, _, text = folder.partition("=")
        if (
            "?" in text
        ):  # Spark escapes question marks: a plain one is a character that the JVM could not encode
            raise TableError(
                f"partition folder {folder!r} lost characters, because Java does not use UTF-8 for file names",
                hint="start Spark with LC_ALL=C.UTF-8",
            )
        values[unquote(name, errors="strict")] = (
            None if text == NULL_FOLDER else unquote(text, errors="strict")
        )
    return values


def folder_of(name: str, text: str | None) -> str:
    """A partition's folder, named as in Spark; by a digest if the value cannot be part of a folder's name.

    >>> folder_of("place", "a/b c"), folder_of("day", None), folder_of("place", "x" * 300)[:32]
    ('place=a%2Fb c', 'day=__HIVE_DEFAULT_PARTITION__', 'place=__gearshift_value_0d4e2ca9')
    """
    folder = f"{_escaped(name)}={NULL_FOLDER if text is None else _escaped(text)}"
    if text is None or ("\0" not in text and len(folder.encode()) <= LONGEST_NAME):
        return folder
    return f"{_escaped(name)}={STAND_IN}{hashlib.sha256(text.encode()).hexdigest()}"


def as_text(value: object) -> str | None:
    """A partition value as Delta serializes it.

    >>> as_text(date(2026, 1, 31)), as_text(True), as_text(7), as_text(None)
    ('2026-01-31', 'true', '7', None)
    """
    if value is None or value == "":  # Delta has no empty partition value: an empty string means null
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def layout_of(path: str, values: Values) -> str | None:
    """How a file's path encodes its partition values for Spark: `"write"`, `"hive"`, or None if it does not.

    >>> layout_of("gearshift_write=1/day=2026-01-31/part-0.parquet", {"day": "2026-01-31"})
    'write'
    >>> layout_of("day=2026-01-31/part-0.parquet", {"day": "2026-01-31"})
    'hive'
    >>> layout_of("part-0.parquet", {"day": "2026-01-31"}) is None
    True
    """
    folders = path.split("/")[:-1]
    layout = "hive"
    if folders and folders[0].startswith(f"{WRITE_FOLDER}="):
        layout, folders = "write", folders[1:]
    if any("=" not in folder for folder in folders):
        return None
    found = values_in(folders)
    return layout if found == dict(values) and list(found) == list(values) else None


def _escaped(text: str) -> str:
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)
