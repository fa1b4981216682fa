"""Publishes a warehouse table to Hive, whose readers then see the committed rows of one version.

Hive and Spark SQL read every file of a folder, committed or not. So each partition's committed files are linked
into a separate folder that never changes, and one metastore transaction moves the partitions to the new folders.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from deltalake import DeltaTable

from gearshift.errors import TableError
from gearshift.storage.location import as_uri, local_path, name_of
from gearshift.storage.shared_files import exclusive
from gearshift.tables.hive.links import Links, values_of
from gearshift.tables.hive.metastore import HiveTable, Metastore, Values
from gearshift.tables.hive.types import hive_columns, spark_schema
from gearshift.tables.partitions import as_text
from gearshift.tables.read.snapshot import Snapshot, StoredFile, open_table, snapshot_of
from gearshift.tables.write.parquet_files import require_writable

_LOOKUP_SECONDS = 0.25  # a metastore lookup takes a few milliseconds
_URI, _ID, _VERSION = "gearshift.uri", "gearshift.table", "gearshift.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The version that Hive's readers see; `changed` is False if it was published before."""

    table: str
    version: int
    rows: int
    partitions: int
    changed: bool


def publish(metastore: Metastore, uri: str, *, whole: bool = False) -> Published:
    """Publish a table's newest version to a metastore atomically.

    Only what changed since the last publication is updated; `whole` also restores partitions that were
    dropped or moved in the metastore.
    """
    links = Links(require_linkable(uri))
    open_table(uri)  # fails before a folder is created for a table that does not exist
    require_writable(uri)
    try:
        links.empty.mkdir(parents=True, exist_ok=True)
        # Concurrent publishers of a table take turns, so that none restores an older version.
        with exclusive(links.root / "lock", within=None):
            publication = _Publication(metastore, uri, links)
            try:
                return publication.run(whole=whole)
            except TableError:
                return publication.retry()
    except OSError as error:
        raise TableError(
            f"table {name_of(uri)} cannot be published to Hive: {error.strerror} at {error.filename}",
            hint="the rows are committed, but Hive does not show them yet; fix the disk and publish again",
        ) from error


def require_linkable(uri: str) -> Path:
    """The folder of a table; TableError if it is not on a local disk, where files can be linked."""
    root = local_path(uri)
    if root is None:
        raise TableError(
            f"table {name_of(uri)} cannot be published to Hive from {uri}",
            hint="its files are linked, not copied; use a warehouse on a local disk",
        )
    return root


class _Publication:
    """One version of a table to publish to the metastore."""

    def __init__(self, metastore: Metastore, uri: str, links: Links) -> None:
        self._metastore = metastore
        self._links = links
        self._delta = open_table(uri)
        self._snapshot = snapshot_of(self._delta, uri)
        self._files = _by_partition(self._snapshot)
        self._folders = self._folders_of(self._files)
        self._table = self._described()

    def run(self, *, whole: bool) -> Published:
        there = self._metastore.table(self._table.name)
        self._require_ours(there)
        if there is not None and there.partitioned_by != self._table.partitioned_by:
            self._metastore.drop(there.name)  # the table was recreated with other partitions
            there = None
        changed = whole or there is None or there.properties.get(_VERSION) != str(self._snapshot.version)
        if changed:
            if self._table.partitioned_by:
                self._publish_partitions(there, whole=whole)
            else:
                self._publish_all(there)
            self._links.clean(self._folders.values())
        return Published(
            table=f"{self._metastore.database}.{self._table.name}",
            version=self._snapshot.version,
            rows=self._snapshot.rows,
            partitions=len(self._folders) if self._table.partitioned_by else 0,
            changed=changed,
        )

    def retry(self) -> Published:
        """Publish the whole table after the metastore rejected an update: its side may have been changed by hand.

        If the columns differ, the metastore's table is dropped first, so readers miss it for a moment.
        """
        there = self._metastore.table(self._table.name)
        self._require_ours(there)
        if there is not None and there.columns != self._table.columns:
            self._metastore.drop(there.name)
        return self.run(whole=True)

    def _publish_all(self, there: HiveTable | None) -> None:
        """Publish a table without partitions: one update for its columns and its folder."""
        self._links.make(self._folders[()], self._files[()])
        if there is not None:
            self._links.supersede([Path(there.location.removeprefix("file:"))])
        self._put(there, self._table)

    def _publish_partitions(self, there: HiveTable | None, *, whole: bool) -> None:
        metastore, links, version = self._metastore, self._links, self._table.properties[_VERSION]
        before = None if whole or there is None else self._published_folders(there)
        known: Mapping[Values, Path | None] = before or {}
        if before is None and there is not None:
            known = dict.fromkeys(metastore.partitions(there.name))
        changed = {values: folder for values, folder in self._folders.items() if known.get(values) != folder}
        gone = [values for values in known if values not in self._folders]
        for values, folder in changed.items():
            links.make(folder, self._files[values])
        # Columns first: older rows have nulls in new ones. The version last: it marks the publication as complete.
        shown = there.properties.get(_VERSION, "") if there is not None else ""
        columns = replace(self._table, properties={**self._table.properties, _VERSION: shown})
        if there is None or (there.columns, dict(there.properties)) != (
            columns.columns,
            _stored(there, columns),
        ):
            self._put(there, columns)
        if changed or gone:
            # Partitions are created and dropped empty, so that all rows appear and disappear in the one move.
            if new := [values for values in changed if values not in known]:
                metastore.add(self._table, new, _location(links.empty))
                # A metastore looks up which partitions exist, then their folders: a reader between the two must
                # not miss a new partition and find the others moved.
                time.sleep(_LOOKUP_SECONDS)
            links.supersede(old for values in (*changed, *gone) if (old := known.get(values)) is not None)
            moves = {values: _location(folder) for values, folder in changed.items()}
            metastore.move(self._table, {**moves, **dict.fromkeys(gone, _location(links.empty))})
            metastore.remove(self._table, gone)
        metastore.alter(replace(self._table, properties={**self._table.properties, _VERSION: version}))

    def _put(self, there: HiveTable | None, table: HiveTable) -> None:
        if there is None:
            self._metastore.create(table)
        else:
            self._metastore.alter(table)

    def _described(self) -> HiveTable:
        snapshot, name = self._snapshot, name_of(self._snapshot.uri)
        by_name = {str(field["name"]): field for field in snapshot.fields}
        data = [field for field in snapshot.fields if field["name"] not in snapshot.partition_by]
        keys = [by_name[column] for column in snapshot.partition_by]
        return HiveTable(
            name=name.lower(),
            columns=hive_columns(data, name),
            partitioned_by=hive_columns(keys, name),
            location=_location(self._links.empty if keys else self._folders[()]),
            properties={
                **spark_schema(snapshot.fields, snapshot.partition_by),
                _URI: as_uri(snapshot.uri),
                _ID: str(self._delta.metadata().id),
                _VERSION: str(snapshot.version),
            },
        )

    def _folders_of(self, files: Mapping[Values, list[StoredFile]]) -> dict[Values, Path]:
        names = self._snapshot.partition_by
        return {
            values: self._links.folder(
                list(zip(names, _texts(found[0]) if found else (), strict=False)), found
            )
            for values, found in files.items()
        }

    def _published_folders(self, there: HiveTable) -> dict[Values, Path] | None:
        """The folders of the published version; None if the table's log no longer has that version."""
        version = there.properties.get(_VERSION, "")
        if there.properties.get(_ID) != self._table.properties[_ID] or not version.isdecimal():
            return None
        try:
            old: DeltaTable = open_table(self._snapshot.uri, at=int(version))
            return self._folders_of(_by_partition(snapshot_of(old, self._snapshot.uri)))
        except TableError:  # its log was cleaned up
            return None

    def _require_ours(self, there: HiveTable | None) -> None:
        uri = self._table.properties[_URI]
        if there is not None and there.properties.get(_URI) != uri:
            owner = there.properties.get(_URI, "another owner")
            raise TableError(
                f"Hive already has a table {self._metastore.database}.{there.name} of {owner}, not of {uri}",
                hint="drop it in Hive, or choose another database with the hive_database setting",
            )


def _by_partition(snapshot: Snapshot) -> dict[Values, list[StoredFile]]:
    found: dict[Values, list[StoredFile]] = defaultdict(list)
    for file in snapshot.files:
        found[values_of(snapshot.partition_by, _texts(file))].append(file)
    if not snapshot.partition_by:
        found[()]  # a table without rows has an empty folder
    return dict(found)


def _texts(file: StoredFile) -> list[str | None]:
    return [as_text(value) for value in file.values.values()]


def _stored(there: HiveTable, table: HiveTable) -> dict[str, str]:
    """The properties that a table would have, with those that the metastore adds."""
    ours = table.properties
    kept = {
        name: value
        for name, value in there.properties.items()
        if not name.startswith(("spark.", "gearshift."))
    }
    return {**kept, **ours}


def _location(folder: Path) -> str:
    return f"file:{folder}"
