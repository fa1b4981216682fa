"""Hive's metastore, the one that Spark embeds or an external one, through the client in Spark's Java process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]

from gearshift.errors import TableError
from gearshift.tables import HiveTable

T = TypeVar("T")
Values = tuple[str, ...]
_ALL = -1

_PARQUET = "org.apache.hadoop.hive.ql.io.parquet"
_EMBEDDED = {
    "hive.metastore.uris": "",
    "hive.metastore.schema.verification": "false",  # the same jars create the schema and read it
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.disallow.incompatible.col.type.changes": "false",  # an overwrite may change the columns
    "hive.hmshandler.retry.interval": "100ms",  # ten retries; another process that has it open will not close it soon
}
# With row locks, a concurrent reader sees some partitions before a change and some after it.
_DERBY = {"derby.storage.rowLocking": "false"}
_ALWAYS = {
    "hive.metastore.client.socket.timeout": "60s",
    "hive.stats.autogather": "false",
}
# Statistics of a folder's files would answer queries after the table has moved on.
_NO_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}


class JavaMetastore:
    """One database of a metastore; every change is one transaction."""

    def __init__(
        self,
        jvm: Any,
        *,
        database: str = "default",
        uri: str | None = None,
        folder: Path,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.uri = uri
        self.database = database
        self.jvm = jvm
        self._folder = folder.absolute()
        self._properties = dict(properties or {})
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def words(self) -> str:
        """The metastore's name in messages."""
        return self.uri or f"the metastore in {self._folder}"

    @property
    def spark_configuration(self) -> dict[str, str]:
        """The settings with which a Spark session with Hive support reads it."""
        if self.uri is not None:
            return {"spark.hadoop.hive.metastore.uris": self.uri}
        return {
            "spark.hadoop.javax.jdo.option.ConnectionURL": self._derby(),
            "spark.hadoop.hive.metastore.schema.verification": "false",
            "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        }

    def table(self, name: str) -> HiveTable | None:
        """A table, or None if it does not exist."""

        def get(client: Any) -> HiveTable | None:
            if not client.tableExists(self.database, name):
                return None
            found = client.getTable(self.database, name)
            return HiveTable(
                name=name,
                columns=_pairs(found.getSd().getCols()),
                partitioned_by=_pairs(found.getPartitionKeys()),
                location=str(found.getSd().getLocation()),
                properties=dict(found.getParameters()),
            )

        return self._call(get)

    def create(self, table: HiveTable) -> None:
        """Add an external table, and its database if missing."""

        def create(client: Any) -> None:
            if self.database not in list(client.getAllDatabases()):
                client.createDatabase(self._api().Database(self.database, "", None, self._map({})))
            client.createTable(self._java_table(table))

        self._call(create)

    def alter(self, table: HiveTable) -> None:
        """Change the columns, location and properties of a table atomically."""

        def alter(client: Any) -> None:
            java = self._java_table(table)
            client.alter_table_with_environmentContext(self.database, table.name, java, self._no_statistics())

        self._call(alter)

    def drop(self, name: str) -> None:
        """Remove a table; its files stay."""
        self._call(lambda client: client.dropTable(self.database, name, False, True))

    def partitions(self, name: str) -> list[Values]:
        """The values of all partitions of a table."""

        def values(client: Any) -> list[Values]:
            found = client.listPartitions(self.database, name, _ALL)
            return [tuple(str(value) for value in each.getValues()) for each in found]

        return self._call(values)

    def add(self, table: HiveTable, partitions: Iterable[Values], location: str) -> None:
        """Add partitions, all at one location; existing ones are unchanged."""
        new = self._partitions(table, dict.fromkeys(partitions, location))
        self._call(lambda client: client.add_partitions(new, True, False))

    def move(self, table: HiveTable, locations: Mapping[Values, str]) -> None:
        """Move existing partitions to new locations atomically."""
        moved = self._partitions(table, locations)
        self._call(
            lambda client: client.alter_partitions(self.database, table.name, moved, self._no_statistics())
        )

    def remove(self, table: HiveTable, partitions: Iterable[Values]) -> None:
        """Remove partitions; their files stay."""
        for values in partitions:
            java = self._list(values)
            self._call(lambda client, java=java: client.dropPartition(self.database, table.name, java, False))

    # Java

    def _call(self, work: Callable[[Any], T]) -> T:
        """Call the client; a lost connection is reopened once."""
        with self._lock:
            try:
                if self._client is None:
                    self._client = self._connect()
                try:
                    return work(self._client)
                except Py4JJavaError as error:
                    if self.uri is None or "transport.TTransportException" not in _causes(error)[0]:
                        raise
                    self._client = (
                        None  # the metastore was restarted, or a firewall closed an idle connection
                    )
                    self._client = self._connect()
                    return work(self._client)
            except Py4JJavaError as error:
                raise self._explained(_causes(error)) from error

    def _connect(self) -> Any:
        hive = self.jvm.org.apache.hadoop.hive
        configuration = hive.conf.HiveConf()
        if self.uri is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, value in {**_DERBY, "derby.stream.error.file": str(self._folder / "derby.log")}.items():
                self.jvm.java.lang.System.setProperty(name, value)
            own = {
                "javax.jdo.option.ConnectionURL": self._derby(),
                "hive.metastore.warehouse.dir": str(self._folder / "warehouse"),
                **_EMBEDDED,
            }
        else:
            own = {"hive.metastore.uris": self.uri}
        for name, value in {**_ALWAYS, **own, **self._properties}.items():
            configuration.set(name, value)
        return hive.metastore.HiveMetaStoreClient(configuration)

    def _derby(self) -> str:
        return f"jdbc:derby:;databaseName={self._folder / 'metastore'};create=true"

    def _explained(self, causes: Sequence[str]) -> TableError:
        text = "\n".join(causes)
        if "Another instance of Derby" in text:
            return TableError(
                f"{self.words} is in use by another process and takes one at a time",
                hint="stop that process, or run a metastore server and set hive_metastore to its URI",
            )
        if self.uri is not None and (
            "Could not connect to meta store" in text or "TTransportException" in text
        ):
            return TableError(
                f"cannot reach the Hive metastore at {self.uri}",
                hint="start it, or correct the hive_metastore setting",
            )
        return TableError(f"{self.words} failed: {causes[-1]}", hint="see the Spark log")

    def _api(self) -> Any:
        return self.jvm.org.apache.hadoop.hive.metastore.api

    def _java_table(self, table: HiveTable) -> Any:
        java = self._api().Table()
        java.setDbName(self.database)
        java.setTableName(table.name)
        java.setOwner(str(self.jvm.java.lang.System.getProperty("user.name")))
        java.setTableType("EXTERNAL_TABLE")
        java.setPartitionKeys(self._columns(table.partitioned_by))
        java.setSd(self._storage(table, table.location))
        java.setParameters(self._map({**table.properties, "EXTERNAL": "TRUE"}))
        return java

    def _partitions(self, table: HiveTable, locations: Mapping[Values, str]) -> Any:
        first = self._api().Partition()
        first.setDbName(self.database)
        first.setTableName(table.name)
        first.setSd(self._storage(table, table.location))
        first.setParameters(self._map({}))
        made = self._list(())
        for values, location in locations.items():
            java = first.deepCopy()  # calls into Java are slow: four per partition instead of forty
            java.setValues(self._list(values))
            java.getSd().setLocation(location)
            made.add(java)
        return made

    def _storage(self, table: HiveTable, location: str) -> Any:
        serde = self._api().SerDeInfo()
        serde.setSerializationLib(f"{_PARQUET}.serde.ParquetHiveSerDe")
        serde.setParameters(self._map({"serialization.format": "1"}))
        storage = self._api().StorageDescriptor()
        storage.setCols(self._columns(table.columns))
        storage.setLocation(location)
        storage.setInputFormat(f"{_PARQUET}.MapredParquetInputFormat")
        storage.setOutputFormat(f"{_PARQUET}.MapredParquetOutputFormat")
        storage.setSerdeInfo(serde)
        storage.setNumBuckets(-1)
        storage.setBucketCols(self._list(()))
        storage.setSortCols(self._list(()))
        storage.setParameters(self._map({}))
        return storage

    def _columns(self, columns: Sequence[tuple[str, str]]) -> Any:
        return self._list(self._api().FieldSchema(name, kind, "") for name, kind in columns)

    def _no_statistics(self) -> Any:
        return self._api().EnvironmentContext(self._map(_NO_STATISTICS))

    def _list(self, values: Iterable[Any]) -> Any:
        made = self.jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    def _map(self, entries: Mapping[str, str]) -> Any:
        made = self.jvm.java.util.HashMap()
        for name, value in entries.items():
            made.put(name, value)
        return made


def _pairs(columns: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(column.getName()), str(column.getType())) for column in columns)


def _causes(error: Any) -> list[str]:
    """The messages of a Java exception and its causes, outermost first."""
    found: list[str] = []
    cause = error.java_exception
    while cause is not None and len(found) < 10:
        found.append(str(cause.toString()))
        cause = cause.getCause()
    return found
