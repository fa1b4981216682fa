"""Writes whole batches to a table: each exactly once and atomically."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable

from gearshift.definitions import Table
from gearshift.errors import TableError
from gearshift.storage.location import StorageOptions
from gearshift.tables import columns
from gearshift.tables.columns import Field
from gearshift.tables.partitions import as_text
from gearshift.tables.read.snapshot import StoredFile, fields_in, snapshot_of
from gearshift.tables.upkeep.rewriting import widen
from gearshift.tables.write import parquet_files as files
from gearshift.tables.write.commits import (
    Action,
    Batch,
    BeforeCommit,
    Commit,
    adds,
    always,
    attempt,
    committed,
    create,
    done,
    nothing,
    opened,
    properties,
    removes,
    require_not_dropped,
    schema_of,
)
from gearshift.tables.write.evolution import Fit, fit
from gearshift.tables.write.parquet_files import Frame, Written

Partition = Mapping[str, Any]


def append(
    table: Table,
    uri: str,
    frame: Frame,
    *,
    writer: str,
    batch_id: int,
    before_commit: BeforeCommit = always,
    storage_options: StorageOptions = None,
) -> Commit:
    """Add a batch's rows exactly once per writer and batch id, however often it is called."""
    batch = Batch(writer, batch_id)
    fields = incoming_fields(table, frame)
    before = opened(uri, storage_options)
    if before is None:
        require_not_dropped(uri, batch)
    elif committed(before, batch):
        files.run(frame)
        return nothing(before)
    else:
        frame, fields = fitted(table, before, frame, fields)  # raises before Spark writes anything
    written = _write(table, uri, frame, label(batch), storage_options)
    try:
        before_commit()
    except Exception:
        files.remove(uri, written, storage_options)
        raise

    def commit(delta: DeltaTable | None) -> Commit | None:
        if delta is None:
            if batch.id > 0:
                files.remove(uri, written, storage_options)
            require_not_dropped(uri, batch)
            return create(
                table,
                uri,
                fields,
                written.files,
                properties(batch, rows=written.rows, retries=0),
                storage_options,
            )
        if committed(delta, batch):
            files.remove(uri, written, storage_options)
            return nothing(delta)
        if evolve(table, delta, uri, fields, storage_options):
            return None  # the columns were added; retry on that version
        delta.create_write_transaction(
            [*adds(written.files)],
            "append",
            schema_of(fields),
            list(table.partition_by),
            commit_properties=properties(batch, rows=written.rows, operation="APPEND"),
        )
        return done(delta, written.rows, len(written.files))

    return attempt(uri, commit, storage_options)


def overwrite(
    table: Table,
    uri: str,
    frame: Frame,
    *,
    only_touched: bool = False,
    storage_options: StorageOptions = None,
) -> Commit:
    """Replace all rows atomically, or with `only_touched` those of the partitions of the new rows.

    Replacing all rows also replaces the columns, unless the table is strict. Rows that another writer appends
    in the meantime stay.
    """
    if only_touched:
        return replace_partitions(table, uri, frame, storage_options=storage_options)
    fields = incoming_fields(table, frame)
    before = opened(uri, storage_options)
    if before is not None:
        _require_same_partitions(table, before)
        if table.on_schema_change == "fail":
            frame, fields = fitted(table, before, frame, fields)
    written = _write(table, uri, frame, "overwrite", storage_options)

    def commit(delta: DeltaTable | None) -> Commit:
        if delta is None:
            once = properties(rows=written.rows, retries=0)
            return create(table, uri, fields, written.files, once, storage_options)
        _require_same_partitions(table, delta)
        delta.create_write_transaction(
            [*adds(written.files)],
            "overwrite",
            schema_of(fields),
            list(table.partition_by),
            commit_properties=properties(rows=written.rows, operation="OVERWRITE", removing_from=delta),
        )
        return done(delta, written.rows, len(written.files))

    return attempt(uri, commit, storage_options)


def replace_partitions(
    table: Table,
    uri: str,
    frame: Frame,
    *,
    partitions: Iterable[Partition] | None = None,
    writer: str | None = None,
    batch_id: int = 0,
    storage_options: StorageOptions = None,
) -> Commit:
    """Replace the rows of these partitions atomically; without `partitions`, of those of the new rows.

    Name the partitions if the result may be empty: otherwise the old rows would stay.
    A partition may omit columns, such as `{"month": "2026-02"}` for a table by month and place, and then means all
    partitions that match. With a writer, a batch id that was committed before changes nothing.
    """
    if not table.partition_by:
        raise TableError(
            f"table {table.name} has no partitions to replace",
            hint="declare it with partition_by=, or overwrite the whole table",
        )
    batch = Batch(writer, batch_id) if writer is not None else None
    named = _texts(table, partitions) if partitions is not None else None
    fields = incoming_fields(table, frame)
    before = opened(uri, storage_options)
    if before is not None:
        if committed(before, batch):
            return nothing(before)
        frame, fields = fitted(table, before, frame, fields)
    written = _write(table, uri, frame, "replace", storage_options)
    touched = named if named is not None else [dict(file.values) for file in written.files]
    for file in written.files:
        if not _within(file.values, touched):
            files.remove(uri, written, storage_options)
            raise TableError(
                f"table {table.name}: rows for {_described(file.values)} are not in the partitions to replace",
                hint=f"filter them out, or replace more than {'; '.join(map(_described, touched)) or 'nothing'}",
            )

    def commit(delta: DeltaTable | None) -> Commit | None:
        if delta is None:
            return create(
                table,
                uri,
                fields,
                written.files,
                properties(batch, rows=written.rows, retries=0),
                storage_options,
            )
        if committed(delta, batch):
            files.remove(uri, written, storage_options)
            return nothing(delta)
        if evolve(table, delta, uri, fields, storage_options):
            return None
        old = [file for file in snapshot_of(delta, uri).files if _within(_stored(file), touched)]
        actions: list[Action] = [*adds(written.files), *removes(old)]
        delta.create_write_transaction(
            actions,
            "append",
            schema_of(fields),
            list(table.partition_by),
            commit_properties=properties(
                batch, rows=written.rows, operation="REPLACE PARTITIONS", removing_from=delta
            ),
        )
        return done(delta, written.rows, len(written.files))

    return attempt(uri, commit, storage_options)


def incoming_fields(table: Table, frame: Frame) -> list[Field]:
    """The columns of the new rows; TableError if a table cannot store them."""
    fields = columns.fields_of(frame.schema.json(), table.name)
    columns.check_partitions(fields, table.partition_by, table.name)
    return fields


def fitted(
    table: Table, delta: DeltaTable, frame: Frame, fields: Sequence[Field], *, extra: Sequence[Field] = ()
) -> tuple[Frame, list[Field]]:
    """Cast the rows to the table's types where theirs are narrower; TableError if they are incompatible.

    Columns in `extra`, which the table does not store, stay unchanged.
    """
    change = _fit(table, delta, fields)
    if not change.narrower:
        return frame, list(fields)
    wider = {field["name"]: field for field in change.narrower}
    return frame.selectExpr(*change.cast([*fields, *extra])), [
        wider.get(field["name"], field) for field in fields
    ]


def evolve(
    table: Table, delta: DeltaTable, uri: str, fields: Sequence[Field], storage_options: StorageOptions
) -> bool:
    """Change the table's columns to those of the rows, if needed; return whether it changed."""
    change = _fit(table, delta, fields)
    if (
        change.added
    ):  # types change at the next attempt: adding columns also enables the Delta features they need
        delta.alter.add_columns(list(schema_of(change.added).fields))
    elif change.widened:
        widen(delta, uri, change, storage_options)
    elif change.narrower:
        raise TableError(
            f"table {table.name}: column {change.narrower[0]['name']} became wider while rows were written",
            hint="retry the write",
        )
    return change.changes_table


def label(batch: Batch) -> str:
    """The label in the folder's name of a batch's files."""
    return f"{hashlib.sha256(batch.writer.encode()).hexdigest()[:8]}-{batch.id}"


def _write(table: Table, uri: str, frame: Frame, name: str, storage_options: StorageOptions) -> Written:
    written = files.write(
        frame, uri, partition_by=table.partition_by, label=name, storage_options=storage_options
    )
    if not written.files:
        files.remove(uri, written, storage_options)
    return written


def _fit(table: Table, delta: DeltaTable, fields: Sequence[Field]) -> Fit:
    _require_same_partitions(table, delta)
    return fit(fields_in(delta), fields, table.name, table.on_schema_change)


def _require_same_partitions(table: Table, delta: DeltaTable) -> None:
    has = tuple(delta.metadata().partition_columns)
    if has != table.partition_by:
        raise TableError(
            f"table {table.name} is partitioned by {', '.join(has) or 'nothing'}, "
            f"but is declared with {', '.join(table.partition_by) or 'no partitions'}",
            hint="declare the existing partitions, or use a new table for the new layout",
        )


def _texts(table: Table, partitions: Iterable[Partition]) -> list[dict[str, str | None]]:
    found = [{name: as_text(value) for name, value in partition.items()} for partition in partitions]
    for partition in found:
        for name in partition:
            if name not in table.partition_by:
                raise TableError(
                    f"table {table.name} is not partitioned by {name}",
                    hint=f"use {', '.join(table.partition_by)}",
                )
    return found


def _stored(file: StoredFile) -> dict[str, str | None]:
    return {name: as_text(value) for name, value in file.values.items()}


def _within(values: Mapping[str, str | None], partitions: Iterable[Mapping[str, str | None]]) -> bool:
    return any(all(values[name] == text for name, text in partition.items()) for partition in partitions)


def _described(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={text}" for name, text in values.items()) or "all of it"
