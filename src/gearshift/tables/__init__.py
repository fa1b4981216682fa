"""Warehouse tables in Delta: Spark writes the Parquet files, delta-rs commits them, any Delta reader reads them."""

from gearshift.storage.location import table_uri
from gearshift.tables.columns import quoted
from gearshift.tables.describing import as_json, describe_change, describe_columns, describe_table
from gearshift.tables.hive import HiveTable, Metastore, Published, publish, require_linkable
from gearshift.tables.read.changes import LoggedCommit, changed_since, commits_back_to, newest_version
from gearshift.tables.read.snapshot import (
    Change,
    Snapshot,
    StoredFile,
    exists,
    history,
    read_paths,
    version_at,
)
from gearshift.tables.read.spark import load
from gearshift.tables.read.sql import Answer, Limits, find, names, rows, sql, travels
from gearshift.tables.read.tallies import (
    BY_NAME,
    Bound,
    Tally,
    Times,
    column_names,
    tallies,
    times,
    times_of_files,
)
from gearshift.tables.read.unreadable import (
    literal,
    unreadable,
    unreadable_words,
    why_refused,
    why_unreadable,
)
from gearshift.tables.upkeep.maintenance import Compaction, Vacuum, compact, vacuum
from gearshift.tables.write.batches import append, overwrite, replace_partitions
from gearshift.tables.write.commits import Commit, last_batch
from gearshift.tables.write.upserts import check_upsert, forget_before, upsert

__all__ = [
    "BY_NAME",
    "Answer",
    "Bound",
    "Change",
    "Commit",
    "Compaction",
    "HiveTable",
    "Limits",
    "LoggedCommit",
    "Metastore",
    "Published",
    "Snapshot",
    "StoredFile",
    "Tally",
    "Times",
    "Vacuum",
    "append",
    "as_json",
    "changed_since",
    "check_upsert",
    "column_names",
    "commits_back_to",
    "compact",
    "describe_change",
    "describe_columns",
    "describe_table",
    "exists",
    "find",
    "forget_before",
    "history",
    "last_batch",
    "literal",
    "load",
    "names",
    "newest_version",
    "overwrite",
    "publish",
    "quoted",
    "read_paths",
    "replace_partitions",
    "require_linkable",
    "rows",
    "sql",
    "table_uri",
    "tallies",
    "times",
    "times_of_files",
    "travels",
    "unreadable",
    "unreadable_words",
    "upsert",
    "vacuum",
    "version_at",
    "why_refused",
    "why_unreadable",
]
