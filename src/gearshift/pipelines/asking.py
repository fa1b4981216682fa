"""One question to the warehouse through Spark, in a session of its own."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException

from gearshift import tables
from gearshift.definitions import Graph
from gearshift.errors import TableError
from gearshift.pipelines.session import open_session
from gearshift.settings import Settings
from gearshift.stack.java import require_java


def ask_spark(settings: Settings, query: str) -> tables.Answer:
    """The answer of Spark SQL over the tables that the query names; it takes Spark's start, some ten seconds."""
    require_java()
    known = tables.names(settings.warehouse_uri)
    log_file = settings.home / "logs" / "spark-sql.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    spark = open_session(Graph(app="gearshift-sql", timezone="UTC"), settings, (), log_file=log_file)
    try:
        for name in known:
            if re.search(rf"\b{re.escape(name)}\b", query, re.IGNORECASE):
                uri = tables.table_uri(settings.warehouse_uri, name)
                tables.load(spark, uri).createOrReplaceTempView(name)
        frame = spark.sql(query)
        rows: list[Any] = frame.collect()
        return tables.Answer(
            columns=tuple(frame.columns),
            types=tuple(kind for _, kind in frame.dtypes),
            rows=tuple(tuple(row) for row in rows),
        )
    except PySparkException as error:
        raise TableError(
            f"the query failed: {str(error).splitlines()[0]}",
            hint=f"the tables are {', '.join(known) or 'none'}",
        ) from error
    finally:
        spark.stop()
