"""Write docs/stories.md: every story of `gearshift demo --list`, in the words of its own modules.

python tools/stories.py           print the page
python tools/stories.py --write   write it
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from gearshift.cli.projects.stories import Story, find_stories

PAGE = Path(__file__).resolve().parents[1] / "docs" / "stories.md"
INTRODUCTION = """\
# Stories

Small, complete applications that ship with Gearshift: each is one file of declarations, fed by a simulator with the
awkwardness of the real thing, and its results are compared with an independent answer in plain Python.
`gearshift demo --list` lists them, `gearshift demo STORY` runs one on one screen, and `gearshift init NAME --story STORY`
makes a project of your own from it.

This page is generated from the stories' own docstrings by `tools/stories.py`; a test compares them.
"""


def generate() -> str:
    """The page, as the stories describe themselves now."""
    stories = find_stories().values()
    rows = [f"| [{each.name}](#{each.name}) | {each.summary} |" for each in stories]
    parts = [INTRODUCTION, "\n".join(["| story | what it shows |", "|---|---|", *rows]) + "\n"]
    return "\n".join([*parts, *map(_section, stories)])


def _section(story: Story) -> str:
    lines = [f"## {story.name}", "", _docstring(story.app), "", "```shell", f"gearshift demo {story.name}"]
    loader = story.folder / "loader.py"
    if loader.is_file():
        lines += ["```", "", _docstring(loader), "", "```shell"]
        lines += [f"gearshift demo {story.name} --data FILE"]
    return "\n".join([*lines, "```", ""])


def _docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""


if __name__ == "__main__":
    text = generate()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
