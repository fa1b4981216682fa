"""Warehouse tables in Delta: Spark writes the Parquet files, delta-rs commits them, anything reads them."""

from gearshift.tables.location import table_uri
from gearshift.tables.query import Answer, names, rows, sql
from gearshift.tables.reading import load
from gearshift.tables.snapshot import Change, Snapshot, StoredFile, exists, history, read_paths
from gearshift.tables.writing import Commit, append, overwrite

__all__ = [
    "Answer",
    "Change",
    "Commit",
    "Snapshot",
    "StoredFile",
    "append",
    "exists",
    "history",
    "load",
    "names",
    "overwrite",
    "read_paths",
    "rows",
    "sql",
    "table_uri",
]
