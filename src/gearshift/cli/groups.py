"""`gearshift group`: consumer groups, how far behind they are, and where they go on."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say

if TYPE_CHECKING:
    from gearshift.topics.group_tools import Groups, PartitionLag

app = typer.Typer(help="Consumer groups: list, lag, reset.", no_args_is_help=True)

GroupArgument = Annotated[str, typer.Argument(help="The group's id.", show_default=False)]
_EVERY = 2.0


@app.command("list")
def list_groups(output: OutputOption = Output.TEXT) -> None:
    """List the consumer groups, those of pipelines (APP.PIPELINE) as well."""
    with _open() as groups:
        found = groups.describe()
    if output is Output.JSON:
        print_json(
            [
                {
                    "group": group.group_id,
                    "protocol": group.kind,
                    "state": group.state,
                    "members": [
                        {"client_id": member.client_id, "host": member.host, "partitions": len(member.places)}
                        for member in group.members
                    ],
                }
                for group in found
            ]
        )
        return
    from gearshift.cli.listing import plain, table, wide_console

    rows = table("group", "protocol", "state", right=("members",))
    for group in found:
        rows.add_row(plain(group.group_id), group.kind, group.state, str(len(group.members)))
    wide_console().print(rows if found else "no consumer groups yet")


@app.command()
def lag(
    group: Annotated[
        str | None, typer.Argument(help="One group; all of them without.", show_default=False)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show how many records each group is behind, partition by partition."""
    with _open() as groups:
        if not watch:
            _show_lag(groups.lag(group), output)
            return
        try:
            _watch_lag(groups, group, output)
        except KeyboardInterrupt:
            say("stopped")


@app.command()
def reset(
    group: GroupArgument,
    topic: Annotated[str, typer.Option(help="The topic on which to move the group.", show_default=False)],
    to: Annotated[
        str, typer.Option(help="earliest, latest, an offset, or a time with its zone.", show_default=False)
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would change.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Say where a group would go on, and with --yes move it there; refused while it has members."""
    settings = read_settings()
    _refuse_mirror(group, settings.checkpoints_uri)
    with _open() as groups:
        moves = groups.plan_reset(group, topic, to)
        groups.refuse_members(group)
        if yes:
            groups.reset(group, moves)
    if output is Output.JSON:
        changes = [
            {"partition": move.partition, "before": move.before, "after": move.after} for move in moves
        ]
        print_json({"group": group, "topic": topic, "done": yes, "changes": changes})
        return
    from gearshift.cli.listing import number, plain, table, wide_console

    rows = table("topic", right=("partition", "before", "after", "records"))
    for move in moves:
        change = "–" if move.before is None else f"{move.after - move.before:+,}"
        rows.add_row(plain(move.topic), str(move.partition), number(move.before), f"{move.after:,}", change)
    wide_console().print(rows)
    say(f"group {group} goes on from there" if yes else "nothing is changed yet; --yes does it")


def _refuse_mirror(group: str, checkpoints_uri: str) -> None:
    """A pipeline's group only shows its offsets to Kafka's tools: moving it would change nothing but what they say."""
    from gearshift.errors import DeliveryError
    from gearshift.pipelines.ledgers import find_ledgers

    for ledger in find_ledgers(checkpoints_uri):
        if group == f"{ledger.app}.{ledger.pipeline}":
            raise DeliveryError(
                f"group {group} mirrors the pipeline's checkpoint, which decides where it goes on",
                hint=f"start it over with gearshift reset {group}",
                pipeline=ledger.pipeline,
            )


def _open() -> Groups:
    from gearshift.stack import connect
    from gearshift.topics.group_tools import Groups

    return Groups(connect(read_settings()))


def _as_data(found: list[PartitionLag]) -> list[dict[str, Any]]:
    groups: dict[str, list[PartitionLag]] = {}
    for entry in found:
        groups.setdefault(entry.group_id, []).append(entry)
    return [
        {
            "group": group_id,
            "lag": sum(entry.lag or 0 for entry in entries),
            "partitions": [
                {
                    "topic": entry.topic,
                    "partition": entry.partition,
                    "committed": entry.committed,
                    "end": entry.end,
                    "lag": entry.lag,
                    "member": entry.member,
                }
                for entry in entries
            ],
        }
        for group_id, entries in groups.items()
    ]


def _lag_table(found: list[PartitionLag]) -> Any:
    from gearshift.cli.listing import number, plain, table

    rows = table("group", "topic", right=("partition", "committed", "end", "lag"))
    rows.add_column("member")
    for group in _as_data(found):
        for entry in group["partitions"]:
            rows.add_row(
                plain(group["group"]),
                plain(entry["topic"]),
                str(entry["partition"]),
                number(entry["committed"]),
                f"{entry['end']:,}",
                number(entry["lag"]),
                plain(entry["member"] or ""),
            )
        rows.add_row(plain(group["group"]), "", "", "", "total", f"{group['lag']:,}", "", style="bold")
    return rows


def _show_lag(found: list[PartitionLag], output: Output) -> None:
    if output is Output.JSON:
        print_json(_as_data(found))
        return
    from gearshift.cli.listing import wide_console

    wide_console().print(_lag_table(found) if found else "no group has committed an offset yet")


def _watch_lag(groups: Groups, group: str | None, output: Output) -> None:
    if output is Output.TEXT and sys.stdout.isatty():
        from rich.live import Live

        with Live(_lag_table(groups.lag(group))) as live:
            while True:
                time.sleep(_EVERY)
                live.update(_lag_table(groups.lag(group)))
    while True:
        found = groups.lag(group)
        if output is Output.JSON:
            sys.stdout.write(json.dumps(_as_data(found)) + "\n")  # one line a look, for whoever reads along
        else:
            _show_lag(found, output)
        sys.stdout.flush()
        time.sleep(_EVERY)
