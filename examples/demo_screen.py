"""The one screen of a demo: redrawn on a terminal, printed now and then where the output is no terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.measure import Measurement
from rich.rule import Rule
from rich.table import Table

from gearshift.cli.listing import number, table

if TYPE_CHECKING:
    from demo_boards import Boards
    from gearshift.runner.runner import Runner

_GAP = 4  # columns between two boards
_MOST_ROWS = 20
_FEWEST_ROWS = 3


class Screen:
    """A title, the boards, the pipelines with their gears and numbers, and what is happening now."""

    def __init__(self, console: Console, title: str) -> None:
        self._runner: Runner | None = None
        self._boards: Boards | None = None
        self._status: dict[str, Any] | None = None
        self._console = console
        self._title = title
        self._now = ""
        self._done: list[str] = []
        self._is_live = console.is_terminal and not console.is_dumb_terminal and sys.stdout.isatty()
        self._live = Live(
            console=console, get_renderable=self._render, refresh_per_second=4, vertical_overflow="crop"
        )

    def __enter__(self) -> Screen:
        if self._is_live:
            self._live.start()
        else:
            self._console.print(self._heading())
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self._live.stop()

    def watch(self, runner: Runner, boards: Boards) -> None:
        """Show a running app and its boards."""
        self._runner, self._boards = runner, boards

    def freeze(self) -> None:
        """Keep the last numbers, since the app is about to stop."""
        if self._runner is not None:
            self._status, self._runner = self._runner.status(), None

    def say(self, message: str, detail: str = "") -> None:
        """Show what is happening now; details only where they can be replaced by the next."""
        self._now = escape(f"{message}: {detail}" if detail else message)
        if not self._is_live and not detail:
            self._console.print(f"  {self._now}")

    def note(self, message: str) -> None:
        """Keep a line about what has happened."""
        self._done.append(message)
        if not self._is_live:
            self._console.print(f"  {message}", soft_wrap=True)

    def snapshot(self) -> None:
        """Print the screen as it is now, where it is not redrawn."""
        if not self._is_live:
            self._console.print(Group("", *self._parts(), ""))

    def _heading(self) -> Rule:
        return Rule(f"[bold]{escape(self._title)}[/]")

    def _render(self) -> RenderableType:
        lines = [f"  {line}" for line in self._done]
        return Group(self._heading(), *self._parts(), *lines, f"  [bold]{self._now}[/]" if self._now else "")

    def _parts(self) -> list[RenderableType]:
        parts: list[RenderableType] = []
        status = self._runner.status() if self._runner is not None else self._status
        if self._boards is not None:
            taken = (
                6 + len(self._done) + (len(status["pipelines"]) + len(status["deliveries"]) if status else 0)
            )
            parts += [*self._arranged(taken), ""]
        if status is not None:
            parts.append(pipelines(status))
            parts += [
                f"  delivery {entry['name']}: {entry['delivered']:,} delivered"
                for entry in status["deliveries"]
            ]
        return parts

    def _arranged(self, taken: int) -> list[RenderableType]:
        """The boards side by side as far as the width allows, with as many rows as the height allows."""
        assert self._boards is not None
        rows = _MOST_ROWS
        while True:
            lines = self._lines(self._boards.shown(rows))
            height = sum(max(shown.row_count for shown in line) + 4 for line in lines)
            if not self._is_live or rows <= _FEWEST_ROWS or height + taken <= self._console.height:
                break
            rows -= 1
        arranged: list[RenderableType] = []
        for line in lines:
            grid = Table.grid(padding=(0, _GAP, 0, 0))
            for _ in line:
                grid.add_column()
            grid.add_row(*line)
            arranged += ["", grid]
        return arranged

    def _lines(self, boards: list[Table]) -> list[list[Table]]:
        lines: list[list[Table]] = []
        room = 0
        for board in boards:
            wide = Measurement.get(self._console, self._console.options, board).maximum + _GAP
            if not lines or wide > room:
                lines.append([])
                room = self._console.width
            lines[-1].append(board)
            room -= wide
        return lines


def pipelines(status: dict[str, Any]) -> Table:
    """Each pipeline's gear, records and latency."""
    shown = table("pipeline", "gear", "state", right=("records in", "records/s", "lag", "p50", "p99"))
    for entry in status["pipelines"]:
        shown.add_row(
            entry["name"],
            f"[bold]{entry['gear']}[/]",
            f"[red]{escape(entry['error'])}[/]" if entry["error"] else entry["state"],
            number(entry["records"]),
            number(entry["records_per_second"]),
            number(entry["lag"]),
            _latency(entry["latency_p50_ms"]),
            _latency(entry["latency_p99_ms"]),
        )
    return shown


def _latency(milliseconds: float | None) -> str:
    """A latency in the unit that people read.

    >>> _latency(38.2), _latency(12_345), _latency(None)
    ('38 ms', '12.3 s', '–')
    """
    if milliseconds is None:
        return "–"
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:,.1f} s"
