"""Reads the committed rows of a table with Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from typing import Any

from gearshift.storage.location import StorageOptions, spark_path
from gearshift.tables.columns import Field, ddl, quoted, type_name
from gearshift.tables.partitions import WRITE_FOLDER, as_text, layout_of
from gearshift.tables.read.snapshot import Snapshot, StoredFile, open_table, snapshot_of

# By default Spark lists files in a job with a task per file; for hundreds of files these tasks dominate the time.
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_TASK_PER_FILE, _FEW_TASKS = "10000", "16"
_Values = tuple[tuple[str, str | None], ...]


def load(spark: Any, uri: str, *, version: int | None = None, storage_options: StorageOptions = None) -> Any:
    """A DataFrame of the table's newest version, or of an older one; later commits do not change it."""
    snapshot = snapshot_of(open_table(uri, storage_options, at=version), uri)
    if spark.conf.get(_LISTING_TASKS) == _TASK_PER_FILE:
        spark.conf.set(_LISTING_TASKS, _FEW_TASKS)
    if not snapshot.files:
        return spark.createDataFrame([], ddl(snapshot.fields))
    by_layout: dict[str, list[StoredFile]] = defaultdict(list)
    by_values: dict[_Values, list[StoredFile]] = defaultdict(list)
    for file in snapshot.files:
        values = {name: as_text(value) for name, value in file.values.items()}
        layout = layout_of(file.path, values)
        if layout is None:
            by_values[tuple(values.items())].append(file)
        else:
            by_layout[layout].append(file)
    scans = [_partitioned(spark, snapshot, found) for found in by_layout.values()]
    scans += [_literal(spark, snapshot, values, found) for values, found in by_values.items()]
    return reduce(lambda one, other: one.unionByName(other), scans)


def _partitioned(spark: Any, snapshot: Snapshot, files: Sequence[StoredFile]) -> Any:
    """A scan of files whose folders contain their partition values, so that Spark can prune partitions."""
    reader = spark.read.schema(f"{ddl(snapshot.fields)}, {quoted(WRITE_FOLDER)} string")
    reader = reader.option("basePath", spark_path(snapshot.uri))
    return _read(reader, snapshot, files).select(*_names(snapshot.fields))


def _literal(spark: Any, snapshot: Snapshot, values: _Values, files: Sequence[StoredFile]) -> Any:
    """A scan of files of other writers, which share these partition values."""
    known = dict(values)
    data = [field for field in snapshot.fields if field["name"] not in known]
    # This option also disables partition discovery by folder names.
    reader = spark.read.schema(ddl(data)).option("recursiveFileLookup", "true")
    columns = [
        f"cast({_sql(known[field['name']])} as {type_name(field['type'])}) as {quoted(field['name'])}"
        if field["name"] in known
        else quoted(field["name"])
        for field in snapshot.fields
    ]
    return _read(reader, snapshot, files).selectExpr(*columns)


def _read(reader: Any, snapshot: Snapshot, files: Sequence[StoredFile]) -> Any:
    root = spark_path(snapshot.uri)
    # Otherwise brackets in a folder's name would be a glob pattern.
    return reader.option("__globPaths__", "false").parquet(*[f"{root}/{file.path}" for file in files])


def _names(fields: Sequence[Field]) -> list[str]:
    return [quoted(field["name"]) for field in fields]


def _sql(text: str | None) -> str:
    r"""A text as an SQL literal.

    >>> _sql("it's")
    "'it\\'s'"
    """
    if text is None:
        return "null"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\u0000")
    return f"'{escaped}'"
