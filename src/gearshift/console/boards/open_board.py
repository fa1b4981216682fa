"""Boards that pages show: each is read once for all pages, from when the first opens it until the last leaves."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

from gearshift.boards import Board, Number
from gearshift.connection import Connection
from gearshift.console.boards.states import State, state_of
from gearshift.console.boards.table_rows import TableRows
from gearshift.console.boards.topic_rows import TopicRows
from gearshift.console.problems import described
from gearshift.definitions import Topic
from gearshift.errors import GearshiftError
from gearshift.settings import Settings

log = logging.getLogger(__name__)

_POLL = timedelta(milliseconds=200)
_SHOW_EVERY = 1.0
_TABLES_EVERY = 2.0
_RETRY_AFTER = 2.0


class OpenBoard:
    """What a board shows, kept up to date by a thread while it is open."""

    def __init__(
        self,
        board: Board,
        timezone: str,
        settings: Settings,
        connection: Connection,
        closing: Callable[[], bool],
    ) -> None:
        """`closing` is whether the server ends, which ends the thread too."""
        self._board = board
        self._connection = connection
        self._closing = closing
        self._zone = ZoneInfo(timezone)
        panels = board.by_name
        self._on_topics = {name: each for name, each in panels.items() if isinstance(each.source, Topic)}
        on_tables = {name: each for name, each in panels.items() if name not in self._on_topics}
        self._tables = TableRows(settings.warehouse_uri, on_tables, self._zone)
        self._on_tables = on_tables
        self._states: dict[str, State] = {}
        self._rows: TopicRows | None = None
        self._dirty: set[str] = set()
        self._shown: dict[str, tuple[int, str]] = {}
        self._due = {"show": 0.0, "tables": 0.0, "topics": 0.0}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"board {board.name}", daemon=True)

    def open(self) -> None:
        """Start reading."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading; the thread ends soon after."""
        self._ended.set()

    @property
    def running(self) -> bool:
        """Whether the board is being read."""
        return self._thread.is_alive()

    def changed_since(self, number: int) -> tuple[int, dict[str, str]]:
        """The panels that changed after a number, each as JSON, and the number of the latest change; 0 is before all."""
        shown = dict(self._shown)
        newest = max((changed for changed, _ in shown.values()), default=number)
        return newest, {name: text for name, (changed, text) in shown.items() if changed > number}

    def _run(self) -> None:
        try:
            while not self._ended.is_set() and not self._closing():
                try:
                    self._read_topics()
                    self._read_tables()
                    self._show_changes()
                except Exception:
                    log.warning("board %s", self._board.name, exc_info=True)
                    self._ended.wait(_RETRY_AFTER)
        finally:
            self._close_topics()

    def _read_topics(self) -> None:
        if not self._on_topics or not self._is_due("topics"):
            self._ended.wait(_POLL.total_seconds())
            return
        try:
            if self._rows is None:
                self._states = {name: state_of(panel, self._zone) for name, panel in self._on_topics.items()}
                pairs = {name: (panel, self._states[name]) for name, panel in self._on_topics.items()}
                self._rows = TopicRows(self._connection, pairs, self._zone)
                self._dirty |= set(self._on_topics)
            self._dirty |= self._rows.poll(_POLL)
        except GearshiftError as error:
            self._close_topics()
            self._states = {}
            self._due["topics"] = monotonic() + _RETRY_AFTER
            self._show_error(self._on_topics, error)

    def _read_tables(self) -> None:
        if not self._on_tables or not self._is_due("tables"):
            return
        for name in self._on_tables:
            try:
                data = self._tables.refresh(name)
            except GearshiftError as error:
                self._show_error([name], error)
            else:
                if data is not None:
                    self._show(name, data)
        self._due["tables"] = monotonic() + _TABLES_EVERY

    def _show_changes(self) -> None:
        if self._rows is None or not self._is_due("show"):
            return
        of_today = {name for name, each in self._on_topics.items() if isinstance(each, Number) and each.today}
        for name in self._dirty | of_today:
            data = self._states[name].data()
            skipped = self._rows.skipped_for(self._on_topics[name])
            self._show(name, {**data, "skipped": skipped} if skipped else data)
        self._dirty = set()
        self._due["show"] = monotonic() + _SHOW_EVERY

    def _show_error(self, names: Iterable[str], error: GearshiftError) -> None:
        for name in names:
            self._show(name, {"error": described(error)})

    def _show(self, name: str, data: dict[str, Any]) -> None:
        text = json.dumps(data, allow_nan=False)
        if name not in self._shown or self._shown[name][1] != text:
            newest = max((number for number, _ in self._shown.values()), default=0)
            self._shown = {**self._shown, name: (newest + 1, text)}

    def _is_due(self, what: str) -> bool:
        return monotonic() >= self._due[what]

    def _close_topics(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()


class OpenBoards:
    """The boards that at least one page shows."""

    def __init__(
        self, timezone: str, settings: Settings, connection: Connection, closing: Callable[[], bool]
    ) -> None:
        self._given = (timezone, settings, connection, closing)
        self._lock = threading.Lock()
        self._open: dict[str, OpenBoard] = {}
        self._pages: dict[str, int] = {}

    def join(self, board: Board) -> OpenBoard:
        """A page opens a board: the first one starts its reading."""
        with self._lock:
            found = self._open.get(board.name)
            if found is None:
                found = self._open[board.name] = OpenBoard(board, *self._given)
                found.open()
            self._pages[board.name] = self._pages.get(board.name, 0) + 1
            return found

    def leave(self, board: Board) -> None:
        """A page leaves a board: the last one ends its reading."""
        with self._lock:
            self._pages[board.name] -= 1
            if not self._pages[board.name]:
                del self._pages[board.name]
                self._open.pop(board.name).close()
