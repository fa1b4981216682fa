"""The boards of a demo's screen: the last value per key of a topic, and the rows of a warehouse query, kept live."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from gearshift import tables
from gearshift.cli.listing import plain
from gearshift.errors import DecodeError, DefinitionError, GearshiftError, TableError
from gearshift.schemas import Decoder, Registry
from gearshift.topics import tail

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Topic

_POLL = timedelta(milliseconds=200)
_QUERY_EVERY = 2.0  # seconds
_ROWS_KEPT = 10


@dataclass(frozen=True)
class Board:
    """The last value per key of a topic. Rows are sorted by `order`, or without it the newest first.

    `columns` and `key` name fields of the topic's dataclass; a dot names a field of a field.
    """

    title: str
    topic: str | Topic
    columns: tuple[str, ...]
    key: str | tuple[str, ...]
    order: Callable[[Any], Any] | None = None
    rows: int = _ROWS_KEPT

    @property
    def topic_name(self) -> str:
        """The name of its topic."""
        return self.topic if isinstance(self.topic, str) else self.topic.name

    def key_of(self, value: Any) -> tuple[Any, ...]:
        """The key of a value."""
        names = (self.key,) if isinstance(self.key, str) else self.key
        return tuple(field(value, name) for name in names)


@dataclass(frozen=True)
class SqlBoard:
    """The rows of a query over the warehouse."""

    title: str
    query: str
    rows: int = _ROWS_KEPT


class Boards:
    """Reads what the boards show, from entering the context until leaving it."""

    def __init__(
        self,
        boards: Sequence[Board | SqlBoard],
        connection: Connection,
        topics: Mapping[str, Topic],
        warehouse_uri: str,
    ) -> None:
        self._boards = boards
        self._connection = connection
        self._topics = topics_of(boards, topics)
        self._warehouse = warehouse_uri
        self._values: dict[int, dict[Any, Any]] = {number: {} for number in range(len(boards))}
        self._answers: dict[int, tables.Answer] = {}
        self._problems: dict[int, str] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(work,), daemon=True)
            for work, wanted in ((self._follow, Board), (self._query, SqlBoard))
            if any(isinstance(board, wanted) for board in boards)
        ]

    def __enter__(self) -> Boards:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(10)

    @property
    def filled(self) -> bool:
        """Whether every board has a row."""
        with self._lock:
            return all(
                self._values[number] if isinstance(board, Board) else self._rows_of(number)
                for number, board in enumerate(self._boards)
            )

    @property
    def started(self) -> bool:
        """Whether a board has a row."""
        with self._lock:
            return any(self._values.values()) or any(answer.rows for answer in self._answers.values())

    @property
    def problem(self) -> str | None:
        """What keeps a board from being read."""
        with self._lock:
            return next(iter(self._problems.values()), None)

    def shown(self, most: int) -> list[Table]:
        """The boards as tables, with at most so many rows each."""
        with self._lock:
            return [
                self._topic_table(number, board, most)
                if isinstance(board, Board)
                else self._query_table(number, board, most)
                for number, board in enumerate(self._boards)
            ]

    def _rows_of(self, number: int) -> tuple[Any, ...]:
        return self._answers[number].rows if number in self._answers else ()

    def _topic_table(self, number: int, board: Board, most: int) -> Table:
        values = list(self._values[number].values())
        ordered = values[::-1] if board.order is None else sorted(values, key=board.order)
        rows = [[field(value, name) for name in board.columns] for value in ordered[: min(most, board.rows)]]
        return _table(board.title, board.columns, rows, more=len(values) - len(rows))

    def _query_table(self, number: int, board: SqlBoard, most: int) -> Table:
        answer = self._answers.get(number)
        rows = self._rows_of(number)[: min(most, board.rows)]
        return _table(
            board.title, answer.columns if answer else (), rows, more=len(self._rows_of(number)) - len(rows)
        )

    def _watch(self, work: Callable[[], None]) -> None:
        try:
            work()
        except GearshiftError as error:
            if not self._closing.is_set():  # the servers may stop first
                with self._lock:
                    self._problems[-1] = error.summary

    def _follow(self) -> None:
        of_topic: dict[str, list[tuple[int, Board]]] = {}
        for number, board in enumerate(self._boards):
            if isinstance(board, Board):
                of_topic.setdefault(board.topic_name, []).append((number, board))
        with (
            Registry(self._connection) as registry,
            tail(self._connection, list(of_topic), from_beginning=True) as records,
        ):
            decoders = {name: Decoder(topic, registry) for name, topic in self._topics.items()}
            while not self._closing.is_set():
                for record in records.poll(_POLL):
                    try:
                        value = decoders[record.topic](record.value)
                    except DecodeError:
                        continue  # the pipeline makes it a dead letter
                    with self._lock:
                        for number, board in of_topic[record.topic]:
                            values, key = self._values[number], board.key_of(value)
                            values.pop(key, None)  # the newest is the last
                            values[key] = value

    def _query(self) -> None:
        while True:
            for number, board in enumerate(self._boards):
                if isinstance(board, SqlBoard):
                    self._ask(number, board)
            if self._closing.wait(_QUERY_EVERY):
                return

    def _ask(self, number: int, board: SqlBoard) -> None:
        try:
            answer = tables.sql(self._warehouse, board.query)
        except TableError as error:
            # A table exists once its first batch is committed; and maintenance may remove files under a query.
            transient = ("does not exist", "no longer exist", "no tables")
            with self._lock:
                if not any(words in f"{error.what} {error.hint}" for words in transient):
                    self._problems[number] = f"{board.title}: {error.what.splitlines()[0]}"
            return
        with self._lock:
            self._answers[number] = answer
            self._problems.pop(number, None)


def field(value: Any, name: str) -> Any:
    """A field of a value, or of its field.

    >>> field(datetime(2026, 1, 2), "day")
    2
    """
    for part in name.split("."):
        value = None if value is None else getattr(value, part)
    return value


def text(value: Any) -> str:
    """A value as a cell of a table.

    >>> text(12345), text(1.5), text(None), text(["a", "b"]), text(datetime(2026, 1, 2, 3, 4, 5))
    ('12,345', '1.50', '–', 'a, b', '2026-01-02 03:04:05')
    >>> text(Decimal("1182.50000000")), text(Decimal("0.41250000")), text(Decimal("7"))
    ('1,182.50', '0.4125', '7')
    """
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case Decimal():
            whole, dot, places = f"{value:,f}".partition(".")
            return whole + dot + places.rstrip("0").ljust(min(2, len(places)), "0")
        case float():
            return f"{value:,.2f}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case date():
            return value.isoformat()
        case list() | tuple():
            return ", ".join(map(text, value))
        case _ if dataclasses.is_dataclass(value):
            return " ".join(text(getattr(value, each.name)) for each in dataclasses.fields(value))
        case _:
            return plain(str(value))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, more: int) -> Table:
    table = Table(
        title=f"[bold]{plain(title)}[/]",
        title_justify="left",
        title_style="",
        min_width=len(title),
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    if not rows:
        table.add_column("[dim]nothing yet[/]")
        return table
    for place, column in enumerate(columns):
        cells = [row[place] for row in rows]
        numbers = all(isinstance(cell, int | float | Decimal | None) for cell in cells)
        table.add_column(
            column.rpartition(".")[2].replace("_", " "),
            justify="right" if numbers else "left",
            # In a narrow terminal texts are cut off, and never a number or a time.
            no_wrap=all(isinstance(cell, int | float | Decimal | date | None) for cell in cells),
        )
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    if more:
        table.caption, table.caption_justify, table.caption_style = f"and {more:,} more", "left", "dim"
    return table


def _cell(value: Any) -> Text:
    """A value on one line."""
    return Text(no_wrap=True, overflow="ellipsis").append_text(Text.from_markup(text(value)))


def topics_of(boards: Sequence[Board | SqlBoard], topics: Mapping[str, Topic]) -> dict[str, Topic]:
    """The topics that boards show; raises if one or one of its fields does not exist."""
    return {board.topic_name: _topic(board, topics) for board in boards if isinstance(board, Board)}


def _topic(board: Board, topics: Mapping[str, Topic]) -> Topic:
    topic = topics.get(board.topic_name)
    if topic is None:
        raise DefinitionError(
            f"the board {board.title!r} shows an unknown topic {board.topic_name!r}",
            hint=f"use one of {', '.join(topics)}",
        )
    known = {each.name for each in dataclasses.fields(topic.value)}
    keys = (board.key,) if isinstance(board.key, str) else board.key
    for name in (*board.columns, *keys):
        if name.partition(".")[0] not in known:
            raise DefinitionError(
                f"the board {board.title!r} shows {name!r}, which {topic.value.__name__} does not have",
                hint=f"use one of {', '.join(sorted(known))}",
            )
    return topic
