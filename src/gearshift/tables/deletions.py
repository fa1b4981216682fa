"""The keys that were deleted from a table and when, so that a late older row does not bring one back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from gearshift.definitions import Table
from gearshift.location import StorageOptions, as_uri
from gearshift.tables import files
from gearshift.tables.columns import Field
from gearshift.tables.commits import (
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
from gearshift.tables.merging import Merge
from gearshift.tables.snapshot import snapshot_of
from gearshift.tables.store import Store
from gearshift.tables.writing import evolve

# A name that begins with an underscore is hidden: no reader of the table, and no vacuum, looks into it.
FOLDER = "_gearshift_deleted"
AT = "gearshift_at"


class Deletions:
    """A Delta table inside the table: the key and order of every deletion.

    It is written before the table itself. A deletion that is known early changes nothing, since the batch that
    brought it is merged in the end; one that is known late would let an older row through.
    """

    def __init__(self, table: Table, uri: str, storage_options: StorageOptions) -> None:
        self._table = table
        self._uri = f"{as_uri(uri)}/{FOLDER}"
        self._storage_options = storage_options

    def apply(self, merge: Merge, batch: Batch | None, fields: Sequence[Field]) -> None:
        """Take out of the batch what was deleted later than it says, and write down what it deletes itself."""
        if self._table.deleted is None or not self._table.order_by:
            return  # what comes last is the latest: nothing can be late
        wanted = (*self._table.key, *self._table.order_by)
        noted = [field for field in fields if field["name"] in wanted]
        noted.append({"name": AT, "type": "long", "nullable": True, "metadata": {}})
        known = opened(self._uri, self._storage_options)
        if known is not None:
            store = Store(self._uri, self._storage_options)
            found = [(file.path, file.values) for file in snapshot_of(known, self._uri).files]
            merge.forget_deleted(store.dataset(schema_of(noted), found))
        if merge.deleting():
            self._note(merge, batch, noted)

    def _note(self, merge: Merge, batch: Batch | None, fields: Sequence[Field]) -> None:
        itself = Table(name=f"{self._table.name}'s deletions", defined_at=self._table.defined_at)
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
                    itself,
                    self._uri,
                    fields,
                    written,
                    properties(batch, rows=rows, retries=0),
                    self._storage_options,
                )
            if committed(delta, batch):
                return nothing(delta)
            if evolve(itself, delta, self._uri, fields, self._storage_options):
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
    """Leave out deletions that were noted before an instant: what is older by then no longer comes."""
    delta = opened(uri, storage_options)
    if delta is not None:
        with suppress(CommitFailedError):  # a batch came in between: the next vacuum does it
            delta.delete(f"{AT} < {int(before.timestamp() * 1000)}")
