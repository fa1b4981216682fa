"""Rules for tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

from gearshift.definitions import OnSchemaChange, Table
from gearshift.rules.declared import invalid, require_new


def check_table(table: Table, known: Mapping[str, Table]) -> None:
    """Require a table that SQL can name and whose columns do not contradict each other."""
    name, where = table.name, table.defined_at
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name):
        raise invalid(f"invalid table name {name!r}", "use letters, digits and _, as in SQL", where)
    require_new(name, "table", known, where)
    if table.on_schema_change not in (choices := get_args(OnSchemaChange)):
        raise invalid(
            f"table {name} has on_schema_change={table.on_schema_change!r}",
            f"use {' or '.join(map(repr, choices))}",
            where,
        )
    if table.publish not in (None, "hive"):
        raise invalid(f"table {name} has publish={table.publish!r}", "use 'hive', or leave it out", where)
    if not table.key and (table.sequence_by or table.deleted):
        what = "sequence_by" if table.sequence_by else "deleted"
        raise invalid(f"table {name} has {what} but no key", "name the key columns: key='id'", where)
    for listed in (table.partition_by, table.key, table.sequence_by):
        if len(set(listed)) < len(listed):
            raise invalid(f"table {name} names a column twice: {', '.join(listed)}", "name it once", where)
    if table.deleted in (*table.key, *table.sequence_by, *table.partition_by):
        raise invalid(
            f"table {name} does not store column {table.deleted}, which marks deleted rows",
            "leave it out of partition_by, key and sequence_by",
            where,
        )
