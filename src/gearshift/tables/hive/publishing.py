"""Publishing: a table of the warehouse as a table of Hive, whose readers see the committed rows of one version.

Hive and Spark SQL read every file of a folder, committed or not. So each partition's committed files are linked
into a folder of their own that never changes, and the metastore is told of the new folders in one transaction.
"""

from __future__ import annotations

import fcntl
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from deltalake import DeltaTable

from gearshift.errors import TableError
from gearshift.location import as_uri, local_path, name_of
from gearshift.tables.files import require_writable
from gearshift.tables.hive.links import Links, values_of
from gearshift.tables.hive.metastore import HiveTable, Metastore, Values
from gearshift.tables.hive.types import hive_columns, spark_schema
from gearshift.tables.partitions import as_text
from gearshift.tables.snapshot import Snapshot, StoredFile, open_table, snapshot_of

_LOOKED_UP_WITHIN = 0.25  # seconds; it takes a few milliseconds
_URI, _ID, _VERSION = "gearshift.uri", "gearshift.table", "gearshift.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What Hive's readers see from now on; `changed` is False if they saw this version before."""

    table: str
    version: int
    rows: int
    partitions: int
    changed: bool


def publish(metastore: Metastore, uri: str, *, whole: bool = False) -> Published:
    """Show a table's newest version to the readers of a metastore, at one instant.

    Only what changed since the last time is touched, unless it is asked for the `whole`: then partitions that
    somebody dropped or moved in the metastore come back as well.
    """
    links = Links(require_linkable(uri))
    open_table(uri)  # no lock, and so no folder, for a table that is not there
    require_writable(uri)
    try:
        links.empty.mkdir(parents=True, exist_ok=True)
        with _alone(links.root):
            work = _Publishing(metastore, uri, links)
            try:
                return work.run(whole=whole)
            except TableError:
                return work.again()
    except OSError as error:
        raise TableError(
            f"table {name_of(uri)} cannot be published to Hive: {error.strerror} at {error.filename}",
            hint="its rows are committed, only Hive does not see them yet; mend the disk and publish again",
        ) from error


def require_linkable(uri: str) -> Path:
    """The folder of a table; refuse one that is not on a disk, where files cannot be linked."""
    root = local_path(uri)
    if root is None:
        raise TableError(
            f"table {name_of(uri)} cannot be published to Hive from {uri}",
            hint="its files are linked, not copied: that needs a warehouse on a disk",
        )
    return root


class _Publishing:
    """One version of one table on its way to the metastore."""

    def __init__(self, metastore: Metastore, uri: str, links: Links) -> None:
        self._metastore = metastore
        self._links = links
        self._delta = open_table(uri)
        self._snapshot = snapshot_of(self._delta, uri)
        self._files = _by_partition(self._snapshot)
        self._places = self._placed(self._files)
        self._table = self._described()

    def run(self, *, whole: bool) -> Published:
        there = self._metastore.table(self._table.name)
        self._refuse_others(there)
        if there is not None and there.partitioned_by != self._table.partitioned_by:
            self._metastore.drop(there.name)  # the table was dropped and made anew, otherwise
            there = None
        changed = whole or there is None or there.properties.get(_VERSION) != str(self._snapshot.version)
        if changed:
            if self._table.partitioned_by:
                self._publish_partitions(there, whole=whole)
            else:
                self._publish_all(there)
            self._links.clean(self._places.values())
        return Published(
            table=f"{self._metastore.database}.{self._table.name}",
            version=self._snapshot.version,
            rows=self._snapshot.rows,
            partitions=len(self._places) if self._table.partitioned_by else 0,
            changed=changed,
        )

    def again(self) -> Published:
        """All of it, after a metastore refused what had changed: somebody may have meddled with its side.

        A metastore that does not take these columns for those before them loses the table for a moment.
        """
        there = self._metastore.table(self._table.name)
        self._refuse_others(there)
        if there is not None and there.columns != self._table.columns:
            self._metastore.drop(there.name)
        return self.run(whole=True)

    def _publish_all(self, there: HiveTable | None) -> None:
        """A table without partitions changes in one stroke, with its columns."""
        place = self._places[()]
        self._links.make(place, self._files[()])
        if there is not None:
            self._links.supersede([Path(there.location.removeprefix("file:"))])
        self._put(there, self._table)

    def _publish_partitions(self, there: HiveTable | None, *, whole: bool) -> None:
        metastore, links, version = self._metastore, self._links, self._table.properties[_VERSION]
        before = None if whole or there is None else self._places_at(there)
        known: Mapping[Values, Path | None] = before or {}
        if before is None and there is not None:
            known = dict.fromkeys(metastore.partitions(there.name))
        changed = {values: place for values, place in self._places.items() if known.get(values) != place}
        gone = [values for values in known if values not in self._places]
        for values, place in changed.items():
            links.make(place, self._files[values])
        # Columns go first: rows of before have nulls in new ones. The version goes last: it says all is done.
        shown = there.properties.get(_VERSION, "") if there is not None else ""
        columns = replace(self._table, properties={**self._table.properties, _VERSION: shown})
        if there is None or (there.columns, dict(there.properties)) != (
            columns.columns,
            _stored(there, columns),
        ):
            self._put(there, columns)
        if changed or gone:
            # A partition is born and dies empty, so that all rows come and go in the one move between.
            if new := [values for values in changed if values not in known]:
                metastore.add(self._table, new, _location(links.empty))
                # A metastore first looks up which partitions there are, then where: who is between the two must
                # not miss a new partition and find the others moved.
                time.sleep(_LOOKED_UP_WITHIN)
            links.supersede(old for values in (*changed, *gone) if (old := known.get(values)) is not None)
            moves = {values: _location(place) for values, place in changed.items()}
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
            location=_location(self._links.empty if keys else self._places[()]),
            properties={
                **spark_schema(snapshot.fields, snapshot.partition_by),
                _URI: as_uri(snapshot.uri),
                _ID: str(self._delta.metadata().id),
                _VERSION: str(snapshot.version),
            },
        )

    def _placed(self, files: Mapping[Values, list[StoredFile]]) -> dict[Values, Path]:
        names = self._snapshot.partition_by
        return {
            values: self._links.place(
                list(zip(names, _texts(found[0]) if found else (), strict=False)), found
            )
            for values, found in files.items()
        }

    def _places_at(self, there: HiveTable) -> dict[Values, Path] | None:
        """The folders that the metastore shows, or None if that cannot be told from the table's history."""
        version = there.properties.get(_VERSION, "")
        if there.properties.get(_ID) != self._table.properties[_ID] or not version.isdecimal():
            return None
        try:
            old: DeltaTable = open_table(self._snapshot.uri, at=int(version))
            return self._placed(_by_partition(snapshot_of(old, self._snapshot.uri)))
        except TableError:  # its log is cleaned up
            return None

    def _refuse_others(self, there: HiveTable | None) -> None:
        uri = self._table.properties[_URI]
        if there is not None and there.properties.get(_URI) != uri:
            owner = there.properties.get(_URI, "somebody else")
            raise TableError(
                f"Hive has a table {self._metastore.database}.{there.name} of {owner} already, not of {uri}",
                hint="drop it there, or choose another database with the hive_database setting",
            )


def _by_partition(snapshot: Snapshot) -> dict[Values, list[StoredFile]]:
    found: dict[Values, list[StoredFile]] = defaultdict(list)
    for file in snapshot.files:
        found[values_of(snapshot.partition_by, _texts(file))].append(file)
    if not snapshot.partition_by:
        found[()]  # a table without rows has a folder without files
    return dict(found)


def _texts(file: StoredFile) -> list[str | None]:
    return [as_text(value) for value in file.values.values()]


def _stored(there: HiveTable, table: HiveTable) -> dict[str, str]:
    """The properties that a table would have; the metastore adds some of its own."""
    ours = table.properties
    kept = {
        name: value
        for name, value in there.properties.items()
        if not name.startswith(("spark.", "gearshift."))
    }
    return {**kept, **ours}


def _location(place: Path) -> str:
    return f"file:{place}"


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Two that publish one table take turns, so that none brings back an older version."""
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
