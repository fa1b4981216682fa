"""Rewrites a table's files without changing its rows: into fewer files, or with wider columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from deltalake import DeltaTable, Schema

from gearshift.storage.location import StorageOptions
from gearshift.storage.object_store import Store
from gearshift.tables.partitions import as_text
from gearshift.tables.read.snapshot import Snapshot, StoredFile, fields_in, snapshot_of
from gearshift.tables.write import parquet_files as files
from gearshift.tables.write.commits import Commit, adds, done, properties, schema_of
from gearshift.tables.write.evolution import Fit
from gearshift.tables.write.parquet_files import WrittenFile


def by_partition(snapshot: Snapshot) -> list[list[StoredFile]]:
    """The files of a version, partition by partition."""
    grouped: dict[tuple[str | None, ...], list[StoredFile]] = defaultdict(list)
    for file in snapshot.files:
        grouped[tuple(as_text(file.values[name]) for name in snapshot.partition_by)].append(file)
    return list(grouped.values())


def rewrite(
    snapshot: Snapshot,
    schema: Schema,
    bins: Iterable[Sequence[StoredFile]],
    label: str,
    storage_options: StorageOptions,
) -> list[list[WrittenFile]]:
    """Write the rows of each bin to new files, which are not committed yet."""
    store = Store(snapshot.uri, storage_options)
    folder = files.new_folder(label)
    return [
        files.write_batches(
            snapshot.uri,
            folder,
            schema,
            snapshot.partition_by,
            {name: as_text(value) for name, value in bin_[0].values.items()},
            store.dataset(schema, [(file.path, file.values) for file in bin_]).to_batches(),
            storage_options=storage_options,
            name=f"part-{number}",
        )
        for number, bin_ in enumerate(bins)
    ]


def widen(delta: DeltaTable, uri: str, change: Fit, storage_options: StorageOptions) -> Commit:
    """Widen columns and rewrite all files, so that all readers see the same type."""
    snapshot = snapshot_of(delta, uri)
    schema = schema_of(change.applied(fields_in(delta)))
    written = [
        file
        for found in rewrite(snapshot, schema, by_partition(snapshot), "widen", storage_options)
        for file in found
    ]
    rows = sum(file.rows for file in written)
    delta.create_write_transaction(
        [*adds(written)],
        "overwrite",
        schema,
        list(snapshot.partition_by),
        # No retries: rows that were added in the meantime were not rewritten.
        commit_properties=properties(rows=rows, operation="WIDEN", removing_from=delta, retries=0),
    )
    return done(delta, rows, len(written))
