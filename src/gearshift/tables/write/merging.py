"""Merges a batch with the rows of a table in DuckDB, which spills to disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

import duckdb

from gearshift.definitions import Table
from gearshift.errors import InvalidRowsError, TableError
from gearshift.tables.partitions import as_text

_MEMORY = "1GB"  # Spark needs the rest
_ROWS_AT_ONCE = 65_536


class Merge:
    """One batch, reduced to the latest row per key, and then to rows that are newer than the table's."""

    FILE: ClassVar[str] = "gearshift_file"
    ROW: ClassVar[str] = "gearshift_row"
    """A column of the batch that is not stored: the position of a row, if the batch is ordered."""

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
        self._stored = [name for name in incoming.schema.names if name not in (table.deleted, self.ROW)]
        self._incoming = incoming

    def __enter__(self) -> Self:
        try:
            self._load(self._incoming)
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

    def _load(self, incoming: Any) -> None:
        table, duck = self._table, self._duck
        duck.register("incoming", incoming)
        # Delta has no empty partition value: an empty string means null, also when Spark writes.
        texts = [name for name in table.partition_by if str(incoming.schema.field(name).type) == "string"]
        blanks = ", ".join(f"nullif({_id(name)}, '') AS {_id(name)}" for name in texts)
        ordered = self.ROW in incoming.schema.names
        columns = f"*{f' EXCLUDE ({self.ROW})' if ordered else ''}{f' REPLACE ({blanks})' if blanks else ''}"
        if table.sequence_by or ordered:
            order = [f"{_id(name)} DESC NULLS LAST" for name in table.sequence_by or (self.ROW,)]
            if table.deleted is not None:
                order.append(f"{_id(table.deleted)} DESC NULLS LAST")
            latest = (
                f"QUALIFY row_number() OVER (PARTITION BY {self._keys()} ORDER BY {', '.join(order)}) = 1"
            )
            duck.execute(f"CREATE TEMP TABLE batch AS SELECT {columns} FROM incoming {latest}")
        else:
            duck.execute(f"CREATE TEMP TABLE batch AS SELECT DISTINCT {columns} FROM incoming")
            self._require_one_row_per_key()
        duck.unregister("incoming")
        for name in table.key:
            missing = self._one(f"SELECT count(*) FROM batch WHERE {_id(name)} IS NULL")
            if missing:
                raise InvalidRowsError(
                    f"table {table.name}: {missing} rows of the batch have no value in the key column {name}",
                    hint=f"filter them out: where {name} is not null",
                )
        deleted = _id(table.deleted) if table.deleted is not None else "false"
        duck.execute(
            f"CREATE TEMP VIEW live AS SELECT {self._columns()} FROM batch WHERE NOT coalesce({deleted}, false)"
        )
        duck.execute(f"CREATE TEMP TABLE superseded AS SELECT {self._keys()} FROM batch LIMIT 0")

    def _require_one_row_per_key(self) -> None:
        found = self._duck.execute(
            f"SELECT {self._keys()}, count(*) FROM batch GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
        ).fetchall()
        if found:
            *values, rows = found[0]
            key = ", ".join(f"{name}={value}" for name, value in zip(self._table.key, values, strict=True))
            raise TableError(
                f"table {self._table.name}: the batch has {rows} different rows with {key}, "
                "and no order to choose the latest",
                hint="declare sequence_by=, or write one row per key",
            )

    def counting(self) -> int:
        """The number of rows of the batch that go into the table."""
        return self._one("SELECT count(*) FROM live")

    def deleting(self) -> int:
        """The number of keys that the batch deletes."""
        return self._one(f"SELECT count(*) FROM batch WHERE {_id(self._table.deleted or '')}")

    def deletions(self) -> Any:
        """The keys that this batch deletes, with their order columns, as Arrow batches."""
        names = ", ".join(_id(name) for name in dict.fromkeys((*self._table.key, *self._table.sequence_by)))
        assert self._table.deleted is not None
        return self._arrow(
            f"SELECT {names}, epoch_ms(now()) AS gearshift_at FROM batch WHERE {_id(self._table.deleted)}"
        )

    def forget_deleted(self, deletions: Any) -> None:
        """Drop rows that are not later than a deletion of their key."""
        self._duck.register("deletions", deletions)
        newer = _later("b", "d", self._table.sequence_by)
        self._duck.execute(
            f"DELETE FROM batch b USING deletions d WHERE {self._same('b', 'd')} AND NOT {newer} "
            f"AND NOT coalesce(b.{_id(self._table.deleted or '')}, false)"
        )
        self._duck.unregister("deletions")

    def touched(self, existing: Any) -> list[int]:
        """The numbers of the files with rows to replace; drops rows of the batch that are older than the table's."""
        duck = self._duck
        duck.execute("DELETE FROM superseded")
        if not self._one("SELECT count(*) FROM batch"):
            return []
        duck.register("existing", existing)
        bounds, values = self._bounds()
        newer = _later("e", "b", self._table.sequence_by)
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
        """The new rows and the remaining rows of touched files: partition values, and rows as Arrow batches."""
        duck = self._duck
        duck.register("touched", survivors)
        rows = (
            f"SELECT {_list(survivors.schema.names)} FROM touched t "
            f"WHERE NOT EXISTS (FROM superseded s WHERE {self._same('t', 's')}) "
            "UNION ALL BY NAME FROM live"
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
        """A condition with the range of the batch's keys, with which Arrow skips partitions and row groups."""
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
    """A condition: `one` is later than `other` by the first of these columns that differs; null is earliest.

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
    """A name quoted for DuckDB.

    >>> _id('a"b')
    '"a""b"'
    """
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
