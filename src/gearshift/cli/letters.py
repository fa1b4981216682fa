"""`gearshift dlq`: list, show, replay and discard dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.dead_letters.replay import Settled

app = typer.Typer(help="List, show, replay and discard dead letters.", no_args_is_help=True)

TopicArgument = Annotated[
    str, typer.Argument(help="The topic, or its dead-letter topic (TOPIC.dlq).", show_default=False)
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="FIELD=VALUE, repeatable. Fields: delivery, pipeline, exception, reason (substring), partition, offset.",
        show_default=False,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
_CAUSES_SHOWN = 10


@app.command("list")
def list_letters(output: OutputOption = Output.TEXT) -> None:
    """Count the open dead letters of each topic by reader and reason."""
    from gearshift.topics.dead_letters.letter_data import causes_data
    from gearshift.topics.dead_letters.summaries import summarize_all

    found = summarize_all(_connection())
    if output is Output.JSON:
        print_json([causes_data(name, causes) for name, causes in found.items()])
        return
    from gearshift.cli.listing import number, plain, table, wide_console

    rows = table("topic", "failed in", "exception", "reason", right=("open", "oldest", "newest"))
    for name, causes in found.items():
        total = sum(cause.count for cause in causes)
        for cause in causes[:_CAUSES_SHOWN]:
            rows.add_row(
                plain(name),
                plain(cause.failed_in),
                plain(cause.exception.rpartition(".")[2]),
                plain(_short(cause.reason)),
                number(cause.count),
                _moment(cause.oldest),
                _moment(cause.newest),
            )
        if len(causes) > _CAUSES_SHOWN:
            rest = sum(cause.count for cause in causes[_CAUSES_SHOWN:])
            rows.add_row(plain(name), "", "", f"{len(causes) - _CAUSES_SHOWN} more reasons", number(rest))
        if len(causes) > 1:
            rows.add_row(plain(name), "", "", "all", number(total), style="bold")
    wide_console().print(rows if any(found.values()) else "no open dead letters")


@app.command()
def show(
    topic: TopicArgument,
    limit: Annotated[int, typer.Option(help="How many to show, newest first.", min=1)] = 20,
    only: FilterOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the newest open dead letters of a topic: position, reader, reason and a preview of the record."""
    from gearshift.topics.dead_letters.letter_data import letter_data, newest_letters
    from gearshift.topics.dead_letters.letters import DeadLetterTopic, Filter

    wanted = Filter.parse(only or ())
    letters = DeadLetterTopic(_connection(), topic)
    count, newest = newest_letters(letters.open_letters(wanted), limit)
    if output is Output.JSON:
        print_json(
            {
                "topic": letters.source,
                "dead_letters": letters.name,
                "open": count,
                "letters": [letter_data(letter) for letter in newest],
            }
        )
        return
    from gearshift.cli.listing import plain, wide_console
    from gearshift.topics.dead_letters.letters import preview

    console = wide_console()
    for letter in newest:
        origin = plain(letter.row or ("result" if letter.result_for else "?"))
        if letter.origin is not None:
            origin = f"{letter.origin[0]}/{letter.origin[1]}"
        console.print(
            f"[bold]{plain(letters.source)} {origin}[/]  {_moment(letter.written)}  {plain(letter.failed_in)}  "
            f"{plain(letter.stage)}  {plain(letter.exception)}",
            soft_wrap=True,
        )
        console.print(f"  {plain(letter.reason)}", soft_wrap=True)
        console.print(
            f"  key {plain(preview(letter.key))}  {letter.size:,} bytes  {plain(preview(letter.value))}",
            soft_wrap=True,
        )
    say(f"{len(newest)} of {count} open letters")


@app.command()
def replay(
    topic: TopicArgument,
    only: FilterOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Send open dead letters back, once: to the topic, or only to the delivery that failed on them."""
    from gearshift.topics.dead_letters.letters import Filter
    from gearshift.topics.dead_letters.replay import replay as replay_letters

    done = replay_letters(_connection(), topic, Filter.parse(only or ()), dry_run=dry_run)
    _report(done, "replayed", output, dry_run)


@app.command()
def discard(
    topic: TopicArgument,
    only: FilterOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Close open dead letters without replaying them."""
    from gearshift.topics.dead_letters.letters import Filter
    from gearshift.topics.dead_letters.replay import discard as discard_letters

    done = discard_letters(_connection(), topic, Filter.parse(only or ()), dry_run=dry_run)
    _report(done, "discarded", output, dry_run)


def _report(done: Settled, how: str, output: Output, dry_run: bool) -> None:
    if output is Output.JSON:
        from gearshift.topics.dead_letters.letter_data import discarded_data, replayed_data

        as_data = replayed_data if how == "replayed" else discarded_data
        print_json(as_data(done, dry_run=dry_run))
        return
    from gearshift.cli.listing import plain, wide_console

    console = wide_console()
    letters = "1 letter" if done.letters == 1 else f"{done.letters:,} letters"
    console.print(f"{letters} of {plain(done.topic)} {'would be ' if dry_run else ''}{how}", soft_wrap=True)
    if done.to_topic:
        console.print(f"  {done.to_topic:,} to topic {plain(done.topic)}", soft_wrap=True)
    for group_id, count in done.to_deliveries.items():
        console.print(f"  {count:,} to group {plain(group_id)}", soft_wrap=True)
    if done.rows:
        console.print(
            f"  {done.rows:,} rows of files stay open: fix them, drop them as a new file, then discard these letters",
            soft_wrap=True,
        )

    if done.results:
        console.print(
            f"  {done.results:,} rows of results stay open: fix the transform and compute them again from its sources "
            "(gearshift reset), then discard these letters",
            soft_wrap=True,
        )


def _connection() -> Connection:
    from gearshift.stack import connect

    return connect(read_settings())


def _short(text: str, limit: int = 100) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _moment(instant: datetime | None) -> str:
    return "–" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}"
