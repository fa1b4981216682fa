"""`gearshift run`, `check` and `shift`."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings, say

FileArgument = Annotated[
    Path, typer.Argument(help="The Python file that declares the App.", show_default=False)
]


def run(
    file: FileArgument,
    seconds: Annotated[float | None, typer.Option("--for", help="Stop after so many seconds.", min=0)] = None,
    deliveries_only: Annotated[
        bool,
        typer.Option(
            "--deliveries-only", help="Only more consumers for the deliveries of an app that runs elsewhere."
        ),
    ] = False,
) -> None:
    """Run an app: stack, topics, schemas, pipelines, deliveries and simulated sources, until Ctrl-C."""
    from gearshift.runner.loading import load_app

    settings = read_settings()
    app = load_app(file)
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        if deliveries_only:
            from gearshift.runner.deliveries import Deliveries

            with Deliveries(app, settings, file=file, said=say) as deliveries:
                say(f"the deliveries of {app.name} run; Ctrl-C stops them")
                _show(deliveries, seconds)
            return
        from gearshift.runner.runner import Runner

        with Runner(app, settings, file=file, said=say) as runner:
            say(f"{app.name} runs on {runner.stack.bootstrap_servers}; Ctrl-C stops it")
            _show(runner, seconds)
    except KeyboardInterrupt:
        say("stopped")


def check(
    file: FileArgument,
    output: OutputOption = Output.TEXT,
) -> None:
    """Say for every pipeline which gears it can run in, and for each no the operator, the line and the rewrite."""
    from gearshift.runner.checking import check_app
    from gearshift.runner.loading import load_app

    settings = read_settings()
    reports = check_app(load_app(file), settings)
    if output is Output.JSON:
        print_json(reports)
    else:
        from gearshift.cli.tables import show_reports

        show_reports(reports)
    if any(report["error"] or not report["gears"][report["declared"]]["ok"] for report in reports):
        raise typer.Exit(1)


def shift(
    pipeline: Annotated[str, typer.Argument(help="The pipeline's name.", show_default=False)],
    gear: Annotated[str, typer.Argument(help="batch, near-real-time or real-time.", show_default=False)],
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for the end of the batch; the replay is counted.")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Bring a running pipeline into another gear, on the same checkpoint."""
    from gearshift.freshness import Gear
    from gearshift.runner.control import ask, restore

    Gear.named(gear)
    settings = read_settings()
    done: dict[str, Any] | None = None
    for line in ask(settings.home, "POST", "/shift", {"pipeline": pipeline, "gear": gear, "now": now}):
        if "error" in line:
            raise restore(line["error"])
        if "step" in line:
            say(f"{line['step']}: {line['words']}")
        done = line.get("shifted", done)
    if done is None:
        from gearshift.errors import RunnerError

        raise RunnerError(
            "the runner ended in the middle of the shift", hint='"gearshift run FILE" goes on from there'
        )
    if output is Output.JSON:
        print_json(done)
    else:
        sys.stdout.write(
            f"{done['pipeline']}: {done['before']} → {done['after']}, pause {done['pause']:.1f} s, "
            f"{done['replayed']} records replayed\n"
        )


def _show(runner: Any, seconds: float | None) -> None:
    until = time.monotonic() + seconds if seconds is not None else float("inf")
    if sys.stdout.isatty():
        from rich.live import Live

        from gearshift.cli.tables import status_table

        with Live(status_table(runner.status()), refresh_per_second=2) as live:
            while time.monotonic() < until:
                time.sleep(0.5)
                live.update(status_table(runner.status()))
    else:
        while time.monotonic() < until:
            time.sleep(min(1.0, max(0.0, until - time.monotonic())))


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
