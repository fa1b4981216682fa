"""Writing a table: whole batches, each exactly once, visible at one instant."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable

from gearshift.definitions import Table
from gearshift.errors import TableError
from gearshift.location import StorageOptions
from gearshift.tables import columns, files
from gearshift.tables.columns import Field
from gearshift.tables.commits import (
    Action,
    Batch,
    Commit,
    adds,
    attempt,
    committed,
    create,
    done,
    nothing,
    opened,
    properties,
    refuse_dropped,
    removes,
    schema_of,
)
from gearshift.tables.evolution import Fit, fit
from gearshift.tables.files import Frame, Written
from gearshift.tables.partitions import as_text
from gearshift.tables.rewriting import widen
from gearshift.tables.snapshot import StoredFile, fields_in, snapshot_of

Partition = Mapping[str, Any]


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
    batch = Batch(writer, batch_id)
    fields = incoming_fields(table, frame)
    before = opened(uri, storage_options)
    if before is None:
        refuse_dropped(uri, batch)
    elif committed(before, batch):
        files.run(frame)
        return nothing(before)
    else:
        frame, fields = fitted(table, before, frame, fields)  # before Spark works for nothing
    written = _write(table, uri, frame, label(batch), storage_options)

    def commit(delta: DeltaTable | None) -> Commit | None:
        if delta is None:
            if batch.id > 0:
                files.remove(uri, written, storage_options)
            refuse_dropped(uri, batch)
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
            return None  # the columns are there now; the rows go on top of that version
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
    """Replace all rows at one instant, or with `only_touched` those of the partitions that the new rows are in.

    A whole overwrite also replaces the columns, unless the table is strict. Rows that another writer appends
    meanwhile stay.
    """
    if only_touched:
        return replace_partitions(table, uri, frame, storage_options=storage_options)
    fields = incoming_fields(table, frame)
    before = opened(uri, storage_options)
    if before is not None:
        _same_partitions(table, before)
        if table.schema == "strict":
            frame, fields = fitted(table, before, frame, fields)
    written = _write(table, uri, frame, "overwrite", storage_options)

    def commit(delta: DeltaTable | None) -> Commit:
        if delta is None:
            told = properties(rows=written.rows, retries=0)
            return create(table, uri, fields, written.files, told, storage_options)
        _same_partitions(table, delta)
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
    """Replace the rows of exactly these partitions at one instant; without `partitions`, of those the new rows are in.

    Name the partitions where a result may come out empty: no rows touch no partition, and the old ones would stay.
    A partition may leave out columns, `{"month": "2026-02"}` for a table by month and place, and then means all
    that are left open. With a writer, a batch id that was committed before changes nothing.
    """
    if not table.partition_by:
        raise TableError(
            f"table {table.name} has no partitions to replace one by one",
            hint="give it partition_by, or overwrite all of it",
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
                f"table {table.name}: rows for {_words(file.values)} are not in the partitions to replace",
                hint=f"filter them out, or replace more than {'; '.join(map(_words, touched)) or 'nothing'}",
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
    """The columns of the rows that come, if a table can hold them."""
    fields = columns.fields_of(frame.schema.json(), table.name)
    columns.check_partitions(fields, table.partition_by, table.name)
    return fields


def fitted(
    table: Table, delta: DeltaTable, frame: Frame, fields: Sequence[Field], *, beside: Sequence[Field] = ()
) -> tuple[Frame, list[Field]]:
    """The rows with the table's own types where theirs are narrower; refuse rows that do not fit.

    Columns `beside` the table's come along unchanged.
    """
    change = _fit(table, delta, fields)
    if not change.narrower:
        return frame, list(fields)
    wider = {field["name"]: field for field in change.narrower}
    return frame.selectExpr(*change.cast([*fields, *beside])), [
        wider.get(field["name"], field) for field in fields
    ]


def evolve(
    table: Table, delta: DeltaTable, uri: str, fields: Sequence[Field], storage_options: StorageOptions
) -> bool:
    """Bring the table to the columns of the rows, if they differ; whether it changed."""
    change = _fit(table, delta, fields)
    if change.added:  # before types change, at the next look: this also brings the features that columns need
        delta.alter.add_columns(list(schema_of(change.added).fields))
    elif change.widened:
        widen(delta, uri, change, storage_options)
    elif change.narrower:
        raise TableError(
            f"table {table.name}: column {change.narrower[0]['name']} became wider while rows were written",
            hint="write them again",
        )
    return change.changes_table


def label(batch: Batch) -> str:
    """What the folder of a batch's files is called."""
    return f"{hashlib.sha256(batch.writer.encode()).hexdigest()[:8]}-{batch.id}"


def _write(table: Table, uri: str, frame: Frame, name: str, storage_options: StorageOptions) -> Written:
    written = files.write(
        frame, uri, partition_by=table.partition_by, label=name, storage_options=storage_options
    )
    if not written.files:
        files.remove(uri, written, storage_options)
    return written


def _fit(table: Table, delta: DeltaTable, fields: Sequence[Field]) -> Fit:
    _same_partitions(table, delta)
    return fit(fields_in(delta), fields, table.name, table.schema)


def _same_partitions(table: Table, delta: DeltaTable) -> None:
    has = tuple(delta.metadata().partition_columns)
    if has != table.partition_by:
        raise TableError(
            f"table {table.name} is partitioned by {', '.join(has) or 'nothing'}, "
            f"but is declared with {', '.join(table.partition_by) or 'no partitions'}",
            hint="declare it as it is, or give the new layout a new table",
        )


def _texts(table: Table, partitions: Iterable[Partition]) -> list[dict[str, str | None]]:
    found = [{name: as_text(value) for name, value in partition.items()} for partition in partitions]
    for partition in found:
        for name in partition:
            if name not in table.partition_by:
                raise TableError(
                    f"table {table.name} is not partitioned by {name}",
                    hint=f"it is partitioned by {', '.join(table.partition_by)}",
                )
    return found


def _stored(file: StoredFile) -> dict[str, str | None]:
    return {name: as_text(value) for name, value in file.values.items()}


def _within(values: Mapping[str, str | None], partitions: Iterable[Mapping[str, str | None]]) -> bool:
    return any(all(values[name] == text for name, text in partition.items()) for partition in partitions)


def _words(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={text}" for name, text in values.items()) or "all of it"
