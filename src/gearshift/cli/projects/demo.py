"""`gearshift demo`: runs a story that ships with the package."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gearshift.cli.output import say

if TYPE_CHECKING:
    from gearshift.cli.projects.stories import Story

DEFAULT = "smart_meter"


def demo(
    story: Annotated[str, typer.Argument(help="The story, by name.")] = DEFAULT,
    listed: Annotated[bool, typer.Option("--list", help="List the stories.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the app running until Ctrl-C.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="The demo's data folder; one under .gearshift by default.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A data file to read instead of simulating, for stories with a loader."
        ),
    ] = None,
) -> None:
    """Run a story: a small complete app on one screen, from its first record to the ledger's proof."""
    from gearshift.cli.projects.stories import find_stories, find_story

    if listed:
        _list(find_stories().values())
        return
    chosen = find_story(story)
    require_extras(chosen)
    script = chosen.demo
    words = [
        *(["--keep"] if keep else []),
        *(["--folder", str(folder)] if folder is not None else []),
        *(["--data", str(data)] if data is not None else []),
    ]
    say(f"running {script.parent.name} from {script.parent}")
    # In place of this process: signals and the exit code are the demo's own.
    os.execv(sys.executable, [sys.executable, str(script), *words])


def require_extras(story: Story) -> None:
    """Raise if the packages of an extra that a story uses are not installed."""
    if story.missing_extras:
        from gearshift.cli.projects.installed import installed
        from gearshift.errors import MachineError

        raise MachineError(
            f"the story {story.name} needs {', '.join(story.missing_extras)}, which is not installed",
            hint=f'pip install "{installed().requirement(story.missing_extras)}"',
        )


def _list(stories: Iterable[Story]) -> None:
    from gearshift.cli.listing import plain, table, wide_console

    shown = table("story", "what it shows")
    for each in stories:
        shown.add_row(each.name, plain(each.summary))
    wide_console().print(shown)
