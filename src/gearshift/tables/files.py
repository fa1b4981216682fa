"""The Parquet files of one write: Spark puts them into a folder of their own, and a commit makes them visible."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gearshift.tables.location import StorageOptions, spark_path
from gearshift.tables.partitions import WRITE_FOLDER, Values, values_in
from gearshift.tables.store import Store


class Frame(Protocol):
    """What this package uses of a Spark DataFrame."""

    @property
    def schema(self) -> Any: ...
    @property
    def write(self) -> Any: ...
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
    folder = f"{WRITE_FOLDER}={label}-{uuid.uuid4().hex[:12]}"
    writer = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.parquet(f"{spark_path(uri)}/{folder}")
    return Written(folder=folder, files=_found(uri, folder, storage_options))


def remove(uri: str, written: Written, storage_options: StorageOptions = None) -> None:
    """Delete a write that will not be committed."""
    Store(uri, storage_options).remove(written.folder)


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
