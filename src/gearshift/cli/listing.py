"""Plain tables of names and numbers for commands that list something."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def table(*left: str, right: Sequence[str] = ()) -> Table:
    """A table without borders: left-aligned columns, then right-aligned ones."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in left:
        made.add_column(column)
    for column in right:
        made.add_column(column, justify="right")
    return made


def plain(text: str | None) -> str:
    """External text without markup and control characters.

    >>> plain("[red]a\\x1b[0m")
    '\\\\[red]a\\\\x1b[0m'
    """
    return escape("".join(char if char.isprintable() else repr(char)[1:-1] for char in text or ""))


def number(value: float | None) -> str:
    """A number with thousands separators, or a dash.

    >>> number(12345), number(None)
    ('12,345', '–')
    """
    return "–" if value is None else f"{value:,}"


def wide_console() -> Console:
    """A console that does not truncate lines when the output is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=240)
