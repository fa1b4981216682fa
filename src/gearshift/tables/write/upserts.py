"""Upserts: rows replace those with the same key, also if they arrive late, twice or out of order."""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import DeltaTable

from gearshift.definitions import Table
from gearshift.errors import TableError
from gearshift.storage.location import StorageOptions, as_uri
from gearshift.storage.object_store import Store
from gearshift.tables.columns import Field, type_name
from gearshift.tables.read.snapshot import StoredFile, fields_in, snapshot_of
from gearshift.tables.write import parquet_files as files
from gearshift.tables.write.batches import evolve, fitted, incoming_fields, label
from gearshift.tables.write.commits import (
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
from gearshift.tables.write.deletions import Deletions
from gearshift.tables.write.merging import Merge
from gearshift.tables.write.parquet_files import Frame, WrittenFile

# Types that DuckDB compares like other readers of Delta.
_KEY_TYPES = ("string", "byte", "short", "integer", "long", "boolean", "date", "timestamp", "timestamp_ntz")


def upsert(
    table: Table,
    uri: str,
    frame: Frame,
    *,
    writer: str | None = None,
    batch_id: int = 0,
    in_order: bool = False,
    before_commit: BeforeCommit = always,
    storage_options: StorageOptions = None,
) -> Commit:
    """Merge a batch into a table by its key, exactly once per writer and batch id.

    Without `sequence_by`, the last row of a key wins if the rows are `in_order`, like those of a topic's partition;
    otherwise different rows with the same key are an error, as in MERGE.

    The outcome counts the rows that took effect: not late, deleted, or superseded within the batch.
    Files without any of the batch's keys stay as they are.
    """
    batch = Batch(writer, batch_id) if writer is not None else None
    everything = incoming_fields(table, frame)
    fields = [field for field in everything if field["name"] != table.deleted]
    extra = [field for field in everything if field["name"] == table.deleted]
    _check_columns(table, everything)
    if in_order and not table.sequence_by:
        # The id orders by task, which reads one partition, and then by row.
        frame = frame.selectExpr("*", f"monotonically_increasing_id() as `{Merge.ROW}`")
        extra.append({"name": Merge.ROW, "type": "long", "nullable": False, "metadata": {}})
    before = opened(uri, storage_options)
    if before is None:
        require_not_dropped(uri, batch)
    elif committed(before, batch):
        files.run(frame)
        return nothing(before)
    else:
        frame, fields = fitted(table, before, frame, fields, extra=extra)
    name = label(batch) if batch is not None else "upsert"
    staged = files.write(frame, uri, partition_by=(), label=f"{name}-staged", storage_options=storage_options)
    try:
        before_commit()
        store = Store(uri, storage_options)
        rows = store.dataset(schema_of([*fields, *extra]), [(file.path, {}) for file in staged.files])
        with Merge(table, rows) as merge:
            Deletions(table, uri, storage_options).apply(merge, batch, fields)
            return _merge_in(table, uri, fields, merge, batch, name, storage_options)
    finally:
        files.remove(uri, staged, storage_options)


def forget_before(table: Table, uri: str, position: int, *, storage_options: StorageOptions = None) -> None:
    """Delete every row whose `sequence_by` is lower than a position at which its source started again."""
    (order,) = table.sequence_by
    if opened(uri, storage_options) is None:
        return

    def commit(delta: DeltaTable | None) -> Commit | None:
        if delta is None:
            return None
        delta.delete(f'"{order}" < {position}')
        return done(delta, 0, 0)

    attempt(uri, commit, storage_options)


def check_upsert(table: Table, frame: Frame) -> None:
    """Raise if rows with these columns cannot be merged into the table."""
    _check_columns(table, incoming_fields(table, frame))


def _merge_in(
    table: Table,
    uri: str,
    fields: Sequence[Field],
    merge: Merge,
    batch: Batch | None,
    name: str,
    storage_options: StorageOptions,
) -> Commit:
    store = Store(uri, storage_options)

    def write(touched: Sequence[StoredFile], columns: Sequence[Field]) -> list[WrittenFile]:
        schema = schema_of(columns)
        survivors = store.dataset(schema, [(file.path, file.values) for file in touched])
        folder = files.new_folder(name)
        return [
            file
            for values, batches in merge.outcome(survivors)
            for file in files.write_batches(
                as_uri(uri),
                folder,
                schema,
                table.partition_by,
                values,
                batches,
                storage_options=storage_options,
            )
        ]

    def commit(delta: DeltaTable | None) -> Commit | None:
        if delta is None:
            require_not_dropped(uri, batch)
            written = write([], fields)
            once = properties(batch, rows=merge.counting(), retries=0)
            return create(table, uri, fields, written, once, storage_options)
        if committed(delta, batch):
            return nothing(delta)
        if evolve(table, delta, uri, fields, storage_options):
            return None
        snapshot = snapshot_of(delta, uri)
        has = fields_in(delta)
        existing = store.dataset(
            schema_of(has), [(file.path, file.values) for file in snapshot.files], numbered=Merge.FILE
        )
        touched = [snapshot.files[number] for number in merge.touched(existing)]
        written = write(touched, has)
        delta.create_write_transaction(
            [*adds(written), *removes(touched)],
            "append",
            schema_of(has),
            list(table.partition_by),
            # No retries: rows that another writer added in the meantime were not merged.
            commit_properties=properties(
                batch, rows=merge.counting(), operation="UPSERT", removing_from=delta, retries=0
            ),
        )
        return done(delta, merge.counting(), len(written))

    return attempt(uri, commit, storage_options)


def _check_columns(table: Table, fields: Sequence[Field]) -> None:
    types = {str(field["name"]): field["type"] for field in fields}
    if not table.key:
        raise TableError(f"table {table.name} has no key", hint="declare it with key=, or append to it")
    wanted = {"key": table.key, "sequence_by": table.sequence_by, "deleted": (table.deleted,)}
    for what, names in wanted.items():
        for name in names:
            if name is not None and name not in types:
                raise TableError(
                    f"table {table.name} has {what}={name!r}, which the rows do not have",
                    hint=f"use one of the columns {', '.join(types)}",
                )
    for name in table.key:
        if types[name] not in _KEY_TYPES and not str(types[name]).startswith("decimal("):
            raise TableError(
                f"table {table.name} cannot have {name} in its key: its type is {type_name(types[name])}",
                hint="use a string, an integer, a decimal, a boolean, a date or a time",
            )
    if table.deleted is not None and types[table.deleted] != "boolean":
        raise TableError(
            f"table {table.name}: column {table.deleted} marks deletions, but is {type_name(types[table.deleted])}",
            hint="make it a boolean, such as op = 'd'",
        )
