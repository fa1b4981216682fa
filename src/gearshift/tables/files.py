"""The Parquet files of one write: Spark puts them into a folder of their own, and a commit makes them visible."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deltalake import Schema

from gearshift.errors import TableError
from gearshift.location import StorageOptions, local_path, name_of, nearest, spark_path
from gearshift.tables.disk import on_disk
from gearshift.tables.partitions import WRITE_FOLDER, Values, folder_of, values_in
from gearshift.tables.store import Store


class Frame(Protocol):
    """What this package uses of a Spark DataFrame."""

    @property
    def schema(self) -> Any: ...
    @property
    def write(self) -> Any: ...
    def selectExpr(self, *expressions: str) -> Frame: ...  # noqa: N802
    @property
    def sparkSession(self) -> Any: ...  # noqa: N802


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A Parquet file that no reader sees yet; its path is relative to the table."""

    path: str
    size: int
    rows: int
    values: Values
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One write's folder and the files in it that hold rows."""

    folder: str
    files: tuple[WrittenFile, ...]

    @property
    def rows(self) -> int:
        """How many rows Spark wrote."""
        return sum(file.rows for file in self.files)


def write(
    frame: Frame,
    uri: str,
    *,
    partition_by: Sequence[str],
    label: str,
    storage_options: StorageOptions = None,
) -> Written:
    """Have Spark write the frame into a new folder of the table: no rename, no file that another write could meet."""
    # INT96, Spark's default, is deprecated, has no statistics, and other readers take it for a local time.
    frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    require_writable(uri)
    folder = new_folder(label)
    writer = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    with on_disk(uri):
        try:
            writer.parquet(f"{spark_path(uri)}/{folder}")
        except Exception:
            _remove(uri, folder, storage_options)  # half a write helps nobody, least of all on a full disk
            raise
    return Written(folder=folder, files=_found(uri, folder, storage_options))


def run(frame: Frame) -> None:
    """Run a frame whose rows the table has already.

    Spark commits a streaming batch only if its frame ran, once and whole: the state stores and the observed
    counts depend on it.
    """
    frame.write.format("noop").mode("append").save()


def write_batches(
    uri: str,
    folder: str,
    schema: Schema,
    partition_by: Sequence[str],
    values: Values,
    batches: Iterable[Any],
    *,
    storage_options: StorageOptions = None,
    name: str = "part",
) -> list[WrittenFile]:
    """Write the Arrow batches of one partition ourselves, laid out as Spark would."""
    store = Store(uri, storage_options)
    place = "/".join([folder, *(folder_of(column, values[column]) for column in partition_by), name])
    with on_disk(uri):
        entries = store.write(place, schema, batches, without=partition_by)
    counts = store.row_counts([entry.path for entry in entries])
    return [
        WrittenFile(path=entry.path, size=entry.size, rows=rows, values=values, modified_ms=entry.modified_ms)
        for entry, rows in zip(entries, counts, strict=True)
    ]


def new_folder(label: str) -> str:
    """A folder name in a table that no other write has."""
    return f"{WRITE_FOLDER}={label}-{uuid.uuid4().hex[:12]}"


def require_writable(uri: str) -> None:
    """Say in a sentence what Java says in pages: the warehouse is in a folder that we may not write."""
    place = local_path(uri)
    if place is None:
        return
    found = nearest(place)
    if not (found.is_dir() and os.access(found, os.W_OK | os.X_OK)):
        raise TableError(
            f"table {name_of(uri)} cannot be written: no permission in {found}",
            hint="give this user the folder, or choose another with the warehouse setting",
        )


def remove(uri: str, written: Written, storage_options: StorageOptions = None) -> None:
    """Delete a write that will not be committed."""
    _remove(uri, written.folder, storage_options)


def _remove(uri: str, folder: str, storage_options: StorageOptions) -> None:
    Store(uri, storage_options).remove(folder)
    place = local_path(uri)
    if place is not None:
        with contextlib.suppress(OSError):
            place.rmdir()  # a table that is gone leaves no empty folder in the place of the one that comes back


def _found(uri: str, folder: str, storage_options: StorageOptions) -> tuple[WrittenFile, ...]:
    store = Store(uri, storage_options)
    entries = [entry for entry in store.files(folder) if entry.path.endswith(".parquet")]
    counts = store.row_counts([entry.path for entry in entries])
    return tuple(
        WrittenFile(
            path=entry.path,
            size=entry.size,
            rows=rows,
            values=values_in(entry.path.split("/")[1:-1]),
            modified_ms=entry.modified_ms,
        )
        for entry, rows in zip(entries, counts, strict=True)
        if rows
    )
