"""What a table may say."""

from __future__ import annotations

from gearshift.definitions import Table
from gearshift.rules.declared import wrong


def check_table(table: Table) -> None:
    """Refuse a table whose columns contradict each other."""
    where = table.defined_at
    if table.schema not in ("evolve", "strict"):
        raise wrong(f"table {table.name} has schema={table.schema!r}", "use 'evolve' or 'strict'", where)
    if table.publish not in (None, "hive"):
        raise wrong(f"table {table.name} has publish={table.publish!r}", "use 'hive', or leave it out", where)
    if not table.key and (table.order_by or table.deleted):
        what = "order_by" if table.order_by else "deleted"
        raise wrong(f"table {table.name} has {what} but no key", "name the columns of its key", where)
    for name in (table.partition_by, table.key, table.order_by):
        if len(set(name)) < len(name):
            raise wrong(
                f"table {table.name} names a column twice: {', '.join(name)}", "once is enough", where
            )
    if table.deleted in (*table.key, *table.order_by, *table.partition_by):
        raise wrong(
            f"table {table.name} does not store column {table.deleted}, which says what is deleted",
            "leave it out of partition_by, key and order_by",
            where,
        )
