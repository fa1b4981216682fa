"""The command line. Each command imports what it needs when it runs, so that `--help` is instant."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from gearshift.cli import (
    access,
    batch,
    cleaning,
    console,
    graph,
    groups,
    inspecting,
    letters,
    logs,
    recovering,
    running,
    stack,
    warehouse,
)
from gearshift.cli.output import explain
from gearshift.cli.projects import demo, init
from gearshift.cli.topic import topics
from gearshift.errors import GearshiftError

app = typer.Typer(
    name="gearshift",
    help="Data pipelines written once in PySpark that run over Kafka in three gears and shift between them live.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import gearshift

        typer.echo(f"gearshift {gearshift.__version__}")
        raise typer.Exit


@app.callback()
def options(
    log_format: Annotated[str, typer.Option(help="Log format: text or json.")] = "text",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more to stderr.")] = False,
    profile: Annotated[str | None, typer.Option(help="The profile of gearshift.toml to use.")] = None,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Print the version."),
    ] = False,
) -> None:
    """Options before the command."""
    from gearshift.cli.output import set_up_logging, use_profile

    if log_format not in ("text", "json"):
        raise typer.BadParameter("must be text or json", param_hint="--log-format")
    set_up_logging(log_format, logging.INFO if verbose else logging.WARNING)
    use_profile(profile)


app.command()(init.init)
app.command()(demo.demo)
app.command()(running.run)
app.command()(running.check)
app.command()(running.shift)
app.command()(running.scale)
app.command()(running.why)
app.command()(recovering.reset)
app.command()(recovering.resume)
app.command()(recovering.rename)
app.command()(graph.graph)
app.command()(access.acls)
app.command()(console.console)
app.command()(inspecting.status)
app.command()(inspecting.ledger)
app.command()(logs.logs)
app.command()(warehouse.sql)
app.command()(stack.up)
app.command()(stack.down)
app.command()(stack.doctor)
app.command()(cleaning.clean)
app.add_typer(batch.app, name="batch")
app.add_typer(groups.app, name="group")
app.add_typer(letters.app, name="dlq")
app.add_typer(topics.app, name="topic")
app.add_typer(warehouse.app, name="table")


def main() -> None:
    """Run the command line; a GearshiftError prints as a message, not as a traceback."""
    try:
        app()
    except GearshiftError as error:
        sys.exit(explain(error))
