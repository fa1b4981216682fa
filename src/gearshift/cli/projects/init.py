"""`gearshift init`: a project of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gearshift.cli.output import say


def init(
    name: Annotated[
        Path | None,
        typer.Argument(
            help="The project's name, or its folder; default: the current folder.", show_default=False
        ),
    ] = None,
    story: Annotated[
        str | None,
        typer.Option(help="Begin with this story; gearshift demo --list names them.", show_default=False),
    ] = None,
) -> None:
    """Create a project that runs at once: an app, a test, settings, and a CI file, in an empty folder."""
    from gearshift.cli.projects.installed import installed
    from gearshift.cli.projects.skeleton import Project, create
    from gearshift.cli.projects.stories import find_story

    chosen = find_story(story) if story is not None else None
    project = Project.of(name, chosen)
    source = installed()
    create(project, source)
    say(f"created {project.name} in {project.folder}\n")
    if name is not None:
        typer.echo(f"cd {_quoted(name)}")
    steps = [
        (f"gearshift run {project.module}.py", "until Ctrl-C; in another terminal: gearshift status"),
        (f'{_pip()} install -e ".[dev]"', "pytest, and this project as a package"),
        ("pytest", "the tests"),
    ]
    if chosen is not None:
        steps.insert(0, ("python demo.py", "the story on one screen, to its end"))
    width = max(len(command) for command, _ in steps)
    for command, what in steps:
        typer.echo(f"{command:<{width}}  # {what}")
    if source.is_local:
        say(
            f"\nnote: gearshift is installed from {source.url}, which only this machine has; see pyproject.toml"
        )


def _pip() -> str:
    """The installer of this environment; those made by uv have no pip."""
    from importlib.util import find_spec

    return "pip" if find_spec("pip") is not None else "uv pip"


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))
