"""Publishes tables to Hive's metastore."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from gearshift import tables
from gearshift.definitions import Pipeline, Table
from gearshift.errors import CheckError, TableError
from gearshift.settings import Settings
from gearshift.spark.hive.metastore import JavaMetastore
from gearshift.spark.session import end_java, start_java
from gearshift.stack.artifacts.java import require_java
from gearshift.storage.location import require_for_delta

log = logging.getLogger(__name__)

_HADOOP = "spark.hadoop."
_LONGEST_WAIT = 30.0
_CLOSES_WITHIN = 10.0


def metastore(settings: Settings, jvm: Any) -> JavaMetastore:
    """The metastore of the settings; it connects on first use."""
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
    """Publishes committed batches to Hive.

    The rows are already in the table, so an unavailable metastore does not fail a batch: the error is reported, and a
    thread retries until the metastore accepts the table.
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
        """Publish the batch that was just committed, if the table is declared with `publish`."""
        if table.publish is None or table.name in self._waiting:
            return
        try:
            self._publish(table.name)
        except TableError as error:
            log.warning("%s: committed, but not published to Hive yet: %s; retrying", table.name, error)
            self._retry_later(table.name, error)

    def problem(self, table: str) -> str | None:
        """Why Hive does not have a table's latest version; None if it does."""
        error = self._waiting.get(table)
        return f"committed, but not published to Hive yet: {error}" if error is not None else None

    def close(self) -> None:
        """Stop retrying: the next batch, or `gearshift table publish`, publishes all that was committed."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=_CLOSES_WITHIN)

    def _publish(self, name: str) -> None:
        with self._lock:
            if self._metastore is None:
                self._metastore = metastore(self._settings, self._jvm())
            tables.publish(self._metastore, f"{self._settings.warehouse_uri}/{name}")

    def _retry_later(self, name: str, error: TableError) -> None:
        with self._lock:
            self._waiting[name] = error
            if self._thread is None:
                self._thread = threading.Thread(target=self._retry, name="hive", daemon=True)
                self._thread.start()

    def _retry(self) -> None:
        wait = 1.0
        while not self._closing.wait(wait):
            wait = min(wait * 2, _LONGEST_WAIT)
            for name in list(self._waiting):
                try:
                    self._publish(name)
                    del self._waiting[name]
                    self._publish(name)  # a batch committed meanwhile was left to this thread
                    log.warning("%s: published to Hive again", name)
                except TableError as error:
                    self._waiting[name] = error
                except Exception:
                    log.exception("%s: not published to Hive", name)
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return


def publish_now(settings: Settings, uri: str) -> tuple[tables.Published, JavaMetastore]:
    """Publish one table from a new Java process, without a Spark session, which takes longer to start."""
    require_java()
    jvm = start_java(settings, log_file=settings.home / "logs" / "spark-hive.log")
    try:
        catalog = metastore(settings, jvm)
        return tables.publish(catalog, uri, whole=True), catalog
    finally:
        end_java()  # or the next process would find an embedded metastore locked


def check_publishing(pipeline: Pipeline, settings: Settings) -> None:
    """Raise, before anything runs, if a table cannot be written to the warehouse or published from it."""
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
