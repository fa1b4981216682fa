"""Commits: whole batches become visible at one instant; who loses a race looks again and tries on top of the winner."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from gearshift.definitions import Table
from gearshift.errors import TableError
from gearshift.location import StorageOptions, as_uri, name_of
from gearshift.tables import columns
from gearshift.tables.columns import Field
from gearshift.tables.disk import on_disk
from gearshift.tables.files import WrittenFile
from gearshift.tables.partitions import as_text
from gearshift.tables.snapshot import (
    BATCH_KEY,
    OPERATION_KEY,
    ROWS_KEY,
    WRITER_KEY,
    StoredFile,
    exists,
    open_table,
)

# Everything that removes files also commits as this application, so that two that race conflict instead of
# mixing their rows. Appends remove nothing and race freely.
_REMOVER = "gearshift.overwrite"
_ATTEMPTS = 20

Action = AddAction | RemoveAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The outcome of one write; `written` is False if the batch had been committed before."""

    version: int
    written: bool
    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Who writes, and which of its batches: a table takes each once."""

    writer: str
    id: int


def opened(uri: str, storage_options: StorageOptions) -> DeltaTable | None:
    """The table at its newest version, or None where there is none."""
    return open_table(uri, storage_options) if exists(uri, storage_options=storage_options) else None


def committed(delta: DeltaTable, batch: Batch | None) -> bool:
    """Whether this batch of the writer is in the table."""
    last = delta.transaction_version(batch.writer) if batch is not None else None
    return batch is not None and last is not None and last >= batch.id


def last_batch(uri: str, writer: str, *, storage_options: StorageOptions = None) -> int | None:
    """The last batch of a writer that the table has; None if it has none, or there is no table."""
    delta = opened(uri, storage_options)
    return delta.transaction_version(writer) if delta is not None else None


def refuse_dropped(uri: str, batch: Batch | None) -> None:
    """Stop a writer whose earlier batches went with the table: a new table would lack them."""
    if batch is not None and batch.id > 0:
        raise TableError(
            f"table {name_of(uri)} is gone from {uri}, with the batches that were written to it before",
            hint=f"put its folder back, or write all of it again: gearshift reset {batch.writer.rpartition('.')[0]}",
        )


def attempt(
    uri: str, commit: Callable[[DeltaTable | None], Commit | None], storage_options: StorageOptions
) -> Commit:
    """Call `commit` with the newest version until it returns an outcome; None asks for another look."""
    failure: Exception | None = None
    for _ in range(_ATTEMPTS):
        delta = opened(uri, storage_options)
        try:
            with on_disk(uri):
                outcome = commit(delta)
            if outcome is not None:
                return outcome
        except CommitFailedError as error:
            failure = error
        except DeltaError as error:
            if delta is not None or not exists(uri, storage_options=storage_options):
                raise TableError(
                    f"table {name_of(uri)} at {uri} refused a commit: {error}", hint="see its history"
                ) from error
            failure = error  # somebody else created the table in this instant
    raise TableError(
        f"table {name_of(uri)}: {_ATTEMPTS} commits lost the race against other writers: {failure}",
        hint="let fewer writers change its columns or overwrite it at the same time",
    ) from failure


def create(
    table: Table,
    uri: str,
    fields: Sequence[Field],
    files: Sequence[WrittenFile],
    properties: CommitProperties,
    storage_options: StorageOptions,
) -> Commit:
    """Make the table with its first rows in it."""
    create_table_with_add_actions(
        as_uri(uri),
        schema_of(fields),
        adds(files),
        "error",
        list(table.partition_by),
        name=table.name,
        storage_options=dict(storage_options) if storage_options else None,
        commit_properties=properties,
    )
    return Commit(version=0, written=True, rows=sum(file.rows for file in files), files=len(files))


def schema_of(fields: Sequence[Field]) -> Schema:
    """The fields as delta-rs takes them."""
    return Schema.from_json(columns.schema_json(fields))


def adds(files: Iterable[WrittenFile], *, changes: bool = True) -> list[AddAction]:
    """The actions that bring files into the table."""
    # Only the count of rows: delta-rs hides the rows of a file whose statistics bound some columns but not all,
    # and readers find the bounds of every column in the Parquet footers anyway.
    return [
        AddAction(
            file.path,
            file.size,
            file.values,
            file.modified_ms,
            changes,
            json.dumps({"numRecords": file.rows}),
        )
        for file in files
    ]


def removes(
    files: Iterable[StoredFile], *, changes: bool = True, at: datetime | None = None
) -> list[RemoveAction]:
    """The actions that take files out of the table; they stay on the disk for who reads an older version."""
    moment = int((at.timestamp() if at else time.time()) * 1000)
    return [
        RemoveAction(
            file.path,
            changes,
            moment,
            file.size,
            {name: as_text(value) for name, value in file.values.items()},
        )
        for file in files
    ]


def properties(
    batch: Batch | None = None,
    *,
    rows: int | None = None,
    operation: str | None = None,
    removing_from: DeltaTable | None = None,
    retries: int | None = None,
) -> CommitProperties:
    """What a commit says about itself, and the application transactions that make it happen once."""
    told: dict[str, Any] = {}
    transactions: list[Transaction] = []
    if batch is not None:
        told = {WRITER_KEY: batch.writer, BATCH_KEY: batch.id}
        transactions.append(Transaction(batch.writer, batch.id))
    if removing_from is not None:
        transactions.append(Transaction(_REMOVER, (removing_from.transaction_version(_REMOVER) or 0) + 1))
    if rows is not None:
        told[ROWS_KEY] = rows
    if operation is not None:
        told[OPERATION_KEY] = operation
    return CommitProperties(max_commit_retries=retries, custom_metadata=told, app_transactions=transactions)


def nothing(delta: DeltaTable) -> Commit:
    """The outcome where there was nothing to do."""
    return Commit(version=delta.version(), written=False, rows=0, files=0)


def done(delta: DeltaTable, rows: int, files: int) -> Commit:
    """The outcome of a commit that this open table has just made."""
    delta.update_incremental()
    return Commit(version=delta.version(), written=True, rows=rows, files=files)
