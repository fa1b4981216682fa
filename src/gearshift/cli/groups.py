"""`gearshift group`: list consumer groups, show their lag and reset their offsets."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say

if TYPE_CHECKING:
    from gearshift.topics.groups.tools import Groups, PartitionLag

app = typer.Typer(help="List consumer groups, show lag, reset offsets.", no_args_is_help=True)

GroupArgument = Annotated[str, typer.Argument(help="The group's id.", show_default=False)]
_REFRESH_SECONDS = 2.0


@app.command("list")
def list_groups(output: OutputOption = Output.TEXT) -> None:
    """List consumer groups, including those of pipelines (APP.PIPELINE)."""
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
                        {
                            "client_id": member.client_id,
                            "host": member.host,
                            "partitions": len(member.partitions),
                        }
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
    group: Annotated[str | None, typer.Argument(help="A group id; default: all.", show_default=False)] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the lag of each group, by partition."""
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
    topic: Annotated[str, typer.Option(help="The topic whose offsets to reset.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(help="earliest, latest, an offset, or a time with a UTC offset.", show_default=False),
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Apply the changes; without it, only show them.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the offsets a reset would set, and set them with --yes. The group must have no members."""
    from gearshift.pipelines.ledger.listing import require_no_mirror

    require_no_mirror(group, read_settings().checkpoints_uri)
    with _open() as groups:
        moves = groups.plan_reset(group, topic, to)
        groups.require_no_members(group)
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
    say(f"group {group} was reset" if yes else "dry run; add --yes to apply")


def _open() -> Groups:
    from gearshift.stack import connect
    from gearshift.topics.groups.tools import Groups

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
                time.sleep(_REFRESH_SECONDS)
                live.update(_lag_table(groups.lag(group)))
    while True:
        found = groups.lag(group)
        if output is Output.JSON:
            sys.stdout.write(json.dumps(_as_data(found)) + "\n")  # one line per refresh
        else:
            _show_lag(found, output)
        sys.stdout.flush()
        time.sleep(_REFRESH_SECONDS)
