"""Writing a table: whole batches, each exactly once, visible at one instant."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from gearshift.definitions import Table
from gearshift.errors import TableError
from gearshift.tables import columns, files
from gearshift.tables.columns import Field
from gearshift.tables.files import Frame, Written
from gearshift.tables.location import StorageOptions, as_uri
from gearshift.tables.partitions import as_text
from gearshift.tables.snapshot import (
    BATCH_KEY,
    ROWS_KEY,
    WRITER_KEY,
    Snapshot,
    exists,
    fields_in,
    open_table,
    snapshot_of,
)

# Every overwrite commits as this application, so that two that race conflict instead of mixing their rows.
_OVERWRITER = "gearshift.overwrite"
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The outcome of one write; `written` is False if the batch had been committed before."""

    version: int
    written: bool
    rows: int
    files: int


def append(
    table: Table,
    uri: str,
    frame: Frame,
    *,
    writer: str,
    batch_id: int,
    storage_options: StorageOptions = None,
) -> Commit:
    """Add a batch's rows, exactly once per writer and batch id, however often it is called."""
    fields = _fields(table, frame)
    before = _opened(uri, storage_options)
    if before is not None:
        if _committed(before, writer, batch_id):
            return _nothing(before)
        _fit(table, before, fields)  # before Spark works for nothing
    label = f"{hashlib.sha256(writer.encode()).hexdigest()[:8]}-{batch_id}"
    written = _write(table, uri, frame, label, storage_options)

    def commit(delta: DeltaTable) -> Commit | None:
        if _committed(delta, writer, batch_id):
            files.remove(uri, written, storage_options)
            return _nothing(delta)
        new = _fit(table, delta, fields)
        if new:
            delta.alter.add_columns(list(Schema.from_json(columns.schema_json(new)).fields))
            return None  # the columns are there now; the rows go on top of that version
        delta.create_write_transaction(
            [*_adds(written)],
            "append",
            _schema(fields),
            list(table.partition_by),
            commit_properties=_properties(writer, batch_id, written),
        )
        return _done(delta, written)

    return _attempt(
        table,
        uri,
        fields,
        written,
        commit,
        _properties(writer, batch_id, written, retries=0),
        storage_options,
    )


def overwrite(
    table: Table,
    uri: str,
    frame: Frame,
    *,
    only_touched: bool = False,
    storage_options: StorageOptions = None,
) -> Commit:
    """Replace all rows at one instant, or with `only_touched` those of the partitions that the new rows are in.

    A whole overwrite also replaces the columns. Rows that another writer appends meanwhile stay.
    """
    if only_touched and not table.partition_by:
        raise TableError(
            f"table {table.name} has no partitions to replace one by one",
            hint="give it partition_by, or leave only_touched out",
        )
    fields = _fields(table, frame)
    before = _opened(uri, storage_options)
    if before is not None:
        _same_partitions(table, before)
        if only_touched:
            _fit(table, before, fields)
    written = _write(table, uri, frame, "overwrite", storage_options)

    def commit(delta: DeltaTable) -> Commit | None:
        _same_partitions(table, delta)
        actions: list[AddAction | RemoveAction] = [*_adds(written)]
        if only_touched:
            new = _fit(table, delta, fields)
            if new:
                delta.alter.add_columns(list(Schema.from_json(columns.schema_json(new)).fields))
                return None
            actions += _removes(snapshot_of(delta, uri), written)
        turn = (delta.transaction_version(_OVERWRITER) or 0) + 1
        delta.create_write_transaction(
            actions,
            "append" if only_touched else "overwrite",
            _schema(fields),
            list(table.partition_by),
            commit_properties=_properties(_OVERWRITER, turn, written),
        )
        return _done(delta, written)

    return _attempt(
        table, uri, fields, written, commit, _properties(_OVERWRITER, 1, written, retries=0), storage_options
    )


def _attempt(
    table: Table,
    uri: str,
    fields: Sequence[Field],
    written: Written,
    commit: Callable[[DeltaTable], Commit | None],
    creation: CommitProperties,
    storage_options: StorageOptions,
) -> Commit:
    """Commit on top of the newest version; who loses a race looks again and tries on top of the winner."""
    failure: Exception | None = None
    for _ in range(_ATTEMPTS):
        delta = _opened(uri, storage_options)
        try:
            if delta is not None:
                outcome = commit(delta)
                if outcome is not None:
                    return outcome
                continue
            create_table_with_add_actions(
                as_uri(uri),
                _schema(fields),
                _adds(written),
                "error",
                list(table.partition_by),
                name=table.name,
                storage_options=dict(storage_options) if storage_options else None,
                commit_properties=creation,
            )
            return Commit(version=0, written=True, rows=written.rows, files=len(written.files))
        except CommitFailedError as error:
            failure = error
        except DeltaError as error:
            if delta is not None or not exists(uri, storage_options=storage_options):
                raise TableError(
                    f"table {table.name} at {uri} refused a commit: {error}", hint="see its history"
                ) from error
            failure = error  # somebody else created the table in this instant
    raise TableError(
        f"table {table.name}: {_ATTEMPTS} commits lost the race against other writers: {failure}",
        hint="let fewer writers change its columns or overwrite it at the same time",
    ) from failure


def _fields(table: Table, frame: Frame) -> list[Field]:
    fields = columns.fields_of(frame.schema.json(), table.name)
    columns.check_partitions(fields, table.partition_by, table.name)
    return fields


def _write(table: Table, uri: str, frame: Frame, label: str, storage_options: StorageOptions) -> Written:
    written = files.write(
        frame,
        uri,
        partition_by=table.partition_by,
        label=label,
        storage_options=storage_options,
    )
    if not written.files:
        files.remove(uri, written, storage_options)
    return written


def _opened(uri: str, storage_options: StorageOptions) -> DeltaTable | None:
    return open_table(uri, storage_options) if exists(uri, storage_options=storage_options) else None


def _committed(delta: DeltaTable, writer: str, batch_id: int) -> bool:
    last = delta.transaction_version(writer)
    return last is not None and last >= batch_id


def _fit(table: Table, delta: DeltaTable, fields: Sequence[Field]) -> list[Field]:
    _same_partitions(table, delta)
    return columns.added(fields_in(delta), fields, table.name)


def _same_partitions(table: Table, delta: DeltaTable) -> None:
    has = tuple(delta.metadata().partition_columns)
    if has != table.partition_by:
        raise TableError(
            f"table {table.name} is partitioned by {', '.join(has) or 'nothing'}, "
            f"but is declared with {', '.join(table.partition_by) or 'no partitions'}",
            hint="declare it as it is, or give the new layout a new table",
        )


def _schema(fields: Sequence[Field]) -> Schema:
    return Schema.from_json(columns.schema_json(fields))


def _adds(written: Written) -> list[AddAction]:
    # Only the count of rows: delta-rs hides the rows of a file whose statistics bound some columns but not all,
    # and readers find the bounds of every column in the Parquet footers anyway.
    return [
        AddAction(
            file.path, file.size, file.values, file.modified_ms, True, json.dumps({"numRecords": file.rows})
        )
        for file in written.files
    ]


def _removes(snapshot: Snapshot, written: Written) -> list[RemoveAction]:
    touched = {tuple(as_text(file.values[name]) for name in snapshot.partition_by) for file in written.files}
    now = int(time.time() * 1000)
    removes: list[RemoveAction] = []
    for file in snapshot.files:
        values = {name: as_text(value) for name, value in file.values.items()}
        if tuple(values[name] for name in snapshot.partition_by) in touched:
            removes.append(RemoveAction(file.path, True, now, file.size, values))
    return removes


def _properties(
    writer: str, batch_id: int, written: Written, *, retries: int | None = None
) -> CommitProperties:
    return CommitProperties(
        max_commit_retries=retries,
        custom_metadata={WRITER_KEY: writer, BATCH_KEY: batch_id, ROWS_KEY: written.rows},
        app_transactions=[Transaction(writer, batch_id)],
    )


def _nothing(delta: DeltaTable) -> Commit:
    return Commit(version=delta.version(), written=False, rows=0, files=0)


def _done(delta: DeltaTable, written: Written) -> Commit:
    delta.update_incremental()
    return Commit(version=delta.version(), written=True, rows=written.rows, files=len(written.files))
