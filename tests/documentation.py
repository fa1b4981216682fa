"""What the pages of the documentation hold: blocks by language, commands, and Python that runs."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def spans(page: Path, program: str) -> list[list[str]]:
    """The `program …` in the prose of a page, as words without the signs for what may be left out."""
    found = re.findall(rf"`{program} ([^`]+)`", prose(page))
    return [shlex.split(re.sub(r"[\[\]…]", " ", text)) for text in found]


def shell_lines(page: Path) -> Iterator[list[str]]:
    """The commands in the shell blocks of a page, as words without comments."""
    for block in blocks(page, "shell"):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def python_of(page: Path) -> str:
    """The Python of a page as one module: pages other than the README build on the app of its first block."""
    first = [] if page == README else blocks(README, "python")[:1]
    given = "def phone_of(meter_id: str) -> str:\n    return f'+316{meter_id}'\n"
    return "\n".join([given, *first, *blocks(page, "python")])


def run_python(page: Path) -> dict[str, Any]:
    """Run what a page declares; what imports Airflow runs in Airflow's own environment, and is not run here."""
    module = ast.parse(python_of(page))
    airflow = {"airflow_provider_gearshift", "gearshift_dag"}
    module.body = [
        statement
        for statement in module.body
        if not airflow
        & ({getattr(node, "id", None) or getattr(node, "module", None) for node in ast.walk(statement)})
    ]
    names: dict[str, Any] = {"__name__": "documented"}
    exec(compile(module, str(page), "exec", dont_inherit=True), names)
    return names
