"""`gearshift run`, `check`, `shift` and `scale`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from gearshift.cli.output import Output, OutputOption, explain, print_json, read_settings, say

FileArgument = Annotated[
    Path, typer.Argument(help="The Python file that declares the App.", show_default=False)
]


def run(
    file: FileArgument,
    seconds: Annotated[
        float | None, typer.Option("--for", help="Stop after this many seconds.", min=0)
    ] = None,
    deliveries_only: Annotated[
        bool,
        typer.Option(
            "--deliveries-only", help="Only add consumers for the deliveries of an app that runs elsewhere."
        ),
    ] = False,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby", help="If another runner of the app works, wait, and take over when it ends."
        ),
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Make the pages of the console read-only.")
    ] = False,
) -> None:
    """Run an app until Ctrl-C: stack, topics, schemas, pipelines, deliveries and sources."""
    from gearshift.errors import LeaseLostError
    from gearshift.runner.loading import load_app

    if deliveries_only and standby:
        raise typer.BadParameter("consumers share the work, so they need no standby", param_hint="--standby")
    settings = read_settings()
    app = load_app(file)
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        if deliveries_only:
            from gearshift.runner.deliveries.standalone import Deliveries

            with Deliveries(app, settings, file=file, progress=say) as deliveries:
                say(f"the deliveries of {app.name} are running; press Ctrl-C to stop")
                _show(deliveries, seconds)
            return
        from gearshift.runner.runner import Runner

        with Runner(app, settings, file=file, read_only=read_only, standby=standby, progress=say) as runner:
            say(f"{app.name} is running on {runner.stack.bootstrap_servers}; press Ctrl-C to stop")
            say(f"console: {runner.page}")
            try:
                _show(runner, seconds)
            except LeaseLostError as error:
                explain(error)
                os._exit(1)  # as a killed runner ends: an orderly end would write
    except KeyboardInterrupt:
        say("stopped")


def check(
    file: FileArgument,
    output: OutputOption = Output.TEXT,
) -> None:
    """Report which gears each pipeline supports; for each unsupported gear show the operator, the line and a fix."""
    from gearshift.runner.checking import check_app
    from gearshift.runner.loading import load_app

    settings = read_settings()
    reports = check_app(load_app(file), settings, say)
    if output is Output.JSON:
        print_json(reports)
    else:
        from gearshift.cli.tables import show_reports

        show_reports(reports)
    if any(report["error"] or not _can_run(report) for report in reports):
        raise typer.Exit(1)


def shift(
    pipeline: Annotated[str, typer.Argument(help="The pipeline's name.", show_default=False)],
    gear: Annotated[
        str,
        typer.Argument(
            help="batch, near-real-time or real-time; auto lets the gearbox decide again.", show_default=False
        ),
    ],
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait for the batch to end; replayed records are counted.")
    ] = False,
    hold: Annotated[
        str | None,
        typer.Option(
            "--hold", help='How long the gearbox leaves it there, such as "2 hours"; default: until auto.'
        ),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Shift a running pipeline to another gear on the same checkpoint."""
    from gearshift.freshness import Freshness, Gear

    if gear != "auto":
        Gear.named(gear)
    if hold is not None:
        Freshness.parse(hold)
    wanted = {"gear": gear, "now": now, "hold": hold}
    settings = read_settings()
    done: dict[str, Any] = next(iter(_followed(settings.home, pipeline, "shift", wanted).values()))
    if output is Output.JSON:
        print_json(done)
    elif gear == "auto":
        sys.stdout.write(f"{done['pipeline']}: the gearbox decides again\n")
    else:
        sys.stdout.write(
            f"{done['pipeline']}: {done['before']} → {done['after']}, pause {done['pause']:.1f} s, "
            f"{done['replayed']} records replayed\n"
        )


def scale(
    pipeline: Annotated[str, typer.Argument(help="The pipeline's name.", show_default=False)],
    parallelism: Annotated[
        int, typer.Argument(help="The number of shuffle partitions.", min=1, show_default=False)
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Move the state of a running pipeline to another number of shuffle partitions, on the same checkpoint."""
    done = _followed(read_settings().home, pipeline, "scale", {"parallelism": parallelism})["scaled"]
    if output is Output.JSON:
        print_json(done)
        return
    sys.stdout.write(
        f"{done['pipeline']}: {done['before']} → {done['after']} shuffle partitions in {done['gear']}, "
        f"pause {done['pause']:.1f} s, {done['replayed']} records replayed\n"
    )


def _followed(home: Path, pipeline: str, verb: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Ask the runner to work on a pipeline, show the steps, and return its last line."""
    from gearshift.console.client import ask
    from gearshift.console.problems import restore
    from gearshift.errors import RunnerError

    done: dict[str, Any] | None = None
    for line in ask(home, "POST", f"/api/pipelines/{quote(pipeline, safe='')}/{verb}", wanted):
        if "error" in line:
            raise restore(line["error"])
        if "step" in line:
            say(f"{line['step']}: {line['words']}")
        else:
            done = line
    if done is None:
        raise RunnerError(f"the runner exited during the {verb}", hint='resume with "gearshift run FILE"')
    return done


def why(
    pipeline: Annotated[str, typer.Argument(help="The pipeline's name.", show_default=False)],
    output: OutputOption = Output.TEXT,
) -> None:
    """Explain why a running pipeline is in its gear, and what would change it."""
    from gearshift.console.client import ask

    found = next(iter(ask(read_settings().home, "GET", f"/api/pipelines/{quote(pipeline, safe='')}/why")))
    if output is Output.JSON:
        print_json(found)
        return
    sys.stdout.write(f"{found['pipeline']} is in {found['gear']}: {found['why']}.\n")
    if found["change"]:
        sys.stdout.write(f"What would change it: {found['change']}.\n")


def _can_run(report: dict[str, Any]) -> bool:
    """Whether a pipeline supports its gear; one that chooses gears by itself was checked with its error."""
    return bool(report["chosen_by"] or report["gears"][report["declared"]]["ok"])


def _show(running: Any, seconds: float | None) -> None:
    until = time.monotonic() + seconds if seconds is not None else float("inf")
    if sys.stdout.isatty():
        from rich.live import Live

        from gearshift.cli.tables import status_table

        with Live(status_table(running.status()), refresh_per_second=2) as live:
            while time.monotonic() < until:
                time.sleep(0.5)
                running.require_working()
                live.update(status_table(running.status()))
    else:
        while time.monotonic() < until:
            time.sleep(min(1.0, max(0.0, until - time.monotonic())))
            running.require_working()


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
