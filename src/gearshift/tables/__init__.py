"""Warehouse tables in Delta: Spark writes the Parquet files, delta-rs commits them, anything reads them."""

from gearshift.location import table_uri
from gearshift.tables.commits import Commit, last_batch
from gearshift.tables.hive import HiveTable, Metastore, Published, publish, require_linkable
from gearshift.tables.maintenance import Compaction, Vacuum, compact, vacuum
from gearshift.tables.query import Answer, find, names, rows, sql, travels
from gearshift.tables.readable import unreadable, unreadable_words, why_unreadable
from gearshift.tables.reading import load
from gearshift.tables.snapshot import Change, Snapshot, StoredFile, exists, history, read_paths, version_at
from gearshift.tables.tallies import Bound, Tally, Times, tallies, times
from gearshift.tables.upserting import check_upsert, forget_before, upsert
from gearshift.tables.writing import append, overwrite, replace_partitions

__all__ = [
    "Answer",
    "Bound",
    "Change",
    "Commit",
    "Compaction",
    "HiveTable",
    "Metastore",
    "Published",
    "Snapshot",
    "StoredFile",
    "Tally",
    "Times",
    "Vacuum",
    "append",
    "check_upsert",
    "compact",
    "exists",
    "find",
    "forget_before",
    "history",
    "last_batch",
    "load",
    "names",
    "overwrite",
    "publish",
    "read_paths",
    "replace_partitions",
    "require_linkable",
    "rows",
    "sql",
    "table_uri",
    "tallies",
    "times",
    "travels",
    "unreadable",
    "unreadable_words",
    "upsert",
    "vacuum",
    "version_at",
    "why_unreadable",
]
