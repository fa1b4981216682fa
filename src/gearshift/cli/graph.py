"""`gearshift graph`: what an app declares and how it hangs together, without starting anything."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json

if TYPE_CHECKING:
    from rich.tree import Tree

    from gearshift.definitions import ChangeCapture, Delivery, Graph, Location, Pipeline, Source, Table, Topic


def graph(
    file: Annotated[Path, typer.Argument(help="The Python file that declares the App.", show_default=False)],
    output: OutputOption = Output.TEXT,
) -> None:
    """Show an app's topics, tables, pipelines, deliveries and sources, and which feeds which."""
    from gearshift.runner.loading import load_app

    # Other programs read what comes out here: what the file prints while it is imported must not be among it.
    with contextlib.redirect_stdout(sys.stderr):
        found = describe(load_app(file).graph)
    if output is Output.JSON:
        print_json(found)
    else:
        _show(found)


def describe(graph: Graph) -> dict[str, Any]:
    """The graph as plain data; nothing of a destination but its kind, for the rest may be secret."""
    captured = {topic.name: topic for capture in graph.captures.values() for topic in capture.topics.values()}
    return {
        "app": graph.app,
        "timezone": graph.timezone,
        "topics": [_topic(topic) for topic in {**captured, **graph.topics}.values()],
        "tables": [_table(table) for table in graph.tables.values()],
        "sources": [_source(source) for source in graph.sources.values()],
        "captures": [_capture(capture) for capture in graph.captures.values()],
        "pipelines": [_pipeline(pipeline, graph) for pipeline in graph.pipelines.values()],
        "deliveries": [_delivery(delivery) for delivery in graph.deliveries.values()],
    }


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "value": topic.value.__name__,
        "key": topic.key,
        "partitions": topic.partitions,
        "format": topic.format,
        **_place(topic.defined_at),
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "partition_by": list(table.partition_by),
        "key": list(table.key),
        **_place(table.defined_at),
    }


def _source(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "to": _store(source.topic),
        "rate": source.rate,
        **_place(source.defined_at),
    }


def _capture(capture: ChangeCapture) -> dict[str, Any]:
    return {
        "name": capture.name,
        "tables": {table: _store(topic) for table, topic in capture.topics.items()},
        **_place(capture.defined_at),
    }


def _pipeline(pipeline: Pipeline, graph: Graph) -> dict[str, Any]:
    from gearshift.freshness import Gear

    batch = pipeline.gear is Gear.BATCH
    return {
        "name": pipeline.name,
        "sources": {name: _store(source) for name, source in pipeline.sources.items()},
        "target": _store(pipeline.target),
        "gear": str(pipeline.gear),
        "freshness": str(pipeline.freshness),
        "freshness_seconds": pipeline.freshness.duration.total_seconds(),
        "calendar": str(pipeline.calendar) if batch else None,
        "intervals": _intervals(pipeline),
        "after": [other.name for other in graph.pipelines.values() if _feeds(other, pipeline)],
        **_place(pipeline.defined_at),
    }


def _intervals(pipeline: Pipeline) -> dict[str, Any] | None:
    cut = pipeline.intervals
    if cut is None:
        return None
    late = cut.late.total_seconds() if cut.late is not None else None
    return {
        "by": dict(cut.by),
        "grace_seconds": cut.grace.total_seconds(),
        "late_seconds": late,
        "since": cut.since.isoformat() if cut.since is not None else None,
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    from gearshift.definitions import Topic

    target = delivery.target
    if target is not None:
        target = _store(target) if isinstance(target, Topic) else {"destination": type(target).__name__}
    return {
        "name": delivery.name,
        "topic": delivery.topic.name,
        "group_id": delivery.group_id,
        "target": target,
        **_place(delivery.defined_at),
    }


def _store(store: Topic | Table) -> dict[str, str]:
    """A topic or a table by its name; the two may have the same.

    >>> from gearshift import App
    >>> _store(App("shop").table("orders"))
    {'table': 'orders'}
    """
    from gearshift.definitions import Topic

    return {"topic" if isinstance(store, Topic) else "table": store.name}


def _feeds(first: Pipeline, second: Pipeline) -> bool:
    """Whether one pipeline writes what another reads."""
    return first.name != second.name and _store(first.target) in map(_store, second.sources.values())


def _place(at: Location) -> dict[str, Any]:
    return {"file": at.file, "line": at.line}


def _show(found: dict[str, Any]) -> None:
    from rich.tree import Tree

    from gearshift.cli.listing import plain, wide_console

    tree = Tree(f"[bold]{plain(found['app'])}[/]  ({plain(found['timezone'])})", guide_style="dim")
    stores = [{"topic": each["name"]} for each in found["topics"]]
    stores += [{"table": each["name"]} for each in found["tables"]]
    written = [pipeline["target"] for pipeline in found["pipelines"]]
    seen: list[dict[str, str]] = []
    # What no pipeline writes comes first; what is then left feeds itself in a circle.
    for store in [*(each for each in stores if each not in written), *stores]:
        if store not in seen:
            _grow(tree, store, found, seen)
    wide_console().print(tree if stores else f"{found['app']} declares nothing yet")


def _grow(tree: Tree, store: dict[str, str], found: dict[str, Any], seen: list[dict[str, str]]) -> None:
    """Hang a topic or table under a tree, and under it whoever reads it."""
    from gearshift.cli.listing import plain

    words = _words(store)
    if store in seen:
        tree.add(f"[dim]{words}, see above[/]")
        return
    seen.append(store)
    fed_by = [f"source {plain(each['name'])}" for each in found["sources"] if each["to"] == store]
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
