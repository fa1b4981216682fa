"""`gearshift batch`: runs and lists the intervals of pipelines that have a calendar."""

from __future__ import annotations

import json
import signal
import sys
from datetime import datetime
from typing import Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, read_settings, say
from gearshift.cli.running import FileArgument

app = typer.Typer(help="Batch on a calendar: run and list intervals.", no_args_is_help=True)


@app.command()
def run(
    file: FileArgument,
    pipeline: Annotated[str, typer.Argument(help="The pipeline's name.", show_default=False)],
    start: Annotated[
        str, typer.Option("--from", help="The first interval begins here or later.", show_default=False)
    ],
    end: Annotated[
        str, typer.Option("--to", help="The last interval begins before this.", show_default=False)
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Run every interval that begins in [FROM, TO), oldest first; each replaces what it wrote before.

    Times are ISO, 2026-01-01 or 2026-01-01T06:00+01:00, and without an offset in the app's time zone.
    """
    from gearshift.runner import batches
    from gearshift.runner.loading import load_app

    settings = read_settings()
    loaded = load_app(file)
    chosen = batches.pipeline_of_intervals(loaded.graph, pipeline)
    intervals = batches.intervals_to_run(loaded.graph, chosen, _moment("--from", start), _moment("--to", end))
    signal.signal(signal.SIGTERM, _as_interrupt)
    done = 0
    try:
        with batches.opened(loaded, settings) as engine:
            for entry in batches.run_all(engine, chosen, intervals, "batch run"):
                done += 1
                _tell(entry.as_json(), output)
    except KeyboardInterrupt:
        say(f"stopped after {done} of {len(intervals)} intervals; the same command runs them again")
        raise typer.Exit(1) from None


def _tell(entry: dict[str, Any], output: Output) -> None:
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
            f"{text!r} is no ISO time, such as 2026-01-01 or 2026-01-01T06:00+01:00", param_hint=option
        ) from None


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
