"""`gearshift batch`: run and list the intervals of pipelines."""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say
from gearshift.cli.running import FileArgument

app = typer.Typer(help="Run and list the intervals of batch pipelines.", no_args_is_help=True)


@app.command()
def run(
    file: FileArgument,
    pipeline: Annotated[str, typer.Argument(help="The pipeline's name.", show_default=False)],
    start: Annotated[
        str,
        typer.Option("--from", help="Run intervals that start at this time or later.", show_default=False),
    ],
    end: Annotated[
        str, typer.Option("--to", help="Run intervals that start before this time.", show_default=False)
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Run every interval that starts in [FROM, TO), oldest first; each replaces its previous result.

    Times are ISO 8601, 2026-01-01 or 2026-01-01T06:00+01:00; without an offset, in the app's time zone.
    """
    from gearshift.pipelines.intervals.selection import intervals_to_run, pipeline_of_intervals
    from gearshift.runner.loading import load_app

    settings = read_settings()
    loaded = load_app(file)
    chosen = pipeline_of_intervals(loaded.graph, pipeline)
    intervals = intervals_to_run(loaded.graph, chosen, _moment("--from", start), _moment("--to", end))
    from gearshift.runner import batches  # imports Spark

    signal.signal(signal.SIGTERM, _as_interrupt)
    done = 0
    try:
        with batches.opened(loaded, settings) as context:
            for entry in batches.run_all(context, chosen, intervals, "batch run"):
                done += 1
                _report(entry.as_json(), output)
    except KeyboardInterrupt:
        say(
            f"stopped after {done} of {len(intervals)} intervals; run the same command again to complete them"
        )
        raise typer.Exit(1) from None


@app.command("list")
def list_intervals(
    file: FileArgument,
    pipeline: Annotated[
        str | None, typer.Argument(help="A pipeline; default: all.", show_default=False)
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List intervals and their states: open, due, failed, done, late or too late. Does not start Spark."""
    from gearshift.pipelines.intervals.selection import (
        describe_interval,
        pipeline_of_intervals,
        survey_intervals,
    )
    from gearshift.runner.loading import load_app

    settings = read_settings()
    loaded = load_app(file)
    graph = loaded.graph
    chosen = (
        [pipeline_of_intervals(graph, pipeline)]
        if pipeline is not None
        else [each for each in graph.pipelines.values() if each.intervals is not None]
    )
    found: list[dict[str, Any]] = []
    for each in chosen:
        seen = survey_intervals(loaded, settings, each, datetime.now(UTC))
        if seen is None:
            say(f"{each.name}: one of its source tables does not exist yet")
            continue
        found += [describe_interval(each.name, status) for status in seen.statuses]
        if seen.without_time:
            say(f"{each.name}: {seen.without_time:,} rows have no event time and are in no interval")
    if output is Output.JSON:
        print_json(found)
        return
    from rich.markup import escape

    from gearshift.cli.listing import number, table, wide_console

    shown = table(
        "pipeline", "from", "to", "state", "run at", "why", right=("rows", "late", "seconds", "version")
    )
    for entry in found:
        shown.add_row(
            *(entry[name] or "" for name in ("pipeline", "start", "end", "state", "began", "why")),
            number(entry["rows"]),
            number(entry["late_rows"]),
            number(entry["seconds"]),
            number(entry["version"]),
        )
    console = wide_console()
    console.print(shown if found else "no intervals yet")
    for entry in found:
        if entry["error"]:
            message = f"{entry['pipeline']} {entry['start']}, {entry['tries']} times: {entry['error']}"
            console.print(f"[red]{escape(message)}[/]", soft_wrap=True)


def _report(entry: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        sys.stdout.write(json.dumps(entry) + "\n")
    else:
        read = ", ".join(
            f"{source['rows']:,} of {source['table']} v{source['version']}"
            for source in entry["inputs"].values()
        )
        sys.stdout.write(
            f"{entry['pipeline']} {entry['start']} to {entry['end']}: {entry['rows']:,} rows from {read}, "
            f"{entry['seconds']:.1f} s, version {entry['version']}\n"
        )
    sys.stdout.flush()


def _moment(option: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not an ISO 8601 time, such as 2026-01-01 or 2026-01-01T06:00+01:00",
            param_hint=option,
        ) from None


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
