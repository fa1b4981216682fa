"""The merge of a batch with what a table holds, in DuckDB, which goes to the disk where memory ends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

import duckdb

from gearshift.definitions import Table
from gearshift.errors import TableError
from gearshift.tables.partitions import as_text

_MEMORY = "1GB"  # beside Spark, which has the rest
_ROWS_AT_ONCE = 65_536


class Merge:
    """One batch: at first its latest row per key; then, as it meets older facts, those of them that still count."""

    FILE: ClassVar[str] = "gearshift_file"

    def __init__(self, table: Table, incoming: Any) -> None:
        self._table = table
        self._spill = tempfile.TemporaryDirectory(prefix="gearshift-merge-")
        self._duck = duckdb.connect(
            config={
                "python_enable_replacements": "false",
                "memory_limit": _MEMORY,
                "temp_directory": self._spill.name,
                "preserve_insertion_order": "false",
            }
        )
        self._duck.execute("SET TimeZone = 'UTC'")
        self._stored = [name for name in incoming.schema.names if name != table.deleted]
        self._incoming = incoming

    def __enter__(self) -> Self:
        try:
            self._take(self._incoming)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._duck.close()
        self._spill.cleanup()

    def _take(self, incoming: Any) -> None:
        table, duck = self._table, self._duck
        duck.register("incoming", incoming)
        # Delta has no empty partition value: an empty string means null, in Spark's own writes as well.
        texts = [name for name in table.partition_by if str(incoming.schema.field(name).type) == "string"]
        blanks = ", ".join(f"nullif({_id(name)}, '') AS {_id(name)}" for name in texts)
        columns = f"* REPLACE ({blanks})" if blanks else "*"
        if table.order_by:
            order = [f"{_id(name)} DESC NULLS LAST" for name in table.order_by]
            if table.deleted is not None:
                order.append(f"{_id(table.deleted)} DESC NULLS LAST")
            latest = (
                f"QUALIFY row_number() OVER (PARTITION BY {self._keys()} ORDER BY {', '.join(order)}) = 1"
            )
            duck.execute(f"CREATE TEMP TABLE batch AS SELECT {columns} FROM incoming {latest}")
        else:
            duck.execute(f"CREATE TEMP TABLE batch AS SELECT DISTINCT {columns} FROM incoming")
            self._refuse_ties()
        duck.unregister("incoming")
        for name in table.key:
            lacking = self._one(f"SELECT count(*) FROM batch WHERE {_id(name)} IS NULL")
            if lacking:
                raise TableError(
                    f"table {table.name}: {lacking} rows of the batch have no {name}, which is its key",
                    hint=f"filter them out: where {name} is not null",
                )
        gone = _id(table.deleted) if table.deleted is not None else "false"
        duck.execute(
            f"CREATE TEMP VIEW living AS SELECT {self._columns()} FROM batch WHERE NOT coalesce({gone}, false)"
        )
        duck.execute(f"CREATE TEMP TABLE superseded AS SELECT {self._keys()} FROM batch LIMIT 0")

    def _refuse_ties(self) -> None:
        found = self._duck.execute(
            f"SELECT {self._keys()} FROM batch GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
        ).fetchall()
        if found:
            said = ", ".join(f"{name}={value}" for name, value in zip(self._table.key, found[0], strict=True))
            raise TableError(
                f"table {self._table.name}: a batch has several rows with {said}, and nothing says which is the latest",
                hint="declare order_by=, or bring one row per key",
            )

    def counting(self) -> int:
        """How many rows of the batch go into the table."""
        return self._one("SELECT count(*) FROM living")

    def deleting(self) -> int:
        """How many keys the batch deletes."""
        return self._one(f"SELECT count(*) FROM batch WHERE {_id(self._table.deleted or '')}")

    def deletions(self) -> Any:
        """The keys that this batch deletes, with the columns that say when, as Arrow batches."""
        names = ", ".join(_id(name) for name in dict.fromkeys((*self._table.key, *self._table.order_by)))
        assert self._table.deleted is not None
        return self._arrow(
            f"SELECT {names}, epoch_ms(now()) AS gearshift_at FROM batch WHERE {_id(self._table.deleted)}"
        )

    def forget_deleted(self, deletions: Any) -> None:
        """Leave out rows that are no later than a deletion of their key."""
        self._duck.register("deletions", deletions)
        newer = _later("b", "d", self._table.order_by)
        self._duck.execute(
            f"DELETE FROM batch b USING deletions d WHERE {self._same('b', 'd')} AND NOT {newer} "
            f"AND NOT coalesce(b.{_id(self._table.deleted or '')}, false)"
        )
        self._duck.unregister("deletions")

    def touched(self, existing: Any) -> list[int]:
        """The numbers of the files in which a row goes away; rows of the batch older than the table's are left out."""
        duck = self._duck
        duck.execute("DELETE FROM superseded")
        if not self._one("SELECT count(*) FROM batch"):
            return []
        duck.register("existing", existing)
        bounds, values = self._bounds()
        newer = _later("e", "b", self._table.order_by)
        names = ", ".join(f"e.{_id(name)}" for name in self._table.key)
        duck.execute(
            f"CREATE OR REPLACE TEMP TABLE matched AS SELECT {names}, e.{self.FILE} AS file, {newer} AS newer "
            f"FROM existing e JOIN batch b ON {self._same('e', 'b')} WHERE {bounds}",
            values,
        )
        duck.unregister("existing")
        duck.execute(f"DELETE FROM batch b USING matched m WHERE {self._same('b', 'm')} AND m.newer")
        duck.execute(f"INSERT INTO superseded SELECT DISTINCT {self._keys()} FROM matched WHERE NOT newer")
        found = duck.execute("SELECT DISTINCT file FROM matched WHERE NOT newer ORDER BY file").fetchall()
        return [int(row[0]) for row in found]

    def outcome(self, survivors: Any) -> Iterator[tuple[dict[str, str | None], Any]]:
        """The new rows with what stays of the touched files: each partition's values, and its rows as Arrow batches."""
        duck = self._duck
        duck.register("touched", survivors)
        rows = (
            f"SELECT {_list(survivors.schema.names)} FROM touched t "
            f"WHERE NOT EXISTS (FROM superseded s WHERE {self._same('t', 's')}) "
            "UNION ALL BY NAME FROM living"
        )
        if not self._table.partition_by:
            yield {}, self._arrow(rows)
        else:
            duck.execute(f"CREATE OR REPLACE TEMP TABLE merged AS {rows}")
            names = self._table.partition_by
            for values in duck.execute(f"SELECT DISTINCT {_list(names)} FROM merged").fetchall():
                same = " AND ".join(f"{_id(name)} IS NOT DISTINCT FROM ?" for name in names)
                found = self._arrow(f"FROM merged WHERE {same}", values)
                yield {name: as_text(value) for name, value in zip(names, values, strict=True)}, found
            duck.execute("DROP TABLE merged")
        duck.unregister("touched")

    def _bounds(self) -> tuple[str, list[Any]]:
        """The range of the batch's keys, said in constants: with them Arrow skips partitions and row groups."""
        ends = ", ".join(f"min({_id(name)}), max({_id(name)})" for name in self._table.key)
        found = self._duck.execute(f"SELECT {ends} FROM batch").fetchall()[0]
        return " AND ".join(f"e.{_id(name)} BETWEEN ? AND ?" for name in self._table.key), list(found)

    def _same(self, one: str, other: str) -> str:
        return " AND ".join(f"{one}.{_id(name)} = {other}.{_id(name)}" for name in self._table.key)

    def _keys(self) -> str:
        return _list(self._table.key)

    def _columns(self) -> str:
        return _list(self._stored)

    def _arrow(self, query: str, values: Sequence[Any] = ()) -> Any:
        found: Any = self._duck.sql(query, params=list(values)) if values else self._duck.sql(query)
        return found.to_arrow_reader(_ROWS_AT_ONCE)

    def _one(self, query: str) -> int:
        return int(self._duck.execute(query).fetchall()[0][0])


def _later(one: str, other: str, columns: Sequence[str]) -> str:
    """A condition: the first is later by these columns, of which the first that differs decides; null is earliest.

    >>> _later("a", "b", ())
    'false'
    """
    if not columns:
        return "false"
    first, second = f"{one}.{_id(columns[0])}", f"{other}.{_id(columns[0])}"
    rest = _later(one, other, columns[1:])
    return (
        f"(coalesce({first} > {second}, {second} IS NULL AND {first} IS NOT NULL) "
        f"OR ({first} IS NOT DISTINCT FROM {second} AND {rest}))"
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(_id(name) for name in names)


def _id(name: str) -> str:
    """A name as DuckDB quotes it.

    >>> _id('a"b')
    '"a""b"'
    """
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
