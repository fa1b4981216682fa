"""`gearshift graph`: what an app declares and how it is connected, without starting anything."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json

if TYPE_CHECKING:
    from rich.tree import Tree


def graph(
    file: Annotated[Path, typer.Argument(help="The Python file that declares the App.", show_default=False)],
    output: OutputOption = Output.TEXT,
) -> None:
    """Show an app's topics, tables, pipelines, deliveries and sources, and how they are connected."""
    from gearshift.console.describing import describe_graph
    from gearshift.runner.loading import load_app

    # stdout is for the graph: what the app's file prints on import must not mix with it.
    with contextlib.redirect_stdout(sys.stderr):
        found = describe_graph(load_app(file).graph)
    if output is Output.JSON:
        print_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    from rich.tree import Tree

    from gearshift.cli.listing import plain, wide_console

    tree = Tree(f"[bold]{plain(found['app'])}[/]  ({plain(found['timezone'])})", guide_style="dim")
    stores = [{"topic": each["name"]} for each in found["topics"]]
    stores += [{"table": each["name"]} for each in found["tables"]]
    written = [pipeline["target"] for pipeline in found["pipelines"]]
    seen: list[dict[str, str]] = []
    # Stores that no pipeline writes come first; the rest form cycles.
    for store in [*(each for each in stores if each not in written), *stores]:
        if store not in seen:
            _grow(tree, store, found, seen)
    wide_console().print(tree if stores else f"{found['app']} has no declarations yet")


def _grow(tree: Tree, store: dict[str, str], found: dict[str, Any], seen: list[dict[str, str]]) -> None:
    """Add a topic or table to a tree, and its readers below it."""
    from gearshift.cli.listing import plain

    words = _words(store)
    if store in seen:
        tree.add(f"[dim]{words}, see above[/]")
        return
    seen.append(store)
    fed_by = [f"source {plain(each['name'])}" for each in found["sources"] if store in each["to"]]
    fed_by += [
        f"capture {plain(each['name'])}" for each in found["captures"] if store in each["tables"].values()
    ]
    branch = tree.add(words + (f"  [dim]from {', '.join(fed_by)}[/]" if fed_by else ""))
    for each in found["pipelines"]:
        if store in each["sources"].values():
            others = [_words(other) for other in each["sources"].values() if other != store]
            reads_too = f" with {', '.join(others)}" if others else ""
            leaf = branch.add(
                f"[bold]{plain(each['name'])}[/]{reads_too}  {each['gear']} ({each['calendar'] or each['freshness']})  "
                f"[dim]{plain(each['file'])}:{each['line']}[/]"
            )
            _grow(leaf, each["target"], found, seen)
    for each in found["deliveries"]:
        if store == {"topic": each["topic"]}:
            target = each["target"]
            to = f" → {plain(target.get('destination')) or _words(target)}" if target else ""
            branch.add(
                f"delivery [bold]{plain(each['name'])}[/]{to}  [dim]{plain(each['file'])}:{each['line']}[/]"
            )


def _words(store: dict[str, str]) -> str:
    from gearshift.cli.listing import plain

    return " ".join(f"{kind} {plain(name)}" for kind, name in store.items())
