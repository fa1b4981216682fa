"""Warehouse tables in Delta: Spark writes the Parquet files, delta-rs commits them, anything reads them."""

from gearshift.tables.commits import Commit
from gearshift.tables.location import table_uri
from gearshift.tables.maintenance import Compaction, Vacuum, compact, vacuum
from gearshift.tables.query import Answer, find, names, rows, sql
from gearshift.tables.reading import load
from gearshift.tables.snapshot import Change, Snapshot, StoredFile, exists, history, read_paths
from gearshift.tables.upserting import check_upsert, forget_before, upsert
from gearshift.tables.writing import append, overwrite, replace_partitions

__all__ = [
    "Answer",
    "Change",
    "Commit",
    "Compaction",
    "Snapshot",
    "StoredFile",
    "Vacuum",
    "append",
    "check_upsert",
    "compact",
    "exists",
    "find",
    "forget_before",
    "history",
    "load",
    "names",
    "overwrite",
    "read_paths",
    "replace_partitions",
    "rows",
    "sql",
    "table_uri",
    "upsert",
    "vacuum",
]
