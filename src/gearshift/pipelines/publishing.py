"""Tables shown beside the warehouse: how Spark's Java process reaches Hive's metastore."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from gearshift import tables
from gearshift.definitions import Pipeline, Table
from gearshift.errors import CheckError, TableError
from gearshift.location import require_for_delta
from gearshift.pipelines.metastore import JavaMetastore
from gearshift.pipelines.session import end_java, start_java
from gearshift.settings import Settings
from gearshift.stack.java import require_java

log = logging.getLogger(__name__)

_HADOOP = "spark.hadoop."
_LONGEST_WAIT = 30.0
_CLOSES_WITHIN = 10.0


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


class Publisher:
    """Shows committed batches to the readers of Hive.

    The rows are in the table before it is asked, so a metastore that is down or refuses fails no batch: what it did
    not take is reported, and tried again in a thread until it does.
    """

    def __init__(self, settings: Settings, jvm: Callable[[], Any]) -> None:
        self._settings = settings
        self._jvm = jvm
        self._metastore: JavaMetastore | None = None
        self._waiting: dict[str, TableError] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def publish(self, table: Table) -> None:
        """Show the batch that was just committed, if the table is declared so."""
        if table.publish is None or table.name in self._waiting:
            return
        try:
            self._show(table.name)
        except TableError as error:
            log.warning("%s: committed, but not shown in Hive yet: %s; trying again", table.name, error)
            self._try_later(table.name, error)

    def problem(self, table: str) -> str | None:
        """Why Hive does not show what is in a table; None if it does."""
        error = self._waiting.get(table)
        return f"committed, but not shown in Hive yet: {error}" if error is not None else None

    def close(self) -> None:
        """Try no more: the next batch, or `gearshift table publish`, shows all that was committed."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=_CLOSES_WITHIN)

    def _show(self, name: str) -> None:
        with self._lock:
            if self._metastore is None:
                self._metastore = metastore(self._settings, self._jvm())
            tables.publish(self._metastore, f"{self._settings.warehouse_uri}/{name}")

    def _try_later(self, name: str, error: TableError) -> None:
        with self._lock:
            self._waiting[name] = error
            if self._thread is None:
                self._thread = threading.Thread(target=self._try_again, name="hive", daemon=True)
                self._thread.start()

    def _try_again(self) -> None:
        wait = 1.0
        while not self._closing.wait(wait):
            wait = min(wait * 2, _LONGEST_WAIT)
            for name in list(self._waiting):
                try:
                    self._show(name)
                    del self._waiting[name]
                    self._show(name)  # a batch that was committed in between was left to us
                    log.warning("%s: shown in Hive again", name)
                except TableError as error:
                    self._waiting[name] = error
                except Exception:
                    log.exception("%s: not shown in Hive", name)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return


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
