"""Remembers the keys that were deleted from a table, so that a late older row does not restore one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from gearshift.definitions import Table
from gearshift.storage.location import StorageOptions, as_uri
from gearshift.storage.object_store import Store
from gearshift.tables.columns import Field
from gearshift.tables.read.snapshot import snapshot_of
from gearshift.tables.write import parquet_files as files
from gearshift.tables.write.batches import evolve
from gearshift.tables.write.commits import (
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
    schema_of,
)
from gearshift.tables.write.merging import Merge

# A name that begins with an underscore is hidden from the table's readers and from vacuum.
FOLDER = "_gearshift_deleted"
AT = "gearshift_at"


class Deletions:
    """A Delta table inside the table with the key and order of every deletion.

    It is written before the table itself: a deletion that is recorded too early has no effect, since its batch is
    merged in the end; one that is recorded too late would let an older row through.
    """

    def __init__(self, table: Table, uri: str, storage_options: StorageOptions) -> None:
        self._table = table
        self._uri = f"{as_uri(uri)}/{FOLDER}"
        self._storage_options = storage_options

    def apply(self, merge: Merge, batch: Batch | None, fields: Sequence[Field]) -> None:
        """Remove rows from the batch that were deleted later, and record the batch's deletions."""
        if self._table.deleted is None or not self._table.sequence_by:
            return  # without sequence_by the last row is the latest: no row can be late
        wanted = (*self._table.key, *self._table.sequence_by)
        recorded = [field for field in fields if field["name"] in wanted]
        recorded.append({"name": AT, "type": "long", "nullable": True, "metadata": {}})
        known = opened(self._uri, self._storage_options)
        if known is not None:
            store = Store(self._uri, self._storage_options)
            found = [(file.path, file.values) for file in snapshot_of(known, self._uri).files]
            merge.forget_deleted(store.dataset(schema_of(recorded), found))
        if merge.deleting():
            self._record(merge, batch, recorded)

    def _record(self, merge: Merge, batch: Batch | None, fields: Sequence[Field]) -> None:
        own_table = Table(name=f"{self._table.name}'s deletions", defined_at=self._table.defined_at)
        written = files.write_batches(
            self._uri,
            files.new_folder("deleted"),
            schema_of(fields),
            (),
            {},
            merge.deletions(),
            storage_options=self._storage_options,
        )
        rows = sum(file.rows for file in written)

        def commit(delta: DeltaTable | None) -> Commit | None:
            if delta is None:
                return create(
                    own_table,
                    self._uri,
                    fields,
                    written,
                    properties(batch, rows=rows, retries=0),
                    self._storage_options,
                )
            if committed(delta, batch):
                return nothing(delta)
            if evolve(own_table, delta, self._uri, fields, self._storage_options):
                return None
            delta.create_write_transaction(
                [*adds(written)],
                "append",
                schema_of(fields),
                [],
                commit_properties=properties(batch, rows=rows),
            )
            return done(delta, rows, len(written))

        attempt(self._uri, commit, self._storage_options)


def forget(uri: str, before: datetime, storage_options: StorageOptions) -> None:
    """Remove deletions that were recorded before a time: older rows are no longer expected."""
    delta = opened(uri, storage_options)
    if delta is not None:
        with suppress(CommitFailedError):  # a batch was committed in the meantime: the next vacuum retries
            delta.delete(f"{AT} < {int(before.timestamp() * 1000)}")
