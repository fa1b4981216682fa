"""`gearshift status` and `ledger`: what is running and what has run, without starting Spark."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gearshift.cli.output import Output, OutputOption, print_json, read_settings


def status(output: OutputOption = Output.TEXT) -> None:
    """Show the stack and the running app."""
    from gearshift import stack
    from gearshift.console.client import ask
    from gearshift.errors import RunnerError

    settings = read_settings()
    found: dict[str, Any] = {"stack": stack.describe(settings), "runner": None}
    try:
        found["runner"] = next(iter(ask(settings.home, "GET", "/api/status")), None)
    except RunnerError:
        found["runner"] = None
    if output is Output.JSON:
        print_json(found)
    else:
        from gearshift.cli.tables import show_status

        show_status(found)


def ledger(
    pipeline: Annotated[
        str | None, typer.Argument(help="A pipeline; default: all.", show_default=False)
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show which gear processed which offsets, with gaps, replays and pauses."""
    from gearshift.errors import DefinitionError, LedgerError
    from gearshift.pipelines.ledger.listing import find_ledgers

    settings = read_settings()
    damaged: list[LedgerError] = []
    ledgers = find_ledgers(settings.checkpoints_uri, damaged)
    if pipeline is not None:
        names = sorted({each.pipeline for each in ledgers})
        ledgers = [each for each in ledgers if each.pipeline == pipeline]
        damaged = [each for each in damaged if each.pipeline == pipeline]
        if not ledgers and not damaged:
            raise DefinitionError(
                f"pipeline {pipeline!r} has no ledger",
                hint=f"use {', '.join(names)}" if names else "run an app first",
            )
    if output is Output.JSON:
        print_json(
            [
                {
                    **each.as_json(),
                    "intervals": [entry.as_json() for entry in each.intervals],
                    "failed_intervals": [failure.as_json() for failure in each.failed_intervals],
                }
                for each in ledgers
            ]
        )
    else:
        from gearshift.cli.tables import show_ledgers

        show_ledgers(ledgers)
    if damaged:
        raise damaged[0]
