"""`gearshift dlq`: the records that were set aside, and what becomes of them."""

from __future__ import annotations

import heapq
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.letters import Letter, Summary
    from gearshift.topics.settling import Settled

app = typer.Typer(help="Dead letters: list, show, replay, discard.", no_args_is_help=True)

TopicArgument = Annotated[
    str, typer.Argument(help="The topic, or its dead letters (TOPIC.dlq).", show_default=False)
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="FIELD=VALUE, again for more: delivery, pipeline, exception, reason (a part of it), partition, offset.",
        show_default=False,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
_CAUSES_SHOWN = 10


@app.command("list")
def list_letters(output: OutputOption = Output.TEXT) -> None:
    """Count the open dead letters of every topic, by who failed and why."""
    from gearshift.topics.letters import summarize_all

    found = summarize_all(_connection())
    if output is Output.JSON:
        print_json([_topic_as_data(name, causes) for name, causes in found.items()])
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
    wide_console().print(rows if any(found.values()) else "no dead letters are open")


@app.command()
def show(
    topic: TopicArgument,
    limit: Annotated[int, typer.Option(help="How many, from the newest on.", min=1)] = 20,
    only: FilterOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the newest open dead letters of a topic: where, who, why, and the beginning of the record."""
    from gearshift.topics.letters import DeadLetterTopic, Filter

    wanted = Filter.parse(only or ())
    letters = DeadLetterTopic(_connection(), topic)
    count = 0

    def counted() -> Any:
        nonlocal count
        for letter in letters.open_letters(wanted):
            count += 1
            yield letter

    newest: list[Letter] = heapq.nlargest(limit, counted(), key=_age)
    if output is Output.JSON:
        print_json(
            {
                "topic": letters.source,
                "dead_letters": letters.name,
                "open": count,
                "letters": [_letter_as_data(letter) for letter in newest],
            }
        )
        return
    from gearshift.cli.listing import plain, wide_console
    from gearshift.topics.letters import preview

    console = wide_console()
    for letter in newest:
        origin = plain(letter.row or "?")
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
    """Send open dead letters back to where they failed, once: to the topic, or to the one delivery."""
    from gearshift.topics.letters import Filter
    from gearshift.topics.settling import replay as replay_letters

    done = replay_letters(_connection(), topic, Filter.parse(only or ()), dry_run=dry_run)
    _tell(done, "replayed", output, dry_run)


@app.command()
def discard(
    topic: TopicArgument,
    only: FilterOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Settle open dead letters that nobody wants back."""
    from gearshift.topics.letters import Filter
    from gearshift.topics.settling import discard as discard_letters

    done = discard_letters(_connection(), topic, Filter.parse(only or ()), dry_run=dry_run)
    _tell(done, "discarded", output, dry_run)


def _tell(done: Settled, how: str, output: Output, dry_run: bool) -> None:
    if output is Output.JSON:
        data: dict[str, Any] = {"topic": done.topic, "letters": done.letters, "done": not dry_run}
        if how == "replayed":
            data |= {"to_topic": done.to_topic, "to_deliveries": done.to_deliveries, "rows": done.rows}
        print_json(data)
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
            f"  {done.rows:,} rows of files stay: mend them, drop them as a new file, then discard these letters",
            soft_wrap=True,
        )


def _connection() -> Connection:
    from gearshift.stack import connect

    return connect(read_settings())


def _age(letter: Letter) -> tuple[datetime, tuple[int, int]]:
    return letter.written or datetime.min.replace(tzinfo=UTC), letter.place


def _topic_as_data(name: str, causes: list[Summary]) -> dict[str, Any]:
    oldest = [cause.oldest for cause in causes if cause.oldest is not None]
    newest = [cause.newest for cause in causes if cause.newest is not None]
    return {
        "topic": name.removesuffix(".dlq"),
        "dead_letters": name,
        "open": sum(cause.count for cause in causes),
        "oldest": min(oldest).isoformat() if oldest else None,
        "newest": max(newest).isoformat() if newest else None,
        "causes": [
            {
                "failed_in": cause.failed_in,
                "exception": cause.exception,
                "reason": cause.reason,
                "example": cause.example,
                "open": cause.count,
            }
            for cause in causes
        ],
    }


def _letter_as_data(letter: Letter) -> dict[str, Any]:
    from gearshift.topics.letters import preview

    return {
        "partition": None if letter.origin is None else letter.origin[0],
        "offset": None if letter.origin is None else letter.origin[1],
        "row": letter.row,
        "failed_in": letter.failed_in,
        "delivery": letter.delivery,
        "group_id": letter.group_id,
        "pipeline": letter.pipeline,
        "stage": letter.stage,
        "exception": letter.exception,
        "reason": letter.reason,
        "key": None if letter.key is None else preview(letter.key),
        "bytes": letter.size,
        "value": None if letter.value is None else preview(letter.value, 200),
        "written": letter.written.isoformat() if letter.written else None,
        "place": list(letter.place),
    }


def _short(words: str, most: int = 100) -> str:
    return words if len(words) <= most else f"{words[:most]}…"


def _moment(instant: datetime | None) -> str:
    return "–" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}"
