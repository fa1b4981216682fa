"""A table at one version: its columns and committed files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from gearshift.errors import TableError, TableMissingError
from gearshift.storage.failures import reported
from gearshift.storage.location import StorageOptions, as_uri, name_of
from gearshift.storage.object_store import add_actions
from gearshift.storage.reaching import options_for
from gearshift.tables.columns import Field

WRITER_KEY = "gearshift.writer"
BATCH_KEY = "gearshift.batch"
ROWS_KEY = "gearshift.rows"
OPERATION_KEY = "gearshift.operation"
_UNREADABLE = {"deletionVectors", "columnMapping"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A committed file: its decoded path relative to the table, and the partition values of its rows."""

    path: str
    size: int
    rows: int | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A table at one version."""

    uri: str
    version: int
    fields: tuple[Field, ...]
    partition_by: tuple[str, ...]
    files: tuple[StoredFile, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One commit of a table's history; writer, batch and rows are known for commits by Gearshift."""

    version: int
    at: datetime
    operation: str
    writer: str | None
    batch_id: int | None
    rows: int | None


def exists(uri: str, *, storage_options: StorageOptions = None) -> bool:
    """Whether there is a table at this URI."""
    with reported(uri):
        return DeltaTable.is_deltatable(as_uri(uri), options_for(uri, storage_options))


def open_table(
    uri: str, storage_options: StorageOptions = None, *, at: int | datetime | None = None
) -> DeltaTable:
    """The delta-rs table at its newest version, or at an older version or time."""
    try:
        with reported(uri):
            table = DeltaTable(as_uri(uri), storage_options=options_for(uri, storage_options))
            if at is not None:
                _load_version(table, uri, at)
            return table
    except TableNotFoundError:
        raise TableMissingError(
            f"table {name_of(uri)} does not exist at {uri}",
            hint="run the pipeline that writes it, or check the warehouse setting",
        ) from None
    except DeltaError as error:
        raise TableError(
            f"table {name_of(uri)} at {uri} cannot be opened: {error}", hint="check its _delta_log"
        ) from error


def _load_version(table: DeltaTable, uri: str, at: int | datetime) -> None:
    newest = table.version()
    if isinstance(at, int):
        if not 0 <= at <= newest:
            raise TableError(
                f"table {name_of(uri)} has no version {at}", hint=f"use a version from 0 to {newest}"
            )
    else:
        oldest = table.history()[-1]["timestamp"] / 1000
        if at.timestamp() < oldest:
            raise TableError(
                f"table {name_of(uri)} has no version at {at.isoformat()}",
                hint=f"use a time since {datetime.fromtimestamp(oldest, UTC).isoformat()}",
            )
    table.load_as_version(at)


def version_at(uri: str, moment: datetime, *, storage_options: StorageOptions = None) -> int:
    """The version of a table at a point in time."""
    return open_table(uri, storage_options, at=moment).version()


def read_paths(uri: str, *, version: int | None = None, storage_options: StorageOptions = None) -> Snapshot:
    """The committed files of a table's newest version, or of an older one."""
    return snapshot_of(open_table(uri, storage_options, at=version), uri)


def snapshot_of(table: DeltaTable, uri: str) -> Snapshot:
    """The files and columns of an open table."""
    features = _UNREADABLE.intersection(table.protocol().reader_features or ())
    if features:
        raise TableError(
            f"table {name_of(uri)} uses {', '.join(sorted(features))}, which Gearshift does not read",
            hint="turn the feature off in the tool that writes the table",
        )
    partition_by = tuple(table.metadata().partition_columns)
    files = tuple(
        StoredFile(
            path=unquote(action["path"]),
            size=action["size_bytes"],
            rows=action.get("num_records"),
            values={name: action["partition"][name] for name in partition_by},
        )
        for action in add_actions(table)
    )
    return Snapshot(
        uri=as_uri(uri),
        version=table.version(),
        fields=tuple(fields_in(table)),
        partition_by=partition_by,
        files=files,
        rows=_rows(table, files),
    )


def fields_in(table: DeltaTable) -> list[Field]:
    """The columns of an open table."""
    return json.loads(table.schema().to_json())["fields"]


def history(
    uri: str, *, limit: int | None = None, storage_options: StorageOptions = None
) -> tuple[Change, ...]:
    """The table's commits, newest first."""
    return tuple(
        Change(
            version=entry["version"],
            at=datetime.fromtimestamp(entry["timestamp"] / 1000, UTC),
            operation=entry.get(OPERATION_KEY) or entry["operation"],
            writer=entry.get(WRITER_KEY),
            batch_id=entry.get(BATCH_KEY),
            rows=entry.get(ROWS_KEY),
        )
        for entry in open_table(uri, storage_options).history(limit)
    )


def _rows(table: DeltaTable, files: Iterable[StoredFile]) -> int:
    counts = [file.rows for file in files]
    # Other writers may omit the counts; then they are read from the files.
    return table.count() if None in counts else sum(count or 0 for count in counts)
