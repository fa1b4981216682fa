"""Translates the errors of disks and remote stores, from Java, Arrow and delta-rs, to one sentence."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gearshift.errors import TableError
from gearshift.storage.failures import storage_failure
from gearshift.storage.location import as_uri, local_path, name_of

_RETRIED = "committed rows are safe, and the batch is retried"
_ERRORS = {
    "No space left on device": f"free disk space: {_RETRIED}",
    "Disk quota exceeded": f"free disk space: {_RETRIED}",
    "File too large": f"raise the limit on file sizes: {_RETRIED}",
    "Read-only file system": f"mount it for writing, or choose another with the warehouse setting: {_RETRIED}",
    "Permission denied": f"grant this user access, or choose another folder with the warehouse setting: {_RETRIED}",
    "Input/output error": f"check the disk: {_RETRIED}",
}


@contextmanager
def on_disk(uri: str) -> Generator[None]:
    """Turn a disk error into a TableError that names the table, and a remote store's into a StorageError."""
    try:
        yield
    except Exception as error:
        failure = storage_failure(uri, error) if local_path(uri) is None else None
        if failure is not None:
            raise failure from error
        text = str(error)
        for reason, hint in _ERRORS.items():
            if reason.lower() in text.lower():
                raise TableError(
                    f"table {name_of(uri)} at {as_uri(uri)} cannot be written: {reason.lower()}", hint=hint
                ) from error
        raise
