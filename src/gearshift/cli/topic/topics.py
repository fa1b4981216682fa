"""`gearshift topic`: list, describe, consume and produce, and show how evenly the load is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings
from gearshift.cli.topic import consume, describing, produce

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.skew.verdict import Skew

app = typer.Typer(help="List, describe, consume and produce, show skew.", no_args_is_help=True)
app.command()(describing.describe)
app.command()(consume.consume)
app.command()(produce.produce)


@app.command("list")
def list_topics(output: OutputOption = Output.TEXT) -> None:
    """List the topics with their partitions, replicas and records."""
    from gearshift.topics.admin import Admin

    with Admin(_connection()) as admin:
        states = admin.describe(admin.names())
        begins, ends = admin.begin_offsets(states), admin.end_offsets(states)
    found: list[dict[str, Any]] = [
        {
            "topic": state.name,
            "partitions": state.partitions,
            "replicas": state.replicas,
            "records": sum(end - begins[place] for place, end in ends.items() if place[0] == state.name),
        }
        for state in sorted(states.values(), key=lambda state: state.name)
    ]
    if output is Output.JSON:
        print_json(found)
        return
    from gearshift.cli.listing import number, plain, table, wide_console

    rows = table("topic", right=("partitions", "replicas", "records"))
    for entry in found:
        rows.add_row(
            plain(entry["topic"]), str(entry["partitions"]), str(entry["replicas"]), number(entry["records"])
        )
    wide_console().print(rows if found else "no topics yet; [bold]gearshift run FILE[/] creates an app's")


@app.command()
def skew(
    topic: Annotated[str, typer.Argument(help="The topic's name.", show_default=False)],
    sample: Annotated[int, typer.Option(help="Sample this many of the newest records.", min=1)] = 100_000,
    since: Annotated[
        str | None,
        typer.Option(
            help="Look at all records since a time, such as 2026-01-31T12:00:00Z, instead.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the load of each partition and the hottest keys, with a diagnosis and a fix."""
    from datetime import datetime

    from gearshift.errors import SettingsError
    from gearshift.topics.groups.tools import parse_target
    from gearshift.topics.skew.sampling import measure

    instant = parse_target(since) if since is not None else None
    if instant is not None and not isinstance(instant, datetime):
        raise SettingsError(f"{since!r} is not a time", hint="use a time such as 2026-01-31T12:00:00Z")
    found = measure(_connection(), topic, sample=sample, since=instant)
    if output is Output.JSON:
        print_json(found.as_data())
    else:
        _show(found)


def _connection() -> Connection:
    from gearshift.stack import connect

    return connect(read_settings())


def _show(found: Skew) -> None:
    from gearshift.cli.listing import number, plain, table, wide_console

    console = wide_console()
    data = found.as_data()
    loads = table(right=("partition", "records", "share", "bytes"))
    for load in data["partitions"]:
        loads.add_row(
            str(load["partition"]), number(load["records"]), f"{load['share']:.1%}", number(load["bytes"])
        )
    console.print(loads)
    if data["keys"]:
        console.print()
        keys = table("key", right=("partition", "records", "share"))
        for key in data["keys"]:
            keys.add_row(
                plain(key["key"]), str(key["partition"]), number(key["records"]), f"{key['share']:.1%}"
            )
        console.print(keys)
    if data["groups"]:
        console.print()
        groups = table("group", right=("lag",))
        for group in data["groups"]:
            groups.add_row(plain(group["group"]), number(group["lag"]))
        console.print(groups)
    verdict = data["verdict"]
    console.print(f"\n[bold]{verdict['kind']}[/]: {plain(verdict['what'])}", soft_wrap=True)
    for advice in verdict["advice"]:
        console.print(f"  hint: {plain(advice)}", soft_wrap=True)
    console.print(f"[dim]from {found.sampled:,} records[/]")
