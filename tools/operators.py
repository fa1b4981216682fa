"""Write docs/operators.md: which operators run in which gear, as the checker answers for `operators_app.py`.

python tools/operators.py           print the page
python tools/operators.py --write   write it
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from gearshift.app import App
from gearshift.freshness import Gear
from gearshift.runner.checking import check_app
from gearshift.runner.loading import load_app
from gearshift.settings import load

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "operators.md"
INTRODUCTION = """\
# Which operators run in which gear

This page is generated: `tools/operators.py` plans one small pipeline per row and asks the same checker as
`gearshift check FILE`, and a test compares the page with its answers. The code in each row is the code that was planned
(`tools/operators_app.py`). `at` is the event time. Rows without a target write a topic.

Batch and near-real-time run the same micro-batch plan over topics, so they differ only where a table is the only source.
Real-time runs what Spark's Real-Time Mode allows. Where a gear says no, the last column has the reason and the rewrite
that `gearshift check` prints with the file and the line.
"""


def page(app: App, groups: dict[str, list[str]]) -> str:
    """The whole page."""
    with tempfile.TemporaryDirectory() as home:
        settings = load({"home": Path(home)}, folder=Path(home), environ={})
        found = {each["pipeline"]: each for each in check_app(app, settings)}
    parts = [INTRODUCTION]
    for heading, names in groups.items():
        lines = [
            f"## {heading}",
            "",
            "| operator | batch | near-real-time | real-time | why not, and what to write |",
        ]
        lines.append("|---|---|---|---|---|")
        lines += [_row(app, found[name]) for name in names]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _row(app: App, answer: dict[str, Any]) -> str:
    transform = app.graph.pipelines[answer["pipeline"]].transform
    if answer["error"] is not None:
        raise SystemExit(f"{answer['pipeline']}: {answer['error']}")
    verdicts = [answer["gears"][str(gear)] for gear in Gear]
    marks = ["yes" if verdict["ok"] else "no" for verdict in verdicts]
    refusals = [f"{_plain(r['what'])}: {r['rewrite']}" for verdict in verdicts for r in verdict["refusals"]]
    # A pipe would end the cell, also inside backticks.
    cells = [
        f"{inspect.getdoc(transform)}<br>`{_code(transform)}`",
        *marks,
        "<br>".join(dict.fromkeys(refusals)),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _plain(words: str) -> str:
    """Spark's words without the name of its error and the ids that it gives to columns.

    >>> _plain("[NO_RANK] not supported in RANK(N#33L) (as column `count`).")
    'not supported in RANK(N) (as column count)'
    """
    words = re.sub(r"^\[[A-Z_.]+\] |#\d+L?|`", "", words)
    return words.rstrip(".")


def _code(transform: Any) -> str:
    """The expression that the function returns."""
    [function] = ast.parse(textwrap.dedent(inspect.getsource(transform))).body
    [returned] = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    assert returned.value is not None
    return ast.unparse(returned.value).replace("'", '"')


def generate() -> str:
    """The page, as the checker answers now."""
    app = load_app(HERE / "operators_app.py")
    module = sys.modules[app.graph.pipelines["projection"].transform.__module__]
    return page(app, module.GROUPS)


if __name__ == "__main__":
    text = generate()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
