"""Plain tables of names and numbers, for every command that lists something."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def table(*left: str, right: Sequence[str] = ()) -> Table:
    """A table without lines: first the columns of words, then those of numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in left:
        made.add_column(column)
    for column in right:
        made.add_column(column, justify="right")
    return made


def plain(words: str | None) -> str:
    """Words from elsewhere as they are: no markup, and no control character reaches the terminal.

    >>> plain("[red]a\\x1b[0m")
    '\\\\[red]a\\\\x1b[0m'
    """
    return escape("".join(char if char.isprintable() else repr(char)[1:-1] for char in words or ""))


def number(value: float | None) -> str:
    """A number with thousands apart, or a dash.

    >>> number(12345), number(None)
    ('12,345', '–')
    """
    return "–" if value is None else f"{value:,}"


def wide_console() -> Console:
    """A console that cuts nothing off where there is no terminal to be too narrow."""
    console = Console()
    return console if console.is_terminal else Console(width=240)
