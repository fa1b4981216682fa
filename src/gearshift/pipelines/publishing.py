"""Tables shown beside the warehouse: how Spark's Java process reaches Hive's metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gearshift import tables
from gearshift.definitions import Pipeline, Table
from gearshift.errors import CheckError, TableError
from gearshift.location import require_for_delta
from gearshift.pipelines.metastore import JavaMetastore
from gearshift.pipelines.session import end_java, start_java
from gearshift.settings import Settings
from gearshift.stack.java import require_java

if TYPE_CHECKING:
    from gearshift.pipelines.engine import Engine

_HADOOP = "spark.hadoop."


def metastore(settings: Settings, jvm: Any) -> JavaMetastore:
    """The metastore of the settings; it is reached when it is first asked."""
    return JavaMetastore(
        jvm,
        database=settings.hive_database,
        uri=settings.hive_metastore,
        folder=settings.home / "hive",
        properties={
            name.removeprefix(_HADOOP): value
            for name, value in settings.spark.items()
            if name.startswith(_HADOOP)
        },
    )


def publish(engine: Engine, table: Table) -> None:
    """Show the batch that was just committed, if the table is declared so."""
    if table.publish is None:
        return
    if not engine.metastores:
        jvm: Any = engine.spark._jvm  # pyright: ignore[reportPrivateUsage]
        engine.metastores.append(metastore(engine.settings, jvm))
    tables.publish(engine.metastores[0], engine.table_uri(table))


def publish_now(settings: Settings, uri: str) -> tuple[tables.Published, JavaMetastore]:
    """Publish one table, in a Java process of its own and without a Spark session, which takes longer to start."""
    require_java()
    jvm = start_java(settings, log_file=settings.home / "logs" / "spark-hive.log")
    try:
        catalog = metastore(settings, jvm)
        return tables.publish(catalog, uri, whole=True), catalog
    finally:
        end_java()  # who opens an embedded metastore next must not find it locked


def check_publishing(pipeline: Pipeline, settings: Settings) -> None:
    """Refuse, before anything runs, to write a table where it cannot be, or to publish it from there."""
    target, where = pipeline.target, pipeline.defined_at
    if not isinstance(target, Table):
        return
    try:
        require_for_delta(settings.warehouse_uri)
        if target.publish is not None:
            tables.require_linkable(f"{settings.warehouse_uri}/{target.name}")
    except TableError as error:
        raise CheckError(
            error.what, hint=error.hint, pipeline=pipeline.name, file=where.file, line=where.line
        ) from None
