"""Upkeep of the tables that an app writes, on a schedule, in a thread beside its pipelines."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from gearshift import tables
from gearshift.definitions import Graph, Table
from gearshift.errors import GearshiftError
from gearshift.settings import Settings

log = logging.getLogger(__name__)

_LOOKS_EVERY = 10.0
_VERSIONS_STAY = timedelta(days=7)


class Maintenance:
    """Compacts and vacuums each table once in `settings.maintenance`, counted over restarts; none does nothing.

    A table that fails is logged and tried again at its next turn: upkeep stops no pipeline.
    """

    def __init__(self, graph: Graph, settings: Settings) -> None:
        self._tables = written_tables(graph)
        self._warehouse = settings.warehouse_uri
        self._every = settings.maintenance
        self._note = settings.home / "maintenance.json"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def __enter__(self) -> Self:
        if self._every is not None and self._tables:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()  # a compaction under way may end with the process: it commits at once or not at all
        if self._thread.is_alive():
            self._thread.join(timeout=_LOOKS_EVERY)

    def run_due(self, now: datetime) -> tuple[str, ...]:
        """Look after the tables whose turn has come, and name them."""
        done: list[str] = []
        for table in self._tables:
            uri = tables.table_uri(self._warehouse, table.name)
            if self._stopping.is_set() or not tables.exists(uri) or not self._is_due(uri, now):
                continue
            look_after(uri)
            _remember(self._note, uri, now)
            done.append(table.name)
        return tuple(done)

    def _is_due(self, uri: str, now: datetime) -> bool:
        last = _remembered(self._note).get(uri)
        if last is None:  # a table that is seen for the first time is young
            _remember(self._note, uri, now)
            return False
        return self._every is not None and now - last >= self._every

    def _run(self) -> None:
        while not self._stopping.wait(_LOOKS_EVERY):
            try:
                self.run_due(datetime.now(UTC))
            except Exception:
                log.exception("the upkeep of tables failed; it goes on at the next turn")


def look_after(uri: str) -> None:
    """Compact a table and vacuum it; what fails is logged."""
    try:
        done = tables.compact(uri)
        gone = tables.vacuum(uri, _VERSIONS_STAY)
        log.info("%s: %d files became %d, %d were removed", uri, done.taken, done.made, len(gone.paths))
    except GearshiftError as error:
        log.warning("%s; tried again at its next turn", error)


def written_tables(graph: Graph) -> Sequence[Table]:
    """The tables that a pipeline of the app writes: others belong to somebody else."""
    found = {p.target.name: p.target for p in graph.pipelines.values() if isinstance(p.target, Table)}
    return tuple(found.values())


def _remembered(note: Path) -> dict[str, datetime]:
    try:
        text = note.read_text(encoding="utf-8")
        return {uri: datetime.fromisoformat(at) for uri, at in json.loads(text).items()}
    except (OSError, ValueError, AttributeError):  # no note, or a broken one, is none
        return {}


def _remember(note: Path, uri: str, now: datetime) -> None:
    known = {place: at.isoformat() for place, at in _remembered(note).items()}
    note.parent.mkdir(parents=True, exist_ok=True)
    fresh = note.with_suffix(".new")
    fresh.write_text(json.dumps({**known, uri: now.isoformat()}, indent=2), encoding="utf-8")
    fresh.replace(note)
