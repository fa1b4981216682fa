"""Maintenance of tables: compaction of small files, and vacuum of files that no version needs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from gearshift.errors import TableError
from gearshift.storage.location import StorageOptions, as_uri, local_path, name_of
from gearshift.storage.object_store import Store
from gearshift.tables.partitions import WRITE_FOLDER
from gearshift.tables.read.snapshot import StoredFile, fields_in, open_table, snapshot_of
from gearshift.tables.upkeep.rewriting import by_partition, rewrite
from gearshift.tables.write import parquet_files as files
from gearshift.tables.write.commits import adds, opened, properties, removes, schema_of
from gearshift.tables.write.deletions import FOLDER as DELETIONS
from gearshift.tables.write.deletions import forget
from gearshift.tables.write.parquet_files import WrittenFile

FILE_SIZE = 128 << 20
# Running readers and writers use files that no version has; none runs for longer.
SHORTEST = timedelta(hours=1)
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The number of files that a compaction replaced, and of those it wrote."""

    taken: int
    made: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """The files that were removed, or would be in a dry run."""

    paths: tuple[str, ...]
    dry_run: bool


def compact(
    uri: str,
    *,
    file_size: int = FILE_SIZE,
    now: datetime | None = None,
    storage_options: StorageOptions = None,
) -> Compaction:
    """Combine the small files of each partition into files of at most `file_size`; the rows stay the same.

    Writers continue in the meantime; files that they replace are left out.
    """
    delta = open_table(uri, storage_options)
    files.require_writable(uri)
    snapshot = snapshot_of(delta, uri)
    bins = [bin_ for found in by_partition(snapshot) for bin_ in _bins(found, file_size)]
    if not bins:
        return Compaction(taken=0, made=0, version=delta.version())
    schema = schema_of(fields_in(delta))
    made = rewrite(snapshot, schema, bins, "compact", storage_options)
    pairs = list(zip(bins, made, strict=True))
    for _ in range(_ATTEMPTS):
        delta = open_table(uri, storage_options)
        there = {file.path for file in snapshot_of(delta, uri).files}
        pairs, lost = _split(pairs, there)
        for _, written in lost:
            _discard(uri, written, storage_options)
        if not pairs:
            break
        try:
            return _commit(delta, pairs, now or datetime.now(UTC))
        except CommitFailedError:
            continue
        except DeltaError as error:
            raise TableError(
                f"compaction of table {name_of(uri)} at {uri} failed: {error}", hint="check its history"
            ) from error
    for _, written in pairs:
        _discard(uri, written, storage_options)
    return Compaction(taken=0, made=0, version=delta.version())


def vacuum(
    uri: str,
    older_than: timedelta = timedelta(days=7),
    *,
    keep: Iterable[int] = (),
    dry_run: bool = False,
    storage_options: StorageOptions = None,
) -> Vacuum:
    """Remove files that only versions older than this need, and files that killed writers left.

    Older versions can then no longer be read, except those in `keep`, which running queries read.
    """
    if older_than < SHORTEST:
        raise TableError(
            f"cannot vacuum files of table {name_of(uri)} that are younger than an hour",
            hint="set older_than to at least an hour: running readers and writers may use them",
        )
    delta = open_table(uri, storage_options)
    kept = sorted({version for version in keep if 0 <= version <= delta.version()})
    hours = -(-older_than // timedelta(hours=1))
    if not dry_run:
        files.require_writable(uri)
        _forget_deletions(uri, older_than, storage_options)
    try:
        found = delta.vacuum(
            retention_hours=hours,
            dry_run=dry_run,
            enforce_retention_duration=False,
            full=True,
            keep_versions=kept or None,
        )
    except DeltaError as error:
        raise TableError(
            f"table {name_of(uri)} at {uri} cannot be vacuumed: {error}", hint="try again"
        ) from error
    if not dry_run:
        _remove_empty_folders(uri)
    return Vacuum(paths=tuple(found), dry_run=dry_run)


_Pair = tuple[Sequence[StoredFile], list[WrittenFile]]


def _bins(found: Sequence[StoredFile], file_size: int) -> list[list[StoredFile]]:
    """Groups of small files of a partition up to the size; a group of one is left out."""
    bins: list[list[StoredFile]] = []
    room = 0
    for file in sorted(found, key=lambda each: each.size):
        if file.size > file_size // 2:
            break
        if not bins or file.size > room:
            bins.append([])
            room = file_size
        bins[-1].append(file)
        room -= file.size
    return [bin_ for bin_ in bins if len(bin_) > 1]


def _split(pairs: Sequence[_Pair], there: set[str]) -> tuple[list[_Pair], list[_Pair]]:
    """The bins whose files are all still in the table, and those with replaced or removed files."""
    whole = [pair for pair in pairs if all(file.path in there for file in pair[0])]
    return whole, [pair for pair in pairs if pair not in whole]


def _commit(delta: DeltaTable, pairs: Sequence[_Pair], now: datetime) -> Compaction:
    taken = [file for bin_, _ in pairs for file in bin_]
    made = [file for _, written in pairs for file in written]
    delta.create_write_transaction(
        [*adds(made, changes=False), *removes(taken, changes=False, at=now)],
        "append",
        delta.schema(),
        list(delta.metadata().partition_columns),
        commit_properties=properties(
            rows=sum(file.rows for file in made), operation="COMPACT", removing_from=delta
        ),
    )
    delta.update_incremental()
    return Compaction(taken=len(taken), made=len(made), version=delta.version())


def _discard(uri: str, written: Sequence[WrittenFile], storage_options: StorageOptions) -> None:
    store = Store(uri, storage_options)
    for file in written:
        store.remove_file(file.path)


def _forget_deletions(uri: str, older_than: timedelta, storage_options: StorageOptions) -> None:
    deletions = f"{as_uri(uri)}/{DELETIONS}"
    if opened(deletions, storage_options) is not None:
        forget(deletions, datetime.now(UTC) - older_than, storage_options)
        compact(deletions, storage_options=storage_options)
        vacuum(deletions, older_than, storage_options=storage_options)


def _remove_empty_folders(uri: str) -> None:
    """Remove the folders that a vacuum emptied; object stores have none."""
    root = local_path(uri)
    if root is None:
        return
    before = datetime.now(UTC).timestamp() - SHORTEST.total_seconds()
    for top in root.glob(f"{WRITE_FOLDER}=*"):
        for folder, _, _ in os.walk(top, topdown=False):
            # A folder that a writer has just created is empty too.
            with contextlib.suppress(OSError):
                if Path(folder).stat().st_mtime < before:
                    Path(folder).rmdir()
