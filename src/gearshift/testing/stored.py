"""Tables of a test: rows written before and between runs, and what a pipeline wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gearshift import tables
from gearshift.definitions import Graph, Table
from gearshift.testing.frames import frame_of_rows, values_of
from gearshift.testing.transforming import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRITER = "gearshift.testing"


class TableRows:
    """The rows of one table, all of the same columns however they are written in parts."""

    def __init__(self, spark: SparkSession, graph: Graph, table: Table, rows: Sequence[Any]) -> None:
        self._spark = spark
        self._table = table
        self._columns: Any = frame_of_rows(spark, table.name, rows, columns_of(spark, graph, table)).schema
        self._parts = 0

    def write(self, uri: str, rows: Sequence[Any]) -> None:
        """Add rows to the table, or to a table with a key upsert them."""
        frame = frame_of_rows(self._spark, self._table.name, rows, self._columns)
        if self._table.key:
            tables.upsert(self._table, uri, frame, writer=_WRITER, batch_id=self._parts, in_order=True)
        else:
            tables.append(self._table, uri, frame, writer=_WRITER, batch_id=self._parts)
        self._parts += 1


def rows_of(spark: SparkSession, uri: str) -> list[dict[str, Any]]:
    """The rows of a table as dicts; none if it was never written."""
    return values_of(tables.load(spark, uri), None) if tables.exists(uri) else []
