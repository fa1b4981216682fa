"""Runs one SQL query over the warehouse in a new Spark session."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from gearshift import tables
from gearshift.definitions import Graph
from gearshift.errors import TableError
from gearshift.settings import Settings
from gearshift.spark.session import open_session, store_jars
from gearshift.stack.artifacts.java import require_java


def ask_spark(settings: Settings, query: str, *, as_of: datetime | None = None) -> tables.Answer:
    """The result of a Spark SQL query over the tables that it names; starting Spark takes about ten seconds.

    `orders@v3` and `as_of` select old versions as in `tables.sql`, and values have the same Python types.
    """
    require_java()
    known = tables.names(settings.warehouse_uri)
    log_file = settings.home / "logs" / "spark-sql.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    spark = open_session(
        Graph(app="gearshift-sql", timezone="UTC"), settings, store_jars(settings), log_file=log_file
    )
    try:
        frame = spark.sql(_show(spark, settings, query, known, as_of))
        rows: list[Any] = frame.collect()
        kinds = [field.dataType for field in frame.schema.fields]
        return tables.Answer(
            columns=tuple(frame.columns),
            types=tuple(kind for _, kind in frame.dtypes),
            rows=tuple(
                tuple(_plain(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in rows
            ),
        )
    except PySparkException as error:
        raise TableError(
            f"the query failed: {str(error).splitlines()[0]}",
            hint=f"the tables are {', '.join(known) or 'none'}",
        ) from error
    finally:
        spark.stop()


def _show(
    spark: SparkSession, settings: Settings, query: str, known: tuple[str, ...], as_of: datetime | None
) -> str:
    """Register the tables that a query names as views; returns the query in Spark's dialect."""
    query, versions = tables.travels(query, known, quote="`")
    for name in known:
        if re.search(rf"\b{re.escape(name)}\b", query, re.IGNORECASE):
            uri = tables.table_uri(settings.warehouse_uri, name)
            version = tables.version_at(uri, as_of) if as_of is not None else None
            tables.load(spark, uri, version=version).createOrReplaceTempView(f"`{name}`")
    for name, version in versions:
        uri = tables.table_uri(settings.warehouse_uri, name)
        tables.load(spark, uri, version=version).createOrReplaceTempView(f"`{name}@v{version}`")
    return query


def _plain(value: Any, kind: DataType) -> Any:
    """A value as DuckDB gives it: instants in UTC, structs as dictionaries."""
    if value is None:
        return None
    if isinstance(kind, TimestampType):
        return value.astimezone(
            UTC
        )  # Spark's Python side gives them in this machine's zone, without saying so
    if isinstance(kind, ArrayType):
        return [_plain(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return {_plain(key, kind.keyType): _plain(each, kind.valueType) for key, each in value.items()}
    if isinstance(kind, StructType) and isinstance(value, Row):
        return {field.name: _plain(value[field.name], field.dataType) for field in kind.fields}
    return bytes(value) if isinstance(value, bytearray) else value
