"""`gearshift topic`: the topics of a cluster, and where their load lies."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.skew import Skew

app = typer.Typer(help="Topics: list, skew.", no_args_is_help=True)


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
    sample: Annotated[int, typer.Option(help="Look at so many of the newest records.", min=1)] = 100_000,
    since: Annotated[
        str | None,
        typer.Option(help="Or at all since a time, such as 2026-01-31T12:00:00Z.", show_default=False),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the load of each partition and the hottest keys, and say what is wrong and what to do."""
    from datetime import datetime

    from gearshift.errors import SettingsError
    from gearshift.topics.group_tools import parse_target
    from gearshift.topics.sampling import measure

    instant = parse_target(since) if since is not None else None
    if instant is not None and not isinstance(instant, datetime):
        raise SettingsError(f"{since!r} is no time", hint="say one such as 2026-01-31T12:00:00Z")
    found = measure(_connection(), topic, sample=sample, since=instant)
    if output is Output.JSON:
        print_json(_as_data(found))
    else:
        _show(found)


def _connection() -> Connection:
    from gearshift.stack import connect

    return connect(read_settings())


def _as_data(found: Skew) -> dict[str, Any]:
    total = sum(load.records for load in found.partitions)
    verdict = found.verdict
    return {
        "topic": found.topic,
        "sampled": found.sampled,
        "partitions": [
            {
                "partition": load.partition,
                "records": load.records,
                "share": load.records / total if total else 0.0,
                "bytes": load.bytes,
            }
            for load in found.partitions
        ],
        "keys": [asdict(key) for key in found.keys],
        "distinct_keys": found.distinct_keys,
        "groups": [{"group": group.group_id, "lag": group.total} for group in found.groups],
        "verdict": {"kind": str(verdict.kind), "what": verdict.what, "advice": list(verdict.advice)},
    }


def _show(found: Skew) -> None:
    from gearshift.cli.listing import number, plain, table, wide_console

    console = wide_console()
    data = _as_data(found)
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
        console.print(f"  try: {plain(advice)}", soft_wrap=True)
    console.print(f"[dim]from {found.sampled:,} records[/]")
