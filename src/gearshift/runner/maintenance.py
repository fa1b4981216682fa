"""Maintains the tables that an app writes, on a schedule, in a background thread."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from gearshift import tables
from gearshift.definitions import Graph, Table
from gearshift.errors import GearshiftError
from gearshift.pipelines.ledger.listing import versions_in_use
from gearshift.settings import Settings
from gearshift.storage.shared_files import write_whole

log = logging.getLogger(__name__)

_CHECK_INTERVAL = 10.0
_RETENTION = timedelta(days=7)


class Maintenance:
    """Compacts and vacuums each table once per `settings.maintenance`, also across restarts; None disables it.

    A failure is logged and retried at the table's next turn; it never stops a pipeline.
    """

    def __init__(self, graph: Graph, settings: Settings) -> None:
        self._tables = written_tables(graph)
        self._warehouse = settings.warehouse_uri
        self._checkpoints = settings.checkpoints_uri
        self._every = settings.maintenance
        self._file = settings.home / "maintenance.json"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def __enter__(self) -> Self:
        if self._every is not None and self._tables:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()  # a running compaction may end with the process: its commit is atomic
        if self._thread.is_alive():
            self._thread.join(timeout=_CHECK_INTERVAL)

    def run_due(self, now: datetime) -> tuple[str, ...]:
        """Maintain the tables that are due, and return their names."""
        done: list[str] = []
        for table in self._tables:
            uri = tables.table_uri(self._warehouse, table.name)
            if self._stopping.is_set() or not tables.exists(uri) or not self._is_due(uri, now):
                continue
            maintain(uri, keep=versions_in_use(self._checkpoints).get(table.name, ()))
            _write_last_run(self._file, uri, now)
            done.append(table.name)
        return tuple(done)

    def _is_due(self, uri: str, now: datetime) -> bool:
        last = _last_runs(self._file).get(uri)
        if last is None:  # a table that is seen for the first time is new
            _write_last_run(self._file, uri, now)
            return False
        return self._every is not None and now - last >= self._every

    def _run(self) -> None:
        while not self._stopping.wait(_CHECK_INTERVAL):
            try:
                self.run_due(datetime.now(UTC))
            except Exception:
                log.exception("table maintenance failed; it is retried at the next turn")


def maintain(uri: str, *, keep: Iterable[int] = ()) -> None:
    """Compact and vacuum a table, except for the versions to keep; a failure is logged."""
    try:
        done = tables.compact(uri)
        removed = tables.vacuum(uri, _RETENTION, keep=keep)
        log.info("%s: compacted %d files to %d, removed %d", uri, done.taken, done.made, len(removed.paths))
    except GearshiftError as error:
        log.warning("%s; retried at the table's next turn", error)


def written_tables(graph: Graph) -> Sequence[Table]:
    """The tables that the app's pipelines write; other tables have another owner."""
    found = {p.target.name: p.target for p in graph.pipelines.values() if isinstance(p.target, Table)}
    return tuple(found.values())


def _last_runs(file: Path) -> dict[str, datetime]:
    try:
        text = file.read_text(encoding="utf-8")
        return {uri: datetime.fromisoformat(at) for uri, at in json.loads(text).items()}
    except (OSError, ValueError, AttributeError):  # a missing or damaged file counts as empty
        return {}


def _write_last_run(file: Path, uri: str, now: datetime) -> None:
    known = {known_uri: at.isoformat() for known_uri, at in _last_runs(file).items()}
    write_whole(file, json.dumps({**known, uri: now.isoformat()}, indent=2))
