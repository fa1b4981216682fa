"""Commits batches atomically; a writer that loses the race reloads the table and retries."""

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
from gearshift.storage.location import StorageOptions, as_uri, name_of
from gearshift.storage.reaching import options_for
from gearshift.tables import columns
from gearshift.tables.columns import Field
from gearshift.tables.disk import on_disk
from gearshift.tables.partitions import as_text
from gearshift.tables.read.snapshot import (
    BATCH_KEY,
    OPERATION_KEY,
    ROWS_KEY,
    WRITER_KEY,
    StoredFile,
    exists,
    open_table,
)
from gearshift.tables.write.parquet_files import WrittenFile

# Every commit that removes files is also a transaction of this application, so that two concurrent ones conflict
# instead of mixing their rows. Appends remove nothing and do not conflict.
_REMOVER = "gearshift.overwrite"
_ATTEMPTS = 20

Action = AddAction | RemoveAction
BeforeCommit = Callable[[], None]
"""Called when a batch's rows have been read and before they are committed; what it raises discards them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The outcome of a write; `written` is False if the batch was committed before."""

    version: int
    written: bool
    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A writer and one of its batches; a table accepts each once."""

    writer: str
    id: int


def always() -> None:
    """Commit whatever was read."""


def opened(uri: str, storage_options: StorageOptions) -> DeltaTable | None:
    """The table at its newest version; None if it does not exist."""
    return open_table(uri, storage_options) if exists(uri, storage_options=storage_options) else None


def committed(delta: DeltaTable, batch: Batch | None) -> bool:
    """Whether this batch of the writer is in the table."""
    last = delta.transaction_version(batch.writer) if batch is not None else None
    return batch is not None and last is not None and last >= batch.id


def last_batch(uri: str, writer: str, *, storage_options: StorageOptions = None) -> int | None:
    """The last batch of a writer in the table; None without a batch or a table."""
    delta = opened(uri, storage_options)
    return delta.transaction_version(writer) if delta is not None else None


def require_not_dropped(uri: str, batch: Batch | None) -> None:
    """Raise if the table with a writer's earlier batches was dropped: a new table would lack their rows."""
    if batch is not None and batch.id > 0:
        raise TableError(
            f"table {name_of(uri)} no longer exists at {uri}, and its earlier batches are lost",
            hint=f"restore its folder, or write the table again: gearshift reset {batch.writer.rpartition('.')[0]}",
        )


def attempt(
    uri: str, commit: Callable[[DeltaTable | None], Commit | None], storage_options: StorageOptions
) -> Commit:
    """Call `commit` with the newest version until it returns an outcome; None requests a retry."""
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
                    f"commit to table {name_of(uri)} at {uri} failed: {error}", hint="check its history"
                ) from error
            failure = error  # another writer created the table in the meantime
    raise TableError(
        f"table {name_of(uri)}: {_ATTEMPTS} commits conflicted with other writers: {failure}",
        hint="run fewer writers that change its columns or overwrite it at the same time",
    ) from failure


def create(
    table: Table,
    uri: str,
    fields: Sequence[Field],
    files: Sequence[WrittenFile],
    properties: CommitProperties,
    storage_options: StorageOptions,
) -> Commit:
    """Create the table with its first rows."""
    create_table_with_add_actions(
        as_uri(uri),
        schema_of(fields),
        adds(files),
        "error",
        list(table.partition_by),
        name=table.name,
        storage_options=options_for(uri, storage_options),
        commit_properties=properties,
    )
    return Commit(version=0, written=True, rows=sum(file.rows for file in files), files=len(files))


def schema_of(fields: Sequence[Field]) -> Schema:
    """The delta-rs schema of these fields."""
    return Schema.from_json(columns.schema_json(fields))


def adds(files: Iterable[WrittenFile], *, changes: bool = True) -> list[AddAction]:
    """The actions that add files to the table."""
    # Only row counts: delta-rs hides the rows of a file with statistics for some columns only, and readers find the
    # statistics of every column in the Parquet footers.
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
    """The actions that remove files from the table; they stay on disk for readers of older versions."""
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
    """The metadata of a commit, and the application transactions that make it happen once."""
    metadata: dict[str, Any] = {}
    transactions: list[Transaction] = []
    if batch is not None:
        metadata = {WRITER_KEY: batch.writer, BATCH_KEY: batch.id}
        transactions.append(Transaction(batch.writer, batch.id))
    if removing_from is not None:
        transactions.append(Transaction(_REMOVER, (removing_from.transaction_version(_REMOVER) or 0) + 1))
    if rows is not None:
        metadata[ROWS_KEY] = rows
    if operation is not None:
        metadata[OPERATION_KEY] = operation
    return CommitProperties(
        max_commit_retries=retries, custom_metadata=metadata, app_transactions=transactions
    )


def nothing(delta: DeltaTable) -> Commit:
    """The outcome if there was nothing to do."""
    return Commit(version=delta.version(), written=False, rows=0, files=0)


def done(delta: DeltaTable, rows: int, files: int) -> Commit:
    """The outcome of the commit that was just made with this open table."""
    delta.update_incremental()
    return Commit(version=delta.version(), written=True, rows=rows, files=files)
