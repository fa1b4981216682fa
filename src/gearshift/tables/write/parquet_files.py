"""Writes the Parquet files of a batch to a new folder, in which no reader sees them before the commit."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from deltalake import Schema

from gearshift.errors import TableError
from gearshift.storage.location import StorageOptions, local_path, name_of, nearest, spark_path
from gearshift.storage.object_store import Store
from gearshift.tables.columns import fields_of, quoted
from gearshift.tables.disk import on_disk
from gearshift.tables.partitions import (
    ESCAPED,
    LONGEST_NAME,
    STAND_IN,
    WRITE_FOLDER,
    Values,
    as_text,
    folder_of,
    values_in,
)
from gearshift.tables.read.unreadable import guarded, literal, refusal

_ODD = "GEARSHIFT_ODD_PARTITION"
# A column that only the files of such tables have; it is not part of the table's schema.
_VALUES = "gearshift_partition_values"
_KEEP_VALUES: set[str] = set()
"""Tables with a partition value that cannot be a folder's name: their files store the values."""


class Frame(Protocol):
    """The part of a Spark DataFrame that this package uses."""

    @property
    def schema(self) -> Any: ...
    @property
    def write(self) -> Any: ...
    def selectExpr(self, *expressions: str) -> Frame: ...  # noqa: N802
    @property
    def sparkSession(self) -> Any: ...  # noqa: N802


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A Parquet file that is not committed yet; its path is relative to the table."""

    path: str
    size: int
    rows: int
    values: Values
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The folder of a write, and the files in it that have rows."""

    folder: str
    files: tuple[WrittenFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows that Spark wrote."""
        return sum(file.rows for file in self.files)


def write(
    frame: Frame,
    uri: str,
    *,
    partition_by: Sequence[str],
    label: str,
    storage_options: StorageOptions = None,
) -> Written:
    """Write the frame with Spark to a new folder of the table, without renames and without conflicts."""
    # INT96, Spark's default, is deprecated, has no statistics, and other readers treat it as local time.
    frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    require_writable(uri)
    folder = new_folder(label)
    keeps_values = uri in _KEEP_VALUES
    frame = _guarded(frame, uri, partition_by, keeps_values=keeps_values)
    writer = frame.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    with on_disk(uri):
        try:
            writer.parquet(f"{spark_path(uri)}/{folder}")
        except Exception as error:
            _remove(uri, folder, storage_options)  # remove the incomplete write: the disk may be full
            raise _value_error(uri, str(error)) or error from error
    found = _found(uri, folder, storage_options)
    if keeps_values:
        found = tuple(_with_values(file, uri, storage_options) for file in found)
    return Written(folder=folder, files=found)


def run(frame: Frame) -> None:
    """Run a frame whose rows are in the table already.

    Spark commits a streaming batch only if its frame ran completely: state stores and observed metrics
    depend on it.
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
    """Write the Arrow batches of one partition without Spark, in Spark's layout."""
    store = Store(uri, storage_options)
    path = "/".join([folder, *(folder_of(column, values[column]) for column in partition_by), name])
    with on_disk(uri):
        entries = store.write(path, schema, batches, without=partition_by)
    counts = store.row_counts([entry.path for entry in entries])
    return [
        WrittenFile(path=entry.path, size=entry.size, rows=rows, values=values, modified_ms=entry.modified_ms)
        for entry, rows in zip(entries, counts, strict=True)
    ]


def new_folder(label: str) -> str:
    """A unique name for the folder of a write."""
    return f"{WRITE_FOLDER}={label}-{uuid.uuid4().hex[:12]}"


def require_writable(uri: str) -> None:
    """Raise TableError if this user may not write the table's folder."""
    folder = local_path(uri)
    if folder is None:
        return
    found = nearest(folder)
    if not (found.is_dir() and os.access(found, os.W_OK | os.X_OK)):
        raise TableError(
            f"table {name_of(uri)} cannot be written: no permission in {found}",
            hint="grant this user access, or choose another folder with the warehouse setting",
        )


def remove(uri: str, written: Written, storage_options: StorageOptions = None) -> None:
    """Delete a write that will not be committed."""
    _remove(uri, written.folder, storage_options)


def _remove(uri: str, folder: str, storage_options: StorageOptions) -> None:
    Store(uri, storage_options).remove(folder)
    root = local_path(uri)
    if root is not None:
        with contextlib.suppress(OSError):
            root.rmdir()  # a dropped table must not leave an empty folder that blocks restoring it


def _guarded(frame: Frame, uri: str, partition_by: Sequence[str], *, keeps_values: bool) -> Frame:
    """The frame with checks that all values are readable and partition values can be folder names."""
    fields = fields_of(frame.schema.json(), name_of(uri))
    texts = [
        name for name in partition_by if any(f["name"] == name and f["type"] == "string" for f in fields)
    ]
    cases: dict[str, str] = {}
    for name in texts:
        column, room = quoted(name), LONGEST_NAME - len(folder_of(name, "").encode())
        longer = f"octet_length({column}) + 2 * regexp_count({column}, {literal(ESCAPED)}) > {room}"
        odd = f"instr({column}, char(0)) > 0 OR (3 * octet_length({column}) > {room} AND {longer})"
        stand_in = f"concat({literal(STAND_IN)}, sha2({column}, 256))"
        stop = f"cast(raise_error({literal(f'{_ODD}={name};')}) as string)"
        cases[name] = f"WHEN {odd} THEN {stand_in if keeps_values else stop}"
    columns = guarded(fields, cases)
    if keeps_values:
        pairs = ", ".join(f"{literal(name)}, {quoted(name)}" for name in texts)
        columns.append(f"map({pairs}) AS {_VALUES}")
    return frame.selectExpr(*columns)


def _value_error(uri: str, text: str) -> TableError | None:
    odd = re.search(rf"{_ODD}=([^\n;]+);", text)
    if odd is None:
        return refusal(name_of(uri), text)
    _KEEP_VALUES.add(uri)
    return TableError(
        f"table {name_of(uri)}: a value of partition column {odd[1]} cannot be a folder's name: "
        "it is too long or has a NUL",
        hint="the batch is retried with a digest in the folder's name",
    )


def _with_values(file: WrittenFile, uri: str, storage_options: StorageOptions) -> WrittenFile:
    """The file with the partition values stored in its rows, since its folder may have only a digest."""
    kept = dict(Store(uri, storage_options).first_value(file.path, _VALUES))
    return replace(file, values={name: as_text(kept.get(name, text)) for name, text in file.values.items()})


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
