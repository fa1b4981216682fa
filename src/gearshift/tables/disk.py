"""What a disk refuses, in a sentence: Java, Arrow and delta-rs each say it in pages of their own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gearshift.errors import TableError
from gearshift.location import as_uri, name_of

_AGAIN = "what was committed stays, and the batch is written again"
_REFUSALS = {
    "No space left on device": f"make room there: {_AGAIN}",
    "Disk quota exceeded": f"make room there: {_AGAIN}",
    "File too large": f"raise the limit on a file's size: {_AGAIN}",
    "Read-only file system": f"mount it for writing, or choose another with the warehouse setting: {_AGAIN}",
    "Permission denied": f"give this user the folder, or choose another with the warehouse setting: {_AGAIN}",
    "Input/output error": f"see to the disk: {_AGAIN}",
}


@contextmanager
def on_disk(uri: str) -> Generator[None]:
    """Say which table could not be written and what the disk refused; other failures go through as they are."""
    try:
        yield
    except Exception as error:
        text = str(error)
        for words, hint in _REFUSALS.items():
            if words.lower() in text.lower():
                raise TableError(
                    f"table {name_of(uri)} at {as_uri(uri)} cannot be written: {words.lower()}", hint=hint
                ) from error
        raise
